"""The possible rate of flows: the largest total rate that the links on their usable paths carry.

The total is the optimum of a linear programme with one rate per path and one bound per direction of a link, without any
other traffic. A link that several paths share counts once. Link rates are those of the scenario; if events change them,
the result is averaged over the measured part of the run. A link that is down carries nothing. Rates are in bit/s and
count headers and framing: goodput stays a few per cent below.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from anabranch.fairness.solver import solve
from anabranch.link_values import reverse_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anabranch._core.document import SpeltOut

    Preferences = Sequence[Sequence[Mapping[str, Any]]]
    """Paths of a flow in groups; the flow uses the first group with a path that can carry data."""

Direction = tuple[str, bool]
"""A link's name, and whether the direction is from the link's first node to its second."""

Path = tuple[Direction, ...]
"""Directions of links that a path uses, from the sender to the receiver."""

Allocation = Literal["link-subflow", "link-flow", "network", "max-min", "proportional", "access"]
ALLOCATION_NAMES: tuple[Allocation, ...] = get_args(Allocation)
"""Names of the fair allocations; `anabranch.fairness.allocation` defines them."""

MULTIPATH = ("mptcp", "cmt-sctp")
"""The protocols that use several paths at the same time."""

_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
_SIZES = {"B": 1, "kB": 1_000, "KiB": 1_024, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30, "TB": 10**12}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Network:
    """The paths of flows, and the rates of their links."""

    paths: Mapping[str, tuple[Path, ...]]
    """One path for each subflow, by flow; each path ends with the links in `behind`."""
    rates: Mapping[Direction, float]
    """Rate in bit/s of each direction of a link that a path uses."""
    behind: Mapping[str, Path] = field(default_factory=dict)
    """Links behind the proxy, by flow that passes one; one TCP connection carries all the flow's data there."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of flows for the allocation `access`; a flow without one has the number of its access links."""

    def largest_total_bps(self, flows: Iterable[str]) -> float:
        """The largest total rate of some flows while no other flow sends, bit/s."""
        return largest_total_bps([path for flow in flows for path in self.paths[flow]], self.rates)

    def best_path_bps(self, flow: str) -> float:
        """The rate of a flow's fastest path, bit/s."""
        return max((min(self.rates[direction] for direction in path) for path in self.paths[flow]), default=0.0)


def preferences(flow: Mapping[str, Any]) -> Preferences:
    """The paths of a flow in a result document, in the order in which its protocol uses them.

    Multipath transport uses all paths at the same time; it uses backup paths only if no other path is up. Any other
    protocol uses the first path of the result. SCTP fails over to the next one.
    """
    paths = [path for path in flow["paths"] if path["links"]]
    if flow["protocol"] in MULTIPATH:
        groups = [[path for path in paths if path["backup"] == backup] for backup in (False, True)]
        return [group for group in groups if group]
    return [[path] for path in paths]


def networks(
    document: Mapping[str, Any],
    scenario: Mapping[str, Any],
    paths: Mapping[str, Preferences],
    measured_s: tuple[float, float],
    behind: Mapping[str, Path] | None = None,
) -> list[tuple[Network, float]] | None:
    """The states of the network during a span of time, each with its share of the span.

    `None` if a link follows a trace and has no known rate.

    Args:
        document: The result document of a run, with the nodes of links and flows.
        scenario: The scenario with every default spelt out, with rates and events.
        paths: By flow, the paths in the document to use.
        measured_s: Begin and end of the span, seconds from the start of the run.
        behind: By flow through a proxy, the links behind the proxy.

    """
    tails = behind or {}
    found = {
        flow["name"]: [
            tuple(directions(flow, path, document) + tails.get(flow["name"], ()) for path in group)
            for group in paths[flow["name"]]
        ]
        for flow in document["flows"]
        if flow["name"] in paths
    }
    used = sorted({direction for groups in found.values() for group in groups for way in group for direction in way})
    states = []
    for rates, share in _spans(scenario, used, measured_s):
        known = {direction: rate for direction, rate in rates.items() if rate is not None}
        if len(known) < len(rates):
            return None
        chosen = {flow: _first_usable(groups, known) for flow, groups in found.items()}
        states.append((Network(chosen, known, {f: tail for f, tail in tails.items() if f in found}), share))
    return states


def _first_usable(groups: Sequence[tuple[Path, ...]], rates: Mapping[Direction, float]) -> tuple[Path, ...]:
    """The first group with a path that can carry data; the very first group if no path can."""
    usable = (group for group in groups if any(all(rates[d] > 0.0 for d in path) for path in group))
    return next(usable, groups[0] if groups else ())


def directions(flow: Mapping[str, Any], path: Mapping[str, Any], document: Mapping[str, Any]) -> Path:
    """The directions of links that a flow's path in a result document uses, from the sender to the receiver."""
    ends = {link["name"]: (link["from"], link["to"]) for link in document["links"] if link["direction"] == "forward"}
    far = "through" if "through" in flow else "to"
    node, found = flow[far if flow.get("direction") == "reverse" else "from"], []
    for link in path["links"]:
        first, second = ends[link]
        found.append((link, node == first))
        node = second if node == first else first
    return tuple(found)


def _spans(
    scenario: Mapping[str, Any], used: Sequence[Direction], measured_s: tuple[float, float]
) -> Iterator[tuple[dict[Direction, float | None], float]]:
    """The rates of links in bit/s, with the share of the measured time in which they hold; `None` for traces."""
    begin, end = measured_s
    links = {link["name"]: link for link in scenario["link"]}
    state = {(name, forward): _side(links[name], forward) for name, forward in used}
    held: defaultdict[tuple[float | None, ...], float] = defaultdict(float)
    now = begin
    # Events of flows change no link.
    events = [event for event in scenario.get("event", []) if "link" in event]
    for event in [*sorted(events, key=lambda e: seconds(e["at"])), None]:
        at = end if event is None else min(max(seconds(event["at"]), begin), end)
        held[tuple(_rate(state[d]) for d in used)] += at - now
        now = at
        if event is not None:
            sides = {"both": (True, False), "forward": (True,), "reverse": (False,)}[event["direction"]]
            for side in ((event["link"], forward) for forward in sides):
                if side in state:
                    state[side] = {**state[side], **event["set"]}
    for rates, span in held.items():
        if span > 0.0:
            yield dict(zip(used, rates, strict=True)), span / (end - begin)


def _side(link: Mapping[str, Any], forward: bool) -> SpeltOut:
    """State and rate of one direction of a link."""
    values = link if forward else reverse_of(link)
    return {key: values[key] for key in ("state", "rate")}


def _rate(side: Mapping[str, Any]) -> float | None:
    if side["state"] == "down":
        return 0.0
    return bits_per_second(side["rate"]) if isinstance(side["rate"], str) else None


def largest_total_bps(paths: Sequence[Path], rates: Mapping[Direction, float]) -> float:
    """The largest sum of rates of paths without any other traffic, bit/s.

    Raises:
        RunFailed: If the solver does not find a solution.

    """
    # Paths over the same links count once.
    single = sorted(set(paths))
    most = {path: min(rates[direction] for direction in path) for path in single}
    users: defaultdict[Direction, list[Path]] = defaultdict(list)
    for path in single:
        for direction in set(path):
            users[direction].append(path)
    shared: defaultdict[tuple[Path, ...], float] = defaultdict(lambda: math.inf)
    for direction, over in users.items():
        shared[tuple(over)] = min(shared[tuple(over)], rates[direction])
    # Any other direction carries the largest rates of all its paths at the same time.
    narrow = {over: rate for over, rate in shared.items() if rate < math.fsum(most[path] for path in over)}
    narrowed = Counter(path for over in narrow for path in over)
    if max(narrowed.values(), default=0) <= 1:
        # No narrow direction limits the paths of another one. Loading the solver takes longer than a short run.
        return math.fsum([*narrow.values(), *(most[path] for path in single if path not in narrowed)])
    bounds = sorted({direction for path in single for direction in path})
    limits = reachable(single, rates, bounds)
    # The largest limit is the unit: the solver's absolute tolerances then have the same effect in all scenarios.
    unit = max(limits) or 1.0
    uses = [[float(direction in path) for path in single] for direction in bounds]
    return -solve([-1.0] * len(single), uses, [limit / unit for limit in limits]).cost * unit


def reachable(paths: Sequence[Path], rates: Mapping[Direction, float], bounds: Sequence[Direction]) -> list[float]:
    """The limits of directions, bit/s: the rate, or the sum of the largest rates of the paths over it, if that is less.

    So a link that is faster than its paths can use does not determine the unit of the linear programme.
    """
    most = {path: min(rates[direction] for direction in path) for path in paths}
    return [min(rates[d], sum(most[path] for path in paths if d in path)) for d in bounds]


def bits_per_second(rate: str) -> float:
    """Convert a rate of a scenario, such as "20 Mbit/s", to bit/s."""
    value, unit = rate.split()
    return float(value) * _RATES[unit]


def seconds(time: str) -> float:
    """Convert a time of a scenario, such as "20 ms", to seconds."""
    value, unit = time.split()
    return float(value) * _TIMES[unit]


def size_bytes(size: str) -> float:
    """Convert a size of a scenario, such as "4 MB", to bytes."""
    value, unit = size.split()
    return float(value) * _SIZES[unit]
