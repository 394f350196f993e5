"""Coupled congestion controls in the kernel: `anabranch cc`, and scenarios that use one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from anabranch import InputError, Scenario, run
from anabranch._core.program import Program
from anabranch.testbed import controls, loader
from anabranch.testbed.kernel import Kernel
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Iterator

MPTCP_FLOW = {
    "name": "F",
    "protocol": "mptcp",
    "congestion": "lia",
    "direction": "forward",
    "workload": {"kind": "saturated"},
}

SCENARIO = """
title = "Two ways, coupled"
duration = "4 s"
warmup = "1 s"
[link_defaults]
delay = "10 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[link]]
name = "one"
between = ["A", "B"]
rate = "6 Mbit/s"
[[link]]
name = "two"
between = ["A", "B"]
rate = "4 Mbit/s"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "mptcp"
congestion = "lia"
"""

CONNECT = """
import os, socket, sys, threading
kind = int(sys.argv[1])
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind)
server.bind(("127.0.0.1", 0))
server.listen()
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, kind)
client.connect(server.getsockname())
accepted, _ = server.accept()
for end in (client, accepted):
    print(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
"""
pytestmark = pytest.mark.machine


def _missing() -> str | None:
    if sys.platform != "linux":
        return "controls are loaded into Linux"
    if loader.LOADER.find() is None:
        return f"{loader.LOADER.name} is not installed"
    status = subprocess.run([loader.LOADER.path(), "status", "--json"], capture_output=True, text=True, check=False)
    if status.returncode != 0:
        return status.stderr.strip()
    for finding in json.loads(status.stdout)["machine"]:
        if not finding["there"]:
            return f"no {finding['what']} here; {finding['remedy']}"
    if any(loader.kernel_name(name) in Kernel.read().controls for name in loader.loadable()):
        return "controls were loaded before the test and stay loaded"
    return None


_LACKING = _missing()
loads = pytest.mark.skipif(_LACKING is not None, reason=_LACKING or "")


@pytest.fixture
def unloaded() -> Iterator[None]:
    """Unloads all controls that a test loaded."""
    yield
    if loader.loaded():
        done = anabranch("cc", "unload")
        assert done.returncode == 0, done.stderr


@loads
@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("control", ["lia", "olia", "balia", "cmt-rpv1", "cmt-rpv2", "wvegas"])
def test_scenario_uses_its_congestion_control(control: str) -> None:
    with controls.loaded([control]):
        # wVegas adds one packet in a round trip, so that its second path needs longer.
        duration = "8 s" if control == "wvegas" else "4 s"
        settings = (f"flow.F.congestion={control}", f'duration="{duration}"')
        result = run(Scenario(SCENARIO).with_settings(settings), world="kernel")
        # The inner run has ended, but the enclosing block still uses the control.
        assert _is_there(control)
        listed, status = anabranch("cc", "list").stdout, anabranch("cc", "status").stdout
    assert not _is_there(control)
    (flow,) = result.document["flows"]
    assert (flow["congestion"], flow["fallback"]) == (control, False)
    assert sum(path["goodput_bps"] > 1e6 for path in flow["paths"]) >= 2
    (line,) = [line for line in listed.splitlines() if line.startswith(f"{control} ")]
    assert "loaded by" in line
    (line,) = [line for line in status.splitlines() if line.startswith(f"{control} ")]
    coupled = re.search(r"(\d+) of them with coupled paths", line)
    assert coupled is not None
    assert int(coupled[1]) > 20


def _is_there(control: str) -> bool:
    return loader.kernel_name(control) in Kernel.read().controls


@loads
@pytest.mark.usefixtures("unloaded")
def test_foreign_controls_stay_loaded() -> None:
    assert anabranch("cc", "load", "lia").returncode == 0
    with controls.loaded(["lia", "olia"]):
        assert anabranch("cc", "load", "--floor", "1", "olia").returncode == 0
    assert _is_there("lia")
    assert _is_there("olia")
    assert not list(controls.FOLDER.glob("*lia"))


@loads
@pytest.mark.usefixtures("unloaded")
def test_next_run_unloads_controls_of_a_killed_run() -> None:
    hold = (
        "from anabranch.testbed.controls import loaded\nwith loaded(['balia']):\n print('there', flush=True)\n input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        controls.sweep()
        assert _is_there("balia")
        process.kill()
    assert _is_there("balia")
    controls.sweep()
    assert not _is_there("balia")


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/self/autogroup").exists(), reason="only root may put a session before others"
)
def test_session_priority_is_raised_only_during_a_run() -> None:
    # Use a new session: other tests must not share its priority.
    script = """
from pathlib import Path
from anabranch.testbed.priority import session_first
nice = lambda: Path("/proc/self/autogroup").read_text().split()[-1]
with session_first():
    during = nice()
    with session_first():
        pass
    print(during, nice())
print(nice())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout.split() == ["-20", "-20", "0"]


@loads
@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(("kind", "what"), [(6, "TCP"), (262, "Multipath TCP")])
def test_command_and_its_children_use_the_control(kind: int, what: str, tmp_path: Path) -> None:
    (tmp_path / "connect.py").write_text(CONNECT, encoding="utf-8")
    assert anabranch("cc", "load", "cmt-rpv2").returncode == 0
    child = f"{sys.executable} {tmp_path / 'connect.py'} {kind}"
    done = anabranch("cc", "run", "cmt-rpv2", "--", "sh", "-c", f"{child}; exit 5")
    assert (done.returncode, done.stdout.split()) == (5, ["cmt_rpv2", "cmt_rpv2"]), what + done.stderr
    before = subprocess.run(child.split(), capture_output=True, text=True, check=True)
    assert "cmt_rpv2" not in before.stdout


def _in_kernel() -> dict[str, int]:
    """Numbers of the kernel's BPF programs, maps and links."""
    return {
        kind: len(
            json.loads(subprocess.run(["bpftool", "-j", kind], capture_output=True, text=True, check=True).stdout)
        )
        for kind in ("prog", "map", "link")
    }


@loads
@pytest.mark.skipif(
    shutil.which("bpftool") is None, reason="bpftool is not installed, which counts what the kernel has"
)
@pytest.mark.usefixtures("unloaded")
def test_exchanged_controls_leave_nothing_loaded(tmp_path: Path) -> None:
    # ANABRANCH_TIMES=1000 repeats the test a thousand times.
    times = int(os.environ.get("ANABRANCH_TIMES", "12"))
    script = Path(__file__).parent / "controls_under_traffic.py"
    names = loader.loadable()
    before = _in_kernel()
    errors = tmp_path / "errors"
    with (
        errors.open("w", encoding="utf-8") as stderr,
        subprocess.Popen(
            ["unshare", "-n", sys.executable, script, "olia"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
        ) as traffic,
    ):  # fmt: skip
        assert traffic.stdin is not None
        assert traffic.stdout is not None
        assert traffic.stdout.readline() == "ready\n", errors.read_text()
        for time in range(times):
            other = names[time % len(names)]
            for arguments in (("load", "olia"), ("load", other), ("load", "olia"), ("unload",)):
                done = subprocess.run([loader.LOADER.path(), *arguments], capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
        traffic.stdin.close()
        said = traffic.stdout.read().split()
    assert traffic.returncode == 0, f"{said}\n{errors.read_text()}"
    connections, joins = int(said[0]), int(said[1])
    assert connections > times
    assert joins > times
    # The kernel frees the last programs a short time after their connections have ended.
    deadline = monotonic() + 90
    while any(_in_kernel()[kind] > count for kind, count in before.items()) and monotonic() < deadline:
        sleep(0.5)
    after = _in_kernel()
    assert all(after[kind] <= count for kind, count in before.items()), (before, after)


def test_missing_loader_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "find", lambda _: None)
    loader.loadable.cache_clear()
    flow = MPTCP_FLOW
    with pytest.raises(InputError, match=r"make build.*anabranch cc load lia"):
        Kernel("6.12", ("reno",), ("default",), mptcp=True, tun=True).check([flow])
    loader.loadable.cache_clear()
    with pytest.raises(InputError, match="not installed"):
        loader.LOADER.path()


@pytest.mark.skipif(sys.platform != "linux", reason="controls are loaded into Linux")
@pytest.mark.parametrize("name", ["nothing", "plain", ""])
def test_unknown_program_name_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").write_text("no program", encoding="utf-8")
    monkeypatch.setenv("ANABRANCH_CC", str(tmp_path / name))
    done = anabranch("cc", "list")
    assert done.returncode != 0
    assert "which is not an executable file" in done.stderr
    assert "Traceback" not in done.stderr


def test_unprivileged_load_reports_the_root_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "loadable", lambda: ("lia",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    kernel = Kernel("6.12", ("reno",), ("default",), mptcp=True, tun=True)
    with pytest.raises(InputError, match="run as root: anabranch cc load lia"):
        kernel.check([MPTCP_FLOW])
    with pytest.raises(InputError, match="no congestion control lia-2011"):
        kernel.check([{**MPTCP_FLOW, "protocol": "tcp", "congestion": "lia-2011"}])
