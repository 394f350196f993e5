"""Unit files of systemd: exposure (`systemd-analyze security`), memory limits, syntax, and start."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import systemd_machine
from anabranch.testbed.proxies import PROXY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from systemd_machine import Machine

DIST = Path(__file__).parents[1] / "apps" / "proxy" / "dist"
MAX_EXPOSURE = {
    "anabranch-convert.service": 2.0,
    "anabranch-proxy@.service": 2.0,
    "anabranch-router.service": 3.0,
    "anabranch-uplinks.service": 3.0,
}
CONFIGS = {
    "convert": '[convert]\nlisten = ["127.0.0.1:1082"]\n',
    "proxy": (
        '[socks]\nlisten = ["127.0.0.1:1080"]\n'
        '[[reverse]]\nname = "web"\nlisten = ["127.0.0.1:1443"]\nto = ["127.0.0.1:1"]\n'
    ),
    "router": '[router]\ninterfaces = ["lan0"]\n[router.via]\nproxy = "198.51.100.7:1080"\nprotocol = "socks"\n',
    "uplinks": (
        '[[uplink]]\ninterface = "wlan0"\ngateway = "198.51.100.2"\n'
        '[[uplink]]\ninterface = "wwan0"\ngateway = "203.0.113.2"\nuse = "backup"\n'
        '[uplinks]\nprobe = []\nstate = "/var/lib/anabranch-proxy"\n'
    ),
}
STARTED = {
    "anabranch-convert.service": "listening on 127.0.0.1:1082",
    "anabranch-proxy@reverse.service": "listening on 127.0.0.1:1443",
    "anabranch-proxy@socks.service": "listening on 127.0.0.1:1080",
    "anabranch-router.service": "listening on 127.0.0.1:1081",
    "anabranch-uplinks.service": "wlan0",
}
"""For each unit, the text of its log that shows that it does its work."""


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


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if reason := systemd_machine.missing():
        pytest.skip(reason)
    program = PROXY.find()
    if program is None:
        pytest.skip(f"{PROXY.name} is not installed")
    with systemd_machine.running(tmp_path_factory.mktemp("units"), DIST, CONFIGS, program) as found:
        yield found


@pytest.mark.machine
@pytest.mark.parametrize("unit", STARTED)
def test_units_have_no_mistakes(machine: Machine, unit: str) -> None:
    judged = machine.call("systemd-analyze", "verify", "--man=no", f"/units/{re.sub('@.*[.]', '@.', unit)}")
    assert (judged.returncode, judged.stdout + judged.stderr) == (0, "")


@pytest.mark.machine
@pytest.mark.parametrize("unit", STARTED)
def test_units_start_and_stop(machine: Machine, unit: str) -> None:
    started = machine.call("systemctl", "start", unit)
    assert started.returncode == 0, machine.call("systemctl", "status", unit).stdout + machine.log(unit)
    machine.wait_for(STARTED[unit], "cat", f"/run/log-{unit}")
    shown = machine.call("systemctl", "show", unit, "--property=ActiveState,NRestarts,UID,MainPID").stdout.split()
    assert {"ActiveState=active", "NRestarts=0"} <= set(shown)
    process = next(word.partition("=")[2] for word in shown if word.startswith("MainPID="))
    status = machine.call("cat", f"/proc/{process}/status").stdout
    assert re.search(r"^Uid:\t[1-9]", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    stopped = machine.call("systemctl", "stop", unit)
    assert stopped.returncode == 0, stopped.stderr
    assert "ActiveState=inactive" in machine.call("systemctl", "show", unit, "--property=ActiveState,Result").stdout
