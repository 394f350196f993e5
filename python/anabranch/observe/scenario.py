"""Converts observations into a scenario: access links at both ends, and a link between each pair of networks."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.observe.assignment import Access, access
from anabranch.observe.record import with_stable_route
from anabranch.observe.summary import rates, span
from anabranch.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anabranch.observe.assignment import Pair
    from anabranch.observe.record import Observation

_MTU = 1500
"""MTU of paths without a measured one, bytes."""
_HEADER_BYTES = {False: 20 + 32, True: 40 + 32}
"""Header bytes of a packet: IPv6, and TCP with timestamps."""
_MIN_QUEUE_PACKETS = 10
"""Minimum queue length: an initial window (RFC 6928)."""
_AMPLE_FACTOR = 10
"""Rate of a link that is no bottleneck, as a multiple of the sum of all pairs' rates."""
_UNMEASURED_BPS = 1e6
"""Rate of the link of an unreachable pair; the link is down."""
_MIN_RATE_BPS = 1.0
"""Smallest measured rate that is used; lower ones count as not measured."""
_MIN_BUFFER_BYTES = 4_000_000


@dataclass(frozen=True)
class Between:
    """A pair of a local interface and a remote address."""

    pair: Pair
    mtu: int
    rtt_s: float | None
    """Smallest round-trip time while the route did not change; `None` if the pair was never reachable."""
    rates_bps: tuple[float, float] | None
    """Rates on the wire in both directions; `None` if not measured or if no data arrived in one direction."""


def scenario(observations: Sequence[Observation], file: str, rate_bps: float | None = None) -> str:
    """Make a scenario, as TOML.

    Args:
        observations: The observations.
        file: Name of their file, for messages and comments.
        rate_bps: Rate of pairs without a measured throughput.

    Raises:
        InputError: If no pair was reachable, or rates are missing.

    """
    pairs = _pairs(observations)
    reachable = [one for one in pairs if one.rtt_s is not None]
    if not reachable:
        raise InputError(
            "no pair of addresses was reachable over an unchanged route; the scenario would have no paths", file
        )
    unknown = [one for one in reachable if one.rates_bps is None]
    if unknown and rate_bps is None:
        near, far = unknown[0].pair
        raise InputError(
            f"the throughput from {near} to {far} was not measured, or no data arrived in one direction; "
            f"give its rate: --rate 10M, or observe with a meter at the other end",
            file,
        )
    assumed = (rate_bps or 0.0, rate_bps or 0.0)
    known = {one.pair: one.rates_bps or assumed for one in reachable}
    ways = [_Way({pair: both[way] for pair, both in known.items()}) for way in (0, 1)]
    names = _Names(pairs)
    text = [*_comments(observations, file, ways, rate_bps if unknown else None), *_head(observations, reachable)]
    for near in names.here:
        text += _access(names.here[near], ("here", names.near(near)), ways, (0, near), reachable)
    for far in names.there:
        text += _access(names.there[far], (names.far(far), "there"), ways, (1, far), reachable)
    for one in pairs:
        text += _core(one, names, ways)
    text += _flow(reachable, ways)
    return "\n".join(text) + "\n"


class _Way:
    """The rates of one direction, and the limits that explain them."""

    def __init__(self, rates_bps: dict[Pair, float]) -> None:
        self.rates = rates_bps
        self.access: Access | None = access(rates_bps)
        self.ample = _AMPLE_FACTOR * sum(rates_bps.values())

    def at_end(self, side: int, end: str) -> float:
        """Rate of the access link of a local end (side 0) or remote end (side 1)."""
        rates = self.access and (self.access.here, self.access.there)[side]
        return rates.get(end, self.ample) if rates else self.ample

    def between(self, pair: Pair) -> float:
        """Rate of the link between two networks."""
        return self.ample if self.access else self.rates[pair]


class _Names:
    """Names of links and nodes: local interfaces by name, remote addresses by number."""

    def __init__(self, pairs: Sequence[Between]) -> None:
        self.here: dict[str, str] = {}
        self.there: dict[str, str] = {}
        for near, far in (one.pair for one in pairs):
            if near not in self.here:
                plain = re.sub(r"[^A-Za-z0-9_-]", "-", near)
                taken = plain in self.here.values()
                self.here[near] = f"{plain}-{len(self.here) + 1}" if taken else plain
            self.there.setdefault(far, f"remote-{len(self.there) + 1}")

    def near(self, interface: str) -> str:
        return f"network-of-{self.here[interface]}"

    def far(self, address: str) -> str:
        return f"network-of-{self.there[address]}"


def _pairs(observations: Sequence[Observation]) -> list[Between]:
    found: dict[Pair, list[Observation]] = {}
    for seen in observations:
        found.setdefault((seen.interface, seen.remote), []).append(seen)
    return [_between(pair, seen) for pair, seen in found.items()]


def _between(pair: Pair, observations: Sequence[Observation]) -> Between:
    usable = with_stable_route(observations)
    mtus = [seen.mtu for seen in usable if seen.mtu is not None]
    six = ":" in pair[1]
    # Upper limit of links in a scenario; loopback has 65,536.
    mtu = max(1280 if six else 576, min(65_535, min(mtus, default=_MTU)))
    times = [seen.rtt.min_s for seen in usable if seen.rtt is not None]
    goodput = rates(usable)
    on_wire = mtu / (mtu - _HEADER_BYTES[six])
    both = (goodput[0].middle * on_wire, goodput[1].middle * on_wire) if goodput else None
    if both is not None and min(both) < _MIN_RATE_BPS:
        both = None
    return Between(pair, mtu, min(times, default=None), both)


def _comments(observations: Sequence[Observation], file: str, ways: Sequence[_Way], assumed: float | None) -> list[str]:
    discarded = len(observations) - len(with_stable_route(observations))
    lines = [
        f"Observed {span(observations)}, {counted(len(observations), 'observation')} in {json.dumps(file)}.",
        f"{counted(discarded, 'observation')} left out because the route changed during it." if discarded else "",
        "Rates: the mean goodput of one TCP flow at a time, with the headers of full packets added.",
        *(_reading(name, way) for name, way in zip(("here to there", "there to here"), ways, strict=True)),
        f"Assumed: {_rate(assumed)} for pairs without a measured throughput or without data in one direction."
        if assumed is not None
        else "",
        "Delays: half of the smallest round-trip time in each direction, as if both directions had the same delay.",
        f"Assumed: queues of one bandwidth-delay product, at least {_MIN_QUEUE_PACKETS} packets.",
        "Left out: losses, other traffic, and times in which a pair was not reachable. A pair that was never reachable "
        "is a link that is down.",
    ]
    return [f"# {text}" for text in lines if text]


def _reading(direction: str, way: _Way) -> str:
    if way.access:
        return (
            f"From {direction} access links limit the rates: each such link has the highest rate of its pairs, and the "
            "lower one of its two links explains the rate of a pair."
        )
    return (
        f"From {direction} no rates of access links explain those of the pairs: each pair of networks has a link with "
        "the rate of one flow."
    )


def _head(observations: Sequence[Observation], reachable: Sequence[Between]) -> list[str]:
    six = all(":" in one.pair[1] for one in reachable)
    return [
        f"title = {json.dumps('Observed ' + span(observations))}",
        'duration = "60 s"',
        'warmup = "10 s"',
        *(['ip = "v6"'] if six else []),
    ]


def _access(
    name: str, ends: tuple[str, str], ways: Sequence[_Way], end: tuple[int, str], reachable: Sequence[Between]
) -> Iterator[str]:
    """The link between a host and its network; `end` is the side and the interface or address."""
    side, key = end
    own = [one for one in reachable if one.pair[side] == key]
    rtt_s = max((one.rtt_s or 0.0 for one in own), default=0.0)
    mtu = max((one.mtu for one in own), default=_MTU)
    yield from _link(name, key, ends, (mtu, 0.0, rtt_s), lambda way: ways[way].at_end(side, key))


def _core(one: Between, names: _Names, ways: Sequence[_Way]) -> Iterator[str]:
    near, far = one.pair
    name = f"{names.here[near]}-to-{names.there[far]}"
    ends, about = (names.near(near), names.far(far)), f"{near} to {far}"
    if one.rtt_s is None:
        yield from _link(
            name,
            f"{about}, never reachable over an unchanged route",
            ends,
            (one.mtu, 0.0, 0.0),
            lambda _: _UNMEASURED_BPS,
        )
        yield 'state = "down"'
        return
    shape = (one.mtu, one.rtt_s / 2, one.rtt_s)
    yield from _link(name, about, ends, shape, lambda way: ways[way].between(one.pair))


def _link(
    name: str, about: str, ends: tuple[str, str], shape: tuple[int, float, float], rate: Callable[[int], float]
) -> Iterator[str]:
    mtu, delay_s, rtt_s = shape

    def queue(rate_bps: float) -> str:
        packets = max(_MIN_QUEUE_PACKETS, math.ceil(rate_bps * rtt_s / 8 / mtu))
        return f'{{ kind = "fifo", limit = "{packets} packets" }}'

    yield f"\n[[link]]  # {about}"
    yield f"name = {json.dumps(name)}"
    yield f"between = {json.dumps(list(ends))}"
    yield f'rate = "{_rate(rate(0))}"'
    yield f'delay = "{delay_s * 1e3:.3f} ms"'
    yield f"mtu = {mtu}"
    yield f"queue = {queue(rate(0))}"
    if rate(0) != rate(1):
        yield f'reverse = {{ rate = "{_rate(rate(1))}", queue = {queue(rate(1))} }}'


def _flow(reachable: Sequence[Between], ways: Sequence[_Way]) -> list[str]:
    longest = max(one.rtt_s or 0.0 for one in reachable)
    # Large enough not to limit the flow while the slowest path repairs a loss (RFC 6182 §5.3).
    buffer = max(_MIN_BUFFER_BYTES, math.ceil(2 * sum(ways[0].rates.values()) * longest / 8))
    several = len(reachable) > 1
    return [
        "\n[[flow]]",
        'name = "F"',
        'from = "here"',
        'to = "there"',
        *(['protocol = "mptcp"', 'congestion = "lia"'] if several else ['protocol = "tcp"', 'congestion = "reno"']),
        f'send_buffer = "{buffer} B"',
        f'receive_buffer = "{buffer} B"',
        'workload = { kind = "saturated" }',
    ]


def _rate(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.6f} Mbit/s"
