"""Routes of a pair of addresses, with the share of the time in which each was used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from anabranch.observe.record import Route, routes_differ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.observe.record import Observation

MIN_DOMINANT_SHARE = 0.99
"""Share of the time above which a route counts as the only one."""


@dataclass(frozen=True)
class RouteShare:
    """A route and its share of the time."""

    hops: tuple[str | None, ...]
    """Addresses of the routers, with the remote address at the end; `None` for a hop without an answer."""
    observations: int
    share: float
    """Share of the time in which a complete route was known."""
    dominant: bool
    """Whether packets took this route for more than 99 % of the time."""


def routers(observations: Sequence[Observation]) -> int:
    """Number of distinct routers that answered on the complete routes of a pair, without the remote end."""
    return len({hop for way in _known(observations) for hop in way.hops[:-1] if hop is not None})


def shares(observations: Sequence[Observation]) -> tuple[RouteShare, ...]:
    """The complete routes of a pair, the most used one first.

    An observation stands for the time until the next one of the pair; the last one for the median of these times.
    Observations without a complete route, or during which the route changed, count for no route. A hop without an
    answer matches any.
    """
    found: list[tuple[Route, list[float]]] = []
    for seen, time_s in zip(observations, _times_s(observations), strict=True):
        for way in _known([seen]):
            same = next((times for other, times in found if not routes_differ(other, way)), None)
            if same is None:
                found.append((way, [time_s]))
            else:
                same.append(time_s)
    total = sum(sum(times) for _, times in found)
    listed = [
        RouteShare(tuple(way.hops), len(times), sum(times) / total, sum(times) / total > MIN_DOMINANT_SHARE)
        for way, times in found
    ]
    return tuple(sorted(listed, key=lambda route: -route.share))


def _known(observations: Sequence[Observation]) -> list[Route]:
    """The routes that were traced to their end and did not change during the observation."""
    return [
        seen.route for seen in observations if seen.route is not None and seen.route.reached and not seen.route_changed
    ]


def _times_s(observations: Sequence[Observation]) -> list[float]:
    """The duration that each observation represents; 1 s for a single one."""
    moments = [datetime.fromisoformat(seen.at).timestamp() for seen in observations]
    gaps = [max(0.0, after - before) for before, after in pairwise(moments)]
    last = median(gaps) if gaps else 1.0
    return [*gaps, last] if sum(gaps) > 0.0 else [1.0] * len(observations)
