"""Changes of a testbed's links while it is up, by `anabranch testbed set`."""

from __future__ import annotations

import importlib
import json
import re
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from anabranch import Scenario
from anabranch._core.simulator import Request
from anabranch.errors import InputError, RunFailed
from anabranch.testbed import bed as beds
from anabranch.testbed import control
from anabranch.testbed.bed import Testbed
from command import anabranch
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCENARIO = """
title = "A link"
duration = "2 s"
[[link]]
name = "wire"
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "1 ms"
queue = { kind = "fifo", limit = "50 packets" }
[[link]]
name = "spare"
between = ["A", "B"]
rate = "10 Mbit/s"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"
workload = { kind = "saturated" }
"""


pytestmark = [pytest.mark.machine, pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))]


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


@pytest.fixture
def up(scenario: str) -> Iterator[str]:
    """A testbed that is up."""
    done = anabranch("testbed", "up", scenario)
    assert done.returncode == 0, done.stderr
    try:
        yield scenario
    finally:
        anabranch("testbed", "down", scenario)


@pytest.fixture
def bed(scenario: str) -> Iterator[Testbed]:
    """A testbed of this process."""
    text = Scenario.from_file(scenario).text
    with Testbed(Request(text, scenario)) as testbed:
        testbed.start()
        yield testbed


def said(*arguments: str, status: int = 0) -> str:
    done = anabranch("testbed", *arguments)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


REFUSED = """
import socket, time
times = []
for _ in range(3):
    with socket.socket() as end:
        begun = time.monotonic()
        assert end.connect_ex(("B", 9)) == 111, "connection refused"
        times.append(time.monotonic() - begun)
print(1000 * min(times))
"""


def round_trip_ms(scenario: str) -> float:
    """Time until the other host refuses a connection."""
    return float(said("shell", scenario, sys.executable, "-c", REFUSED))


def test_new_values_are_printed_listed_and_used(up: str) -> None:
    assert round_trip_ms(up) < 30
    output = said("set", up, "link.wire.delay=40 ms", "link.wire.queue.limit=30 packets", "--direction", "forward")
    assert [line.split("  ") for line in re.sub(" {2,}", "  ", output).splitlines()] == [
        ["link.wire.delay", "forward", "1 ms", "->", "40 ms"],
        ["link.wire.queue.limit", "forward", "50 packets", "->", "30 packets"],
    ]
    assert 41 < round_trip_ms(up) < 70
    rows = [re.split(" {2,}", line.strip()) for line in said("list").splitlines()]
    wire = [row for row in rows if row[0] == "wire"]
    assert [row[1] for row in wire] == ["forward", "reverse"]
    assert [("delay 40 ms" in row, "delay 1 ms" in row) for row in wire] == [(True, False), (False, True)]
    assert [row[1] for row in rows if row[0] == "spare"] == ["both"]


def test_host_interface_goes_down_with_its_link(up: str) -> None:
    state = ("shell", up, "ip", "-br", "link", "show", "wire")
    assert " UP " in said(*state) or " UNKNOWN " in said(*state)
    said("set", up, "link.wire.state=down")
    assert " DOWN " in said(*state)
    said("set", up, "link.wire.state=up")
    assert " DOWN " not in said(*state)
    assert round_trip_ms(up) < 30


def test_invalid_settings_change_nothing(up: str) -> None:
    for settings, says in (
        (["link.wire.delay=40 ms", "link.wyre.rate=1 Mbit/s"], 'there is no link "wyre"; did you mean "wire"?'),
        (["link.wire.delay=40 ms", "link.wire.mtu=500"], '"link.wire.mtu" cannot be set'),
        (["link.wire.delay=40 ms", "link.wire.rate=fast"], "rate"),
        (["link.wire.delay"], "the value is missing; write KEY=VALUE"),
    ):
        assert says in said("set", up, *settings, status=2)
    assert round_trip_ms(up) < 30


def test_testbeds_that_cannot_be_changed_are_refused(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not up; use: anabranch testbed up" in said("set", scenario, "link.wire.delay=40 ms", status=2)
    assert "Invalid value for '--direction'" in said("set", scenario, "a=b", "--direction", "down", status=2)
    command: Any = importlib.import_module("anabranch.cli.testbed")
    monkeypatch.setattr(beds, "holder", lambda _: {"links": "netem"})
    with pytest.raises(InputError, match="links of netem cannot be changed; start the testbed without"):
        command.set_.callback(scenario, ("link.wire.delay=40 ms",), "both", "a")


def test_caller_waits_a_second_at_most(bed: Testbed) -> None:
    path = beds.LOCKS / f"{bed.name}.sock"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    # A caller that sends nothing is disconnected, so that the next caller is served.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(path))
        begun = time.monotonic()
        beds.change(bed.name, ["link.wire.delay=2 ms"], "both")
        assert time.monotonic() - begun < 1
    held = threading.Event()

    def hold(_: Mapping[str, Any]) -> None:
        held.wait(3)

    server = control.Server(path.with_suffix(".test"), hold)
    try:
        first = threading.Thread(target=control.call, args=(path.with_suffix(".test"), {}))
        first.start()
        time.sleep(0.2)
        begun = time.monotonic()
        with pytest.raises(RunFailed, match="another caller changes this testbed for more than 1 s"):
            control.call(path.with_suffix(".test"), {})
        assert 0.9 < time.monotonic() - begun < 1.5
    finally:
        held.set()
        first.join()
        server.close()


def test_invalid_requests_are_answered(bed: Testbed) -> None:
    path = beds.LOCKS / f"{bed.name}.sock"
    for request in (b"no json\n", b"[]\n", b'{"set": [3]}\n', b'{"set": ["link.wire.rate=1"], "direction": 5}\n'):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            assert caller.recv(100) == b"ready\n"
            caller.sendall(request)
            answer = json.loads(caller.recv(10_000))
        assert "input" in answer or "failure" in answer, request
    assert beds.change(bed.name, ["link.wire.rate=1 Mbit/s"], "reverse") == [
        {"link": "wire", "direction": "reverse", "key": "rate", "old": "10 Mbit/s", "new": "1 Mbit/s"}
    ]


def test_changes_apply_soon(bed: Testbed) -> None:
    times = []
    for number in range(40):
        begun = time.monotonic()
        beds.change(bed.name, [f"link.wire.rate={5 + number % 2} Mbit/s"], "both")
        times.append(time.monotonic() - begun)
    # A busy machine is slower now and then.
    assert sorted(times)[20] < 0.01, times
