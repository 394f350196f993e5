"""Testbeds on two machines: two network namespaces, which a pair of veth connects, stand for the machines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as anabranch_package
from command import anabranch
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIO = """
title = "Two machines"
duration = "10 s"
[[link]]
name = "lan"
between = ["client", "router"]
rate = "20 Mbit/s"
delay = "5 ms"
[[link]]
name = "wan"
between = ["router", "server"]
rate = "50 Mbit/s"
delay = "10 ms"
tunnel = { kind = "udp", local = "192.0.2.1", remote = "192.0.2.2", key = 7 }
[[flow]]
from = "client"
to = "server"
protocol = "tcp"
[testbed.machines]
a = ["client", "router"]
b = ["server"]
"""

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(bool(missing("ip", "nsenter")), reason=missing("ip", "nsenter")),
]


def ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True)


class Machines:
    """Two machines, and a scenario for both."""

    def __init__(self, folder: Path) -> None:
        self.names = {machine: f"m{os.getpid()}{machine}" for machine in "ab"}
        self.file = str(folder / "s.toml")
        self.running: list[subprocess.Popen[str]] = []
        self.write(SCENARIO)

    def write(self, text: str) -> None:
        Path(self.file).write_text(text, encoding="utf-8")

    def connect(self, mtu: int) -> None:
        """Connect the machines by a pair of veth."""
        for machine, name in self.names.items():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            if machine == "b":
                ip("link", "add", "out", "netns", self.names["a"], "type", "veth", "peer", "name", "out", "netns", name)
        for number, name in enumerate(self.names.values(), 1):
            ip("-n", name, "address", "add", f"192.0.2.{number}/24", "dev", "out")
            ip("-n", name, "address", "add", f"2001:db8:2::{number}/64", "dev", "out", "nodad")
            ip("-n", name, "link", "set", "out", "up", "mtu", str(mtu))

    def within(self, machine: str) -> list[str]:
        """The start of a command line of a machine. Mounts are the same, unlike with `ip netns exec`."""
        return ["nsenter", f"--net=/run/netns/{self.names[machine]}"]

    def start(self, machine: str, *command: str, file: str | None = None) -> subprocess.Popen[str]:
        """Start `anabranch testbed` on a machine."""
        line = [*self.within(machine), sys.executable, "-m", "anabranch", "testbed", command[0], file or self.file]
        started = subprocess.Popen(
            [*line, "--machine", machine, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.running.append(started)
        return started

    def up(self, *, other: str | None = None) -> list[tuple[int, str, str]]:
        """Start the testbed on both machines; returns status, output and messages of each."""
        started = [self.start("a", "up"), self.start("b", "up", file=other)]
        ended = [process.communicate(timeout=100) for process in started]
        return [(process.returncode, *texts) for process, texts in zip(started, ended, strict=True)]

    def call(self, machine: str, *command: str, status: int = 0) -> str:
        process = self.start(machine, *command)
        out, messages = process.communicate(timeout=60)
        assert process.returncode == status, messages
        return out if status == 0 else messages

    def process(self, machine: str) -> int:
        """The process of a machine's part."""
        return int(next(row for row in self.rows() if row[-1] == f"machine {machine}")[1])

    def rows(self) -> list[list[str]]:
        return [re.split(" {2,}", line) for line in anabranch("testbed", "list").stdout.splitlines()]

    def counts(self, machine: str) -> dict[str, int]:
        """Counters of the tunnel of a machine's part."""
        rows = self.rows()
        of_part = rows[[row[-1] for row in rows].index(f"machine {machine}") :]
        row = next(row for row in of_part if row[1].startswith("tunnel "))
        return {key: int(value) for key, value in (cell.rsplit(" ", 1) for cell in row[2:])}

    def are_up(self) -> bool:
        return any(self.file in row for row in self.rows())

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=60)
        for machine, name in self.names.items():
            anabranch("testbed", "down", self.file, "--machine", machine)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    both = Machines(tmp_path)
    try:
        yield both
    finally:
        both.end()


RECEIVE = """
import socket, time
with socket.create_server(("", 9)) as listener:
    print("ready", flush=True)
    connection, _ = listener.accept()
connection.recv(1 << 16)
begun, since, count = time.monotonic(), None, 0
while data := connection.recv(1 << 16):
    last = time.monotonic()
    if since is not None:
        count += len(data)
    elif last > begun + 2:
        since = last
print(8e-6 * count / (last - since))
"""

SEND = """
import socket, sys, time
with socket.create_connection(("server", 9)) as connection:
    until = time.monotonic() + 8
    while time.monotonic() < until:
        connection.sendall(bytes(1 << 16))
"""


def goodput(receiver: list[str], sender: list[str]) -> float:
    """Mbit/s of a connection, without its first two seconds; both command lines run a program on a host."""
    receiving = subprocess.Popen([*receiver, sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
    assert receiving.stdout is not None
    assert receiving.stdout.readline() == "ready\n"
    subprocess.run([*sender, sys.executable, "-c", SEND], check=True, timeout=60)
    return float(receiving.communicate(timeout=60)[0])


def t2() -> str:
    """The network of Seemann 2020, section 8.2: the server is on the other machine."""
    text = (Path(anabranch_package.__file__).parent / "studies/seemann2020/t2.toml").read_text(encoding="utf-8")
    tunnel = 'tunnel = { kind = "gre", local = "192.0.2.1", remote = "192.0.2.2", key = 5000 }'
    text = text.replace('between = ["switch", "switch-2"]', f'between = ["switch", "switch-2"]\n{tunnel}')
    table = '[testbed.machines]\na = ["client", "router", "switch", "proxy"]\nb = ["switch-2", "server"]\n'
    return f"{text}\n{table}"


def test_flow_has_the_rate_of_one_machine(machines: Machines) -> None:
    machines.write(t2())
    machines.connect(1528)
    shell = [sys.executable, "-m", "anabranch", "testbed", "shell", machines.file]
    assert anabranch("testbed", "up", machines.file).returncode == 0
    try:
        one = goodput([*shell, "--in", "server"], shell)
    finally:
        anabranch("testbed", "down", machines.file)
    for status, _, messages in machines.up():
        assert status == 0, messages
    two = goodput([*shell, "--machine", "b", "--in", "server"], [*shell, "--machine", "a"])
    print(f"one machine {one:.3f} Mbit/s, two machines {two:.3f} Mbit/s")
    assert two == pytest.approx(one, rel=0.02)
    for machine in "ab":
        counts = machines.counts(machine)
        assert [counts[key] for key in ("not sent", "too long", "wrong key", "invalid")] == [0] * 4


V4 = 'local = "192.0.2.1", remote = "192.0.2.2"'
V6 = 'local = "2001:db8:2::1", remote = "2001:db8:2::2"'


@pytest.mark.parametrize(
    ("tunnel", "overhead"),
    [
        (f'kind = "gre", {V4}, key = 7', 28),
        (f'kind = "gre", {V4}', 24),
        (f'kind = "udp", {V4}, key = 7', 36),
        (f'kind = "gre", {V6}, key = 7', 48),
        (f'kind = "udp", {V6}, key = 7', 56),
    ],
)
def test_outer_mtu_needs_room_for_the_headers(machines: Machines, tunnel: str, overhead: int) -> None:
    machines.write(SCENARIO.replace(f'kind = "udp", {V4}, key = 7', tunnel))
    machines.connect(1500 + overhead - 1)
    for machine, (status, _, messages) in zip("ab", machines.up(), strict=True):
        assert status == 2, machine
        assert f"the network carries packets of at most {1499 + overhead} bytes" in messages
        assert f'link "wan" needs {1500 + overhead}, its mtu and the headers' in messages
    assert not machines.are_up()
    for name in machines.names.values():
        ip("-n", name, "link", "set", "out", "mtu", str(1500 + overhead))
    for status, _, messages in machines.up():
        assert status == 0, messages
    # The other host is reached through the tunnel, and refuses.
    connect = 'import socket; print(socket.socket().connect_ex(("server", 9)))'
    assert machines.call("a", "shell", sys.executable, "-c", connect) == "111\n"


def test_different_scenarios_are_refused(machines: Machines, tmp_path: Path) -> None:
    machines.connect(1536)
    other = tmp_path / "other.toml"
    other.write_text(SCENARIO.replace("20 Mbit/s", "21 Mbit/s"), encoding="utf-8")
    for (status, _, messages), peer in zip(machines.up(other=str(other)), "ba", strict=True):
        assert (status, f"machine {peer} has another scenario; use the same file" in messages) == (2, True), messages


def test_end_of_one_machine_ends_the_other(machines: Machines) -> None:
    machines.connect(1536)
    assert [status for status, *_ in machines.up()] == [0, 0]
    assert machines.call("b", "down") == "taken down\n"
    wait_for(lambda: not machines.are_up(), 10)
    assert machines.call("a", "down") == "this testbed has ended: machine b was taken down\n"
    assert machines.call("a", "down") == "this testbed is not up\n"


def wait_for(condition: object, seconds: float) -> None:
    """Wait until a condition holds."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_lost_contact_ends_both_machines(machines: Machines) -> None:
    machines.connect(1536)
    assert [status for status, *_ in machines.up()] == [0, 0]
    ip("-n", machines.names["a"], "link", "set", "out", "down")
    wait_for(lambda: not machines.are_up(), 10)
    for machine, peer in ("ab", "ba"):
        reason = machines.call(machine, "down")
        assert re.match(f"this testbed has ended: lost contact with machine {peer} at .* for 3 s", reason), reason


def test_killed_machine_leaves_nothing(machines: Machines) -> None:
    machines.connect(1536)
    hosts = set()
    for status, out, messages in machines.up():
        assert status == 0, messages
        hosts |= {line.split()[1] for line in out.splitlines()}
    assert len(hosts) == 2
    os.kill(machines.process("a"), 9)
    wait_for(lambda: not machines.are_up(), 10)
    assert "lost contact with machine a" in machines.call("b", "down")
    machines.call("a", "down")
    listed = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert not hosts & set(listed.split())
    assert [status for status, *_ in machines.up()] == [0, 0]


ATTACK = """
import os, random, socket, struct
draws = random.Random(1)
heads = [b"", bytes([0x20, 0]), struct.pack("!HHI", 0x2000, 0x0800, 8), struct.pack("!HHI", 0x2000, 0x88b5, 8)]
control = struct.pack("!HHI", 0x2000, 0x88b5, 7) + b"ABTM"
heads += [struct.pack("!HHI", 0x2000, kind, 7) for kind in (0x0800, 0x86dd, 0x88b5)]
with socket.socket(socket.AF_INET, socket.SOCK_RAW, 47) as attacker:
    for number in range(3000):
        body = draws.randbytes(draws.randrange(1400))
        if number % 3 == 0:
            head = control + bytes([1, draws.randrange(6), 0, 0]) + draws.randbytes(8)
            body = bytes(8) + body[: draws.choice((16, 18, 25, 87, 500))]
        else:
            head = draws.choice(heads)
            body = bytes([draws.choice((0x45, 0x60, body[0] if body else 0))]) + body
        attacker.sendto(head + body, ("192.0.2.1", 0))
        # An IPv4 packet to the client with random contents behind its addresses.
        inner = bytes.fromhex("4500003c00000000400600000a0000060a000001") + draws.randbytes(40)
        attacker.sendto(struct.pack("!HHI", 0x2000, 0x0800, 7) + inner, ("192.0.2.1", 0))
"""


def test_hostile_packets_are_dropped_and_counted(machines: Machines) -> None:
    machines.write(SCENARIO.replace('"udp"', '"gre"'))
    machines.connect(1536)
    assert [status for status, *_ in machines.up()] == [0, 0]
    for _ in range(3):
        subprocess.run([*machines.within("b"), sys.executable, "-c", ATTACK], check=True)
        time.sleep(1)
    connect = 'import socket; print(socket.socket().connect_ex(("server", 9)))'
    assert machines.call("a", "shell", sys.executable, "-c", connect) == "111\n"
    assert machines.are_up()
    counts = machines.counts("a")
    assert counts["wrong key"] > 1000, counts
    assert counts["invalid"] > 1000, counts


def test_each_machine_changes_its_directions(machines: Machines) -> None:
    machines.connect(1536)
    assert [status for status, *_ in machines.up()] == [0, 0]
    wan = "link.wan.delay=20 ms"
    assert "change it there, and here with --direction forward" in machines.call("a", "set", wan, status=2)
    assert "emulates link" in machines.call("b", "set", "link.lan.delay=20 ms", status=2)
    assert "20 ms" in machines.call("a", "set", wan, "--direction", "forward")
    assert "20 ms" in machines.call("b", "set", wan, "--direction", "reverse")
    assert "several testbeds of this file are up" in anabranch("testbed", "set", machines.file, wan).stderr


def test_unsuitable_scenarios_are_refused(machines: Machines) -> None:
    machines.connect(1536)
    assert "links of netem connect hosts of one machine" in machines.call("a", "up", "--links", "netem", status=2)
    machines.write(SCENARIO.replace("192.0.2.1", "192.0.2.9"))
    assert 'the tunnel of link "wan" from 192.0.2.9 to' in machines.call("a", "up", status=2)
    without = SCENARIO.partition("[testbed.machines]")[0]
    machines.write(re.sub("tunnel = .*", "", without))
    assert "has no [testbed.machines]; add the table, or omit --machine" in machines.call("a", "up", status=2)
