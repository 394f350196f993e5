"""Observes all pairs at intervals, until the last round or an interrupt."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch.observe import rate, route, rtt
from anabranch.observe.record import Observation, routes_differ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anabranch.observe.pairs import Pair
    from anabranch.observe.record import Rates

_POLL_INTERVAL_S = 0.2
"""Largest delay between an interrupt and the reaction to it."""


@dataclass(frozen=True)
class Plan:
    """Observed pairs and times of the rounds."""

    pairs: Sequence[Pair]
    port: int
    """Port of the meter at the other end; also the port of TCP probes."""
    interval_s: float
    """Time from the start of a round to the start of the next; after a longer round, the next begins at once."""
    rounds: int | None
    """Number of the last round; `None` for no limit."""
    seconds: float | None
    """Time after the start of the first round at which the last round may begin; `None` for no limit."""
    throughput: bool
    flow_s: float


def utc_now() -> str:
    """Current time in UTC, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def watch(plan: Plan, seen: Sequence[Observation], is_interrupted: Callable[[], bool]) -> Iterator[Observation]:
    """Observe all pairs in one round after another; complete the last round of the earlier observations first.

    Args:
        plan: Pairs and times.
        seen: Earlier observations; their last round may be incomplete.
        is_interrupted: Function that is true after an interrupt.

    """
    number = max((one.round for one in seen), default=1)
    done = {one.pair for one in seen if one.round == number}
    first = time.monotonic()
    while plan.rounds is None or number <= plan.rounds:
        begun = time.monotonic()
        left = [pair for pair in plan.pairs if (pair.local, pair.remote) not in done]
        for pair in left:
            if is_interrupted():
                return
            yield observe_pair(pair, plan, number)
        number, done = number + 1, set()
        due = max(begun + plan.interval_s, time.monotonic()) if left else begun
        last = plan.rounds is not None and number > plan.rounds
        if last or (plan.seconds is not None and due - first > plan.seconds) or not _wait(due, is_interrupted):
            return


def _wait(due: float, is_interrupted: Callable[[], bool]) -> bool:
    """Wait until a time of the monotonic clock; false if the observation was stopped before."""
    while not is_interrupted():
        left = due - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(_POLL_INTERVAL_S, left))
    return False


def observe_pair(pair: Pair, plan: Plan, number: int) -> Observation:
    """Observe a pair once: round-trip time, route, path MTU, throughput, and the route again."""
    at = utc_now()
    times, reason = rtt.round_trips(pair, plan.port)
    there = times is not None
    # Trace an unreachable pair once, to find the end of its route.
    before = route.trace(pair, plan.port) if there else route.trace(pair, plan.port, tries=1)
    mtu, confirmed = route.path_mtu(pair) if there else (None, False)
    measured: Rates | None = None
    lacking: str | None = None
    if plan.throughput and there:
        measured, lacking = rate.throughput(pair, plan.port, plan.flow_s)
    after = route.trace(pair, plan.port) if there else None
    return Observation(
        round=number, at=at, interface=pair.interface, local=pair.local, remote=pair.remote, name=pair.name,
        reachable=there, reason=reason, rtt=times, route=before, route_after=after,
        route_changed=routes_differ(before, after), mtu=mtu, mtu_confirmed=confirmed, throughput=measured,
        throughput_reason=lacking,
    )  # fmt: skip
