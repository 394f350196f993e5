"""`anabranch observe` over a network of known rates, delays and routers, in separate namespaces."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch._core.simulator import Request
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.observe.pairs import Pair
    from anabranch.observe.record import Observation, Rates
    from anabranch.observe.watch import Plan

pytestmark = [pytest.mark.machine, pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))]

SCENARIO = """
duration = "60 s"
[link_defaults]
queue = { kind = "fifo", limit = "60 packets" }
[[link]]
name = "one"
between = ["gate", "R"]
rate = "8 Mbit/s"
delay = "10 ms"
[[link]]
name = "two"
between = ["gate", "R"]
rate = "4 Mbit/s"
delay = "25 ms"
[[link]]
name = "wire"
between = ["R", "there"]
rate = "100 Mbit/s"
[[flow]]
from = "gate"
to = "there"
protocol = "tcp"
"""
RTT_S = {"one": 0.020, "two": 0.050}
RATE_BPS = {"one": 8e6, "two": 4e6}


def ip(namespace: str, arguments: str) -> None:
    subprocess.run(["ip", "-netns", namespace, *arguments.split()], check=True, capture_output=True)


@dataclass
class World:
    """A host with an address on each link, a kernel router, the emulated links, and a host behind them."""

    here: str
    gate: str
    there: str
    address: str
    """Address of the remote host."""
    own: dict[str, str]
    """Local addresses, by link."""
    devices: dict[str, str]
    """Devices of the gate, by link."""

    def observe(self, link: str, *, throughput: bool = False) -> Observation:
        from anabranch.observe.watch import observe_pair
        from anabranch.testbed import namespaces

        return namespaces.within(self.here, partial(observe_pair, self._pair(link), self._plan(throughput), 1))

    def _pair(self, link: str) -> Pair:
        from anabranch.observe.pairs import Pair

        return Pair(link, self.own[link], self.address, "there")

    def _plan(self, throughput: bool) -> Plan:
        from anabranch.observe.watch import Plan

        return Plan([], 5210, 0.0, 1, None, throughput, 1.5)


@pytest.fixture
def world() -> Iterator[World]:
    from anabranch.testbed import namespaces
    from anabranch.testbed.bed import Testbed
    from anabranch.testbed.kernel import set_sysctl

    def forward() -> None:
        set_sysctl("net.ipv4.ip_forward", "1")
        for name in ("all", "default"):
            set_sysctl(f"net.ipv4.conf.{name}.rp_filter", "0")

    with Testbed(Request(SCENARIO, "observed.toml")) as bed, ExitStack() as stack:
        here, around = f"ab-{bed.name}-here", f"ab-{bed.name}-around"
        for name in (here, around):
            stack.callback(namespaces.remove, name)
            namespaces.create(name)
        gate = bed.namespaces["gate"]
        layout = next(host for host in bed.layout["hosts"] if host["name"] == "gate")
        devices = {interface["link"]: interface["device"] for interface in layout["interfaces"]}
        own, there = bed.addresses("gate"), bed.address("there")
        for name in (gate, around):
            namespaces.within(name, forward)
        # The gate's addresses move to the host behind it, which has an interface and a table for each.
        for number, (link, address) in enumerate(own.items()):
            near, far, router = f"h{number}", f"g{number}", f"172.31.{number}.1"
            ip(here, f"link add {near} type veth peer name {far} netns {gate}")
            ip(gate, f"address delete {address}/32 dev {devices[link]}")
            ip(gate, f"route replace {there}/32 dev {devices[link]} table {100 + number}")
            ip(gate, f"address add {router}/32 dev {far}")
            ip(gate, f"link set {far} up")
            ip(gate, f"route add {address}/32 dev {far}")
            ip(here, f"address add {address}/32 dev {near}")
            ip(here, f"link set {near} up")
            ip(here, f"route add {router}/32 dev {near} src {address}")
            ip(here, f"route add {router}/32 dev {near} table {100 + number}")
            ip(here, f"route add default via {router} dev {near} table {100 + number}")
            ip(here, f"rule add from {address} table {100 + number}")
        # Insert a second router before the gate, which changes the route.
        for name, near, far, ends in [(here, "a0", "a1", (here, around)), (around, "b0", "b1", (around, gate))]:
            ip(name, f"link add {near} type veth peer name {far} netns {ends[1]}")
            ip(name, f"link set {near} up")
            ip(ends[1], f"link set {far} up")
        ip(around, "address add 172.31.8.1/32 dev a1")
        ip(gate, "address add 172.31.9.1/32 dev b1")
        ip(gate, "route add 172.31.8.1/32 dev b1")
        ip(around, f"route add {own['one']}/32 dev a1")
        ip(around, "route add 172.31.9.1/32 dev b0 src 172.31.8.1")
        ip(around, "route add default via 172.31.9.1 dev b0")
        ip(here, "route add 172.31.8.1/32 dev a0 table 100")
        bed.start()
        yield World(here, gate, bed.namespaces["there"], there, own, devices)


@pytest.mark.parametrize("link", ["one", "two"])
def test_route_and_rtt_match_the_network(world: World, link: str) -> None:
    seen = world.observe(link)
    assert seen.reachable
    assert seen.rtt is not None
    assert (seen.rtt.probes, seen.rtt.lost) == (5, 0)
    assert RTT_S[link] <= seen.rtt.min_s
    assert seen.rtt.median_s == pytest.approx(RTT_S[link], rel=0.2, abs=2e-3)
    assert seen.route is not None
    # The emulator decrements no hop limit: only the gate and the target host are hops.
    assert seen.route.hops == [f"172.31.{0 if link == 'one' else 1}.1", world.address]
    assert (seen.route.reached, seen.route_changed) == (True, False)
    assert (seen.mtu, seen.mtu_confirmed) == (1500, True)


def test_throughput_matches_the_links(world: World) -> None:
    from anabranch.testbed import enter

    command = [sys.executable, "-m", "anabranch", "meter", "serve", "--bind", "0.0.0.0"]
    meter = subprocess.Popen(enter.arguments(world.there, {}, command), stdout=subprocess.PIPE, text=True)
    try:
        assert meter.stdout is not None
        assert meter.stdout.readline().startswith("waiting at")
        # Only sockets that are bound to an address have a route to other hosts.
        for link in ("one", "two"):
            seen = world.observe(link, throughput=True)
            assert seen.throughput_reason is None
            assert seen.throughput is not None
            for rate in (seen.throughput.forward_bps, seen.throughput.reverse_bps):
                assert rate * 1500 / 1448 == pytest.approx(RATE_BPS[link], rel=0.15)
    finally:
        meter.terminate()
        meter.wait(10)


def test_lost_link_is_observed(world: World) -> None:
    assert world.observe("two").reachable
    ip(world.gate, f"link set {world.devices['two']} down")
    seen = world.observe("two")
    assert not seen.reachable
    assert seen.reason
    assert seen.rtt is None
    assert seen.route is not None
    # The route ends at the gate or before.
    assert not seen.route.reached
    assert world.observe("one").reachable


def test_route_change_during_observation_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.observe import rate

    def change(*_: object) -> tuple[Rates | None, str | None]:
        ip(world.here, "route replace default via 172.31.8.1 dev a0 table 100")
        return None, "the route changes instead"

    monkeypatch.setattr(rate, "throughput", change)
    seen = world.observe("one", throughput=True)
    assert seen.route is not None
    assert seen.route_after is not None
    assert seen.route.hops == ["172.31.0.1", world.address]
    assert seen.route_after.hops[0] == "172.31.8.1"
    assert len(seen.route_after.hops) == 3
    assert seen.route_after.hops[2] == world.address
    assert seen.route_changed
    # The route differs from the earlier one and then stays the same to the end.
    again = world.observe("one", throughput=True)
    assert again.route == seen.route_after
    assert not again.route_changed


def watching(file: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anabranch", "observe", "127.0.0.1", "--no-throughput", "-o", str(file), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_interrupted_observation_resumes_its_file(tmp_path: Path) -> None:
    from anabranch.observe.record import read

    file = tmp_path / "seen.jsonl"
    process = watching(file, "--interval", "60")
    assert process.stderr is not None
    assert "127.0.0.1 - 127.0.0.1 rtt" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    # The command ends before the next round.
    _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (
        0,
        "the observation ends after this pair; press Ctrl-C again to end it at once\n",
    )
    assert [seen.round for seen in read(str(file))] == [1]
    again = watching(file, "--interval", "0", "--count", "3")
    assert again.wait(30) == 0
    assert [seen.round for seen in read(str(file))] == [1, 2, 3]
    # All rounds have ended.
    assert watching(file, "--count", "3").wait(30) == 0
    assert len(read(str(file))) == 3


def test_rtt_uses_icmp_where_users_may_ping(world: World) -> None:
    from anabranch.observe.pairs import Pair
    from anabranch.observe.rtt import round_trips
    from anabranch.testbed import namespaces
    from anabranch.testbed.kernel import set_sysctl

    pair = Pair("one", world.own["one"], world.address, "there")

    def asked() -> str:
        times, _ = round_trips(pair, 5210)
        assert times is not None
        assert times.median_s == pytest.approx(RTT_S["one"], rel=0.2, abs=2e-3)
        return times.by

    namespaces.within(world.here, lambda: set_sysctl("net.ipv4.ping_group_range", "1 0"))
    assert namespaces.within(world.here, asked) == "tcp-connect"
    namespaces.within(world.here, lambda: set_sysctl("net.ipv4.ping_group_range", "0 2147483647"))
    assert namespaces.within(world.here, asked) == "icmp"


def test_narrow_path_and_tcp_route_are_observed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.observe import route

    ip(world.gate, f"link set {world.devices['one']} mtu 1280")
    seen = world.observe("one")
    assert (seen.mtu, seen.mtu_confirmed) == (1280, True)
    # Where datagrams get no answer, the program tries TCP connections.
    monkeypatch.setattr(route, "_by_udp", lambda *_: None)
    by_tcp = world.observe("one").route
    assert by_tcp is not None
    assert (by_tcp.by, by_tcp.hops, by_tcp.reached) == ("tcp", ["172.31.0.1", world.address], True)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this kernel has no IPv6")
def test_loopback_of_ipv6_is_one_hop_away() -> None:
    from anabranch.observe.pairs import Pair
    from anabranch.observe.watch import Plan, observe_pair

    seen = observe_pair(Pair("lo", "::1", "::1", "::1"), Plan([], 5210, 0.0, 1, None, False, 1.0), 1)
    assert seen.reachable
    assert seen.route is not None
    assert (seen.route.hops, seen.route.reached, seen.mtu_confirmed) == (["::1"], True, True)
