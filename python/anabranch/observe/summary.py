"""Summarises the observations of each pair of addresses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING

from anabranch.observe.record import routes_differ, with_stable_route
from anabranch.observe.routes import routers, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.observe.record import Observation
    from anabranch.observe.routes import RouteShare


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest value."""

    least: float
    middle: float
    greatest: float


@dataclass(frozen=True)
class PairSummary:
    """A pair of addresses over the time of observation."""

    interface: str
    local: str
    remote: str
    observations: int
    reachable: float
    """Share of the observations in which the pair was reachable."""
    changes: int
    """Number of route changes, within an observation or since the previous one."""
    discarded: int
    """Observations during which the route changed; the values below leave them out."""
    hops: tuple[int, int] | None
    """Smallest and largest number of hops of routes that were traced to their end."""
    hops_mean: float | None
    routers: int
    """Number of distinct routers that answered on these routes."""
    routes: tuple[RouteShare, ...]
    """These routes, the most used one first."""
    rtt_s: Spread | None
    """Smallest of all probes, median of the observations' medians, largest of all probes."""
    rtt_quartiles_s: tuple[float, float, float] | None
    """Lower quartile, median and upper quartile of the observations' medians."""
    lost: float | None
    """Share of the probes that were lost while the pair was reachable."""
    forward_bps: Spread | None
    """Smallest, mean and largest goodput from this machine to the remote one."""
    reverse_bps: Spread | None
    mtu: int | None
    """Smallest path MTU found, bytes."""


def by_pair(observations: Sequence[Observation]) -> dict[tuple[str, str], list[Observation]]:
    """The observations of each pair, in the order of the first observations of pairs."""
    found: dict[tuple[str, str], list[Observation]] = {}
    for observation in observations:
        found.setdefault(observation.pair, []).append(observation)
    return found


def summarise(observations: Sequence[Observation]) -> list[PairSummary]:
    """A summary for each pair."""
    return [_summary(of_pair) for of_pair in by_pair(observations).values()]


def span(observations: Sequence[Observation]) -> str:
    """A phrase with the start of the first and the last observation."""
    moments = [observation.at for observation in observations]
    return f"from {min(moments)} to {max(moments)}" if moments else "at no time"


def rates(observations: Sequence[Observation]) -> tuple[Spread, Spread] | None:
    """Goodput in both directions, over the observations that have it."""
    measured = [seen.throughput for seen in with_stable_route(observations) if seen.throughput is not None]
    if not measured:
        return None
    forward, reverse = ([one.forward_bps for one in measured], [one.reverse_bps for one in measured])
    return _mean(forward), _mean(reverse)


def _mean(values: Sequence[float]) -> Spread:
    return Spread(min(values), fmean(values), max(values))


def _summary(observations: Sequence[Observation]) -> PairSummary:
    first, usable = observations[0], with_stable_route(observations)
    round_trips = [seen.rtt for seen in usable if seen.rtt is not None]
    goodput = rates(observations)
    hops = [len(seen.route.hops) for seen in usable if seen.route is not None and seen.route.reached]
    mtus = [seen.mtu for seen in usable if seen.mtu is not None]
    probes = sum(one.probes for one in round_trips)
    return PairSummary(
        interface=first.interface,
        local=first.local,
        remote=first.remote,
        observations=len(observations),
        reachable=sum(seen.reachable for seen in observations) / len(observations),
        changes=_changes(observations),
        discarded=len(observations) - len(usable),
        hops=(min(hops), max(hops)) if hops else None,
        hops_mean=fmean(hops) if hops else None,
        routers=routers(observations),
        routes=shares(observations),
        rtt_s=Spread(
            min(one.min_s for one in round_trips),
            median(one.median_s for one in round_trips),
            max(one.max_s for one in round_trips),
        )
        if round_trips
        else None,
        rtt_quartiles_s=_quartiles([one.median_s for one in round_trips]) if round_trips else None,
        lost=sum(one.lost for one in round_trips) / probes if probes else None,
        forward_bps=goodput[0] if goodput else None,
        reverse_bps=goodput[1] if goodput else None,
        mtu=min(mtus) if mtus else None,
    )


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return (values[0], values[0], values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return (low, middle, high)


def _changes(observations: Sequence[Observation]) -> int:
    # The shorter route of an unreachable pair is no route change.
    routes = [
        route
        for seen in observations
        if seen.reachable
        for route in (seen.route, seen.route_after)
        if route is not None
    ]
    return sum(routes_differ(one, other) for one, other in pairwise(routes))
