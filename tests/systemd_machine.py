"""A machine for unit files: systemd as the first process of separate namespaces, with a separate root."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("systemd_machine.sh")
TIMEOUT_S = 120.0
TARGETS = ("basic", "machine", "multi-user", "network-online", "network-pre", "shutdown", "sysinit", "umount")
PROGRAMS = ("ip", "nft", "nsenter", "systemd-analyze", "unshare")
"""Programs that the machine and the units need."""


def missing() -> str:
    """Reason why this machine cannot start units; empty if it can."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if not Path("/lib/systemd/systemd").exists():
        lacking.append("systemd")
    if lacking:
        return f"needs {', '.join(lacking)}"
    if os.geteuid() != 0:
        return "needs root"
    return "" if _cgroups() else "needs a mounted cgroup2"


def _cgroups() -> Path | None:
    """The folder of this process in the hierarchy of cgroup2."""
    own = next((line[3:].strip() for line in _lines("/proc/self/cgroup") if line.startswith("0::")), None)
    mounted = next((line.split()[1] for line in _lines("/proc/mounts") if line.split()[2] == "cgroup2"), None)
    return None if own is None or mounted is None else Path(mounted) / own.lstrip("/")


def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


class Machine:
    """A running systemd, and its logs by unit."""

    def __init__(self, process: int) -> None:
        self._process = process

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine."""
        enter = ["nsenter", "--target", str(self._process), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup",
                 "--root", "--wd=/", "env", "SYSTEMD_UNIT_PATH=/units"]  # fmt: skip
        return subprocess.run([*enter, *command], capture_output=True, text=True, check=False)

    def wait_for(self, wanted: str, *command: str) -> None:
        """Wait until a command prints this word."""
        deadline = time.monotonic() + TIMEOUT_S
        while wanted not in (found := self.call(*command)).stdout:
            assert time.monotonic() < deadline, f"{command}: {found.stdout}{found.stderr}"
            time.sleep(0.1)

    def log(self, unit: str) -> str:
        """Everything that a unit has printed."""
        return self.call("cat", f"/run/log-{unit}").stdout


def _write_units(folder: Path, source: Path, configs: dict[str, str]) -> None:
    for name in TARGETS:
        (folder / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n", encoding="utf-8")
    for unit in source.glob("*.service"):
        shutil.copy(unit, folder)
        drop_in = folder / f"{unit.name}.d"
        drop_in.mkdir()
        # The machine runs no journal, so the services log to files.
        (drop_in / "log.conf").write_text("[Service]\nStandardOutput=append:/run/log-%n\n", encoding="utf-8")
    for name, text in configs.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


@contextmanager
def running(folder: Path, source: Path, configs: dict[str, str], program: Path) -> Iterator[Machine]:
    """A machine with the units of a folder, with configurations in /etc/anabranch and with `anabranch-proxy`."""
    units, root = folder / "units", folder / "root"
    units.mkdir()
    root.mkdir()
    _write_units(units, source, configs)
    parent = _cgroups()
    assert parent is not None
    group = parent / f"anabranch-units-{os.getpid()}"
    group.mkdir()
    inner = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc", "--cgroup",
             str(SCRIPT), str(root), str(units), str(program)]  # fmt: skip
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *inner]
    outer = subprocess.Popen(enter, stderr=subprocess.PIPE, text=True)
    try:
        machine = Machine(_first_process(outer))
        machine.wait_for("running", "systemctl", "is-system-running")
        yield machine
    finally:
        outer.kill()
        outer.wait()
        _remove(group)


def _first_process(outer: subprocess.Popen[str]) -> int:
    """Process id of the machine's first process, once it executes systemd."""
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        assert outer.poll() is None, outer.stderr.read() if outer.stderr else ""
        assert time.monotonic() < deadline, "systemd does not start"
        with suppress(OSError):
            for child in children.read_text(encoding="utf-8").split():
                if Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == "systemd":
                    return int(child)
        time.sleep(0.05)


def _remove(group: Path) -> None:
    """Remove the groups of a machine, whose processes are ending."""
    deadline = time.monotonic() + TIMEOUT_S
    while group.exists():
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        assert time.monotonic() < deadline, f"{group} is still in use"
        time.sleep(0.05)
