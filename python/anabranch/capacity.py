"""How much the links on the paths of flows could carry: what a goodput is to be seen beside.

The possible rate of some flows is the largest total that the links on their usable paths carry together if nothing else
used them. A link that several paths share counts once: the total is the optimum of a linear programme with one rate per
path and one bound per direction of a link. Rates are those of the scenario, averaged over the measured part of the run
where events change them; a link that is down carries nothing. They count every bit on the wire, headers and framing
included, so that goodput stays a few per cent below.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Direction = tuple[str, bool]
"""A link's name, and whether it is used from its first node to its second."""

_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
_SIZES = {"B": 1, "kB": 1_000, "KiB": 1_024, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30, "TB": 10**12}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def possible_bps(document: Mapping[str, Any], flows: Sequence[str]) -> float | None:
    """The largest total rate of some flows of a run, in bit/s.

    `None` if it cannot be told: a link follows a trace of delivery opportunities, or the document does not hold the
    scenario that was run.
    """
    scenario = document.get("scenario")
    if scenario is None:
        return None
    paths = list(_paths(document, set(flows)))
    used = sorted({direction for path in paths for direction in path})
    total = 0.0
    for rates, share in _spans(document, scenario, used):
        carried = _largest_total(paths, rates)
        if carried is None:
            return None
        total += share * carried
    return total


def _paths(document: Mapping[str, Any], flows: set[str]) -> Iterator[tuple[Direction, ...]]:
    """The directions of links that each path goes over; paths without a route are left out."""
    for flow in document["flows"]:
        for path in flow["paths"] if flow["name"] in flows else []:
            if path["links"]:
                yield directions(flow, path, document)


def directions(flow: Mapping[str, Any], path: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Direction, ...]:
    """The directions in which a path of a flow goes over its links, from the sender on."""
    ends = {link["name"]: (link["from"], link["to"]) for link in document["links"] if link["direction"] == "forward"}
    node, found = flow["to" if flow.get("direction") == "reverse" else "from"], []
    for link in path["links"]:
        first, second = ends[link]
        found.append((link, node == first))
        node = second if node == first else first
    return tuple(found)


def _spans(
    document: Mapping[str, Any], scenario: Mapping[str, Any], used: Sequence[Direction]
) -> Iterator[tuple[dict[Direction, float | None], float]]:
    """The rates of links, with the share of the measured time for which they hold; a rate that varies is `None`."""
    begin, end = document["warmup_s"], document["duration_s"]
    links = {link["name"]: link for link in scenario["link"]}
    state = {(name, forward): _side(links[name], forward) for name, forward in used}
    held: Counter[tuple[float | None, ...]] = Counter()
    now = begin
    for event in [*sorted(scenario.get("event", []), key=lambda e: seconds(e["at"])), None]:
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


def _side(link: Mapping[str, Any], forward: bool) -> dict[str, Any]:
    """State and rate of one direction of a link."""
    reverse = {} if forward else link.get("reverse", {})
    return {key: reverse.get(key, link[key]) for key in ("state", "rate")}


def _rate(side: Mapping[str, Any]) -> float | None:
    if side["state"] == "down":
        return 0.0
    return bits_per_second(side["rate"]) if isinstance(side["rate"], str) else None


def _largest_total(paths: Sequence[tuple[Direction, ...]], rates: Mapping[Direction, float | None]) -> float | None:
    """The largest sum of rates of the paths; `None` if the rate of one of their links is not known."""
    known = {direction: rate for direction, rate in rates.items() if rate is not None}
    if len(known) < len(rates):
        return None
    # Paths over the very same links are one, and paths that share no link do not limit one another.
    single = sorted(set(paths))
    if all(not set(a) & set(b) for a, b in itertools.combinations(single, 2)):
        return sum(min(known[direction] for direction in path) for path in single)
    import numpy as np
    from scipy.optimize import linprog

    bounds = sorted(known)
    uses = np.array([[float(direction in path) for path in single] for direction in bounds])
    # In units of the fastest link, so that the solver's absolute tolerances mean the same for all scenarios.
    unit = max(known.values()) or 1.0
    found = linprog(-np.ones(len(single)), A_ub=uses, b_ub=[known[direction] / unit for direction in bounds])
    return float(np.sum(np.asarray(found.x))) * unit


def bits_per_second(rate: str) -> float:
    """A rate as scenarios spell it, such as "20 Mbit/s", in bit/s."""
    value, unit = rate.split()
    return float(value) * _RATES[unit]


def seconds(time: str) -> float:
    """A time as scenarios spell it, such as "20 ms", in seconds."""
    value, unit = time.split()
    return float(value) * _TIMES[unit]


def size_bytes(size: str) -> float:
    """A size as scenarios spell it, such as "4 MB", in bytes."""
    value, unit = size.split()
    return float(value) * _SIZES[unit]
