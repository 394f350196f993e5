"""Unit files of systemd: exposure (`systemd-analyze security`), memory limits, and start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

DIST = Path(__file__).parents[1] / "apps" / "proxy" / "dist"
MAX_EXPOSURE = {
    "anabranch-convert.service": 2.0,
    "anabranch-proxy@.service": 2.0,
    "anabranch-router.service": 3.0,
    "anabranch-uplinks.service": 3.0,
}
UNITS = Path("/run/systemd/system")
PROGRAM = Path("/usr/local/sbin/anabranch-proxy")


def test_every_unit_has_a_limit_of_exposure() -> None:
    assert {unit.name for unit in DIST.glob("*.service")} == set(MAX_EXPOSURE)


@pytest.mark.parametrize("unit", MAX_EXPOSURE)
def test_units_limit_memory(unit: str) -> None:
    assert re.search(r"^MemoryMax=\d+[%M]$", (DIST / unit).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
@pytest.mark.parametrize(("unit", "most"), MAX_EXPOSURE.items())
def test_exposure_of_units_is_low(unit: str, most: float) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(DIST / unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", judged.stdout)
    assert found, judged.stderr
    assert float(found[1]) <= most


@pytest.mark.machine
@pytest.mark.skipif(
    os.geteuid() != 0 or not UNITS.is_dir() or not PROGRAM.exists(),
    reason="needs root, a running systemd and /usr/local/sbin/anabranch-proxy",
)
def test_socks_unit_starts(tmp_path: Path) -> None:
    config = tmp_path / "proxy.toml"
    config.write_text('[socks]\nlisten = ["127.0.0.1:0"]\n', encoding="utf-8")
    unit = UNITS / "anabranch-unit-test@.service"
    text = (DIST / "anabranch-proxy@.service").read_text(encoding="utf-8")
    unit.write_text(text.replace("/etc/anabranch/proxy.toml", str(config)), encoding="utf-8")

    def systemctl(*arguments: str) -> str:
        return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False).stdout.strip()

    try:
        systemctl("daemon-reload")
        systemctl("start", "anabranch-unit-test@socks")
        deadline = time.monotonic() + 60
        while (state := systemctl("is-active", "anabranch-unit-test@socks")) == "activating":
            assert time.monotonic() < deadline, "it is not ready within a minute"
            time.sleep(0.1)
        assert state == "active"
    finally:
        systemctl("stop", "anabranch-unit-test@socks")
        unit.unlink()
        systemctl("daemon-reload")
