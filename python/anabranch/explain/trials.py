"""Runs of variants of a scenario, several at a time, until a time limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import Request, simulate, validate
from anabranch._core.worlds import checker
from anabranch.errors import InputError, RunFailed
from anabranch.study import worker
from anabranch.study.local import LocalPool
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch._core.worlds import World
    from anabranch.scenario import Scenario
    from anabranch.study.worker import Outcome

START_SPREAD_S = 0.1
_WAIT_S = 0.5
_MIN_POOLED_S = 1.0
"""Expected work, in seconds, below which starting worker processes takes longer than the runs."""


class Trials:
    """Runs variants with the simulator; a context that ends its worker processes.

    Args:
        jobs: Number of worker processes; with 1, everything runs in this process.
        time_limit_s: Time after which no run begins, in seconds from the creation of this object.

    """

    def __init__(self, jobs: int, time_limit_s: float) -> None:
        self.begun_s = time.monotonic()
        self.runs = 0
        """Number of finished runs."""
        self._jobs = jobs
        self._end_s = self.begun_s + time_limit_s
        self._longest_s = 0.0
        self._pool: LocalPool | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is not None:
            (self._pool.close if kind is None else self._pool.kill)()

    @property
    def elapsed_s(self) -> float:
        """Time since the beginning, seconds."""
        return time.monotonic() - self.begun_s

    def first(self, scenario: Scenario, seed: int | None) -> Document:
        """Run the unchanged scenario.

        Raises:
            InputError: If the scenario is not valid.

        """
        begun_s = time.monotonic()
        document = simulate(request(scenario, seed))
        self._longest_s = time.monotonic() - begun_s
        self.runs += 1
        return document

    def run(self, requests: Sequence[Request], share: float = 1.0) -> list[Document | None]:
        """Run requests in their order; `None` for one that the scenario refuses or the time limit leaves out.

        Args:
            requests: The runs, the most important first.
            share: Share of the remaining time to use.

        Raises:
            RunFailed: If a run breaks off.

        """
        end_s = time.monotonic() + share * (self._end_s - time.monotonic())
        found: list[Document | None] = [None] * len(requests)
        outcomes = self._pooled if self._jobs > 1 and self._needs_pool(len(requests)) else self._alone
        for number, outcome in outcomes(requests, end_s):
            if outcome.failure:
                raise RunFailed(outcome.failure.removeprefix("RunFailed: "))
            found[number] = outcome.document
            self.runs += outcome.document is not None
        return found

    def _needs_pool(self, count: int) -> bool:
        return self._pool is not None or count * self._longest_s > _MIN_POOLED_S

    def _alone(self, requests: Sequence[Request], end_s: float) -> list[tuple[int, Outcome]]:
        found = []
        for number, each in enumerate(requests):
            if time.monotonic() > end_s:
                break
            found.append((number, worker.run(simulate, each)))
        return found

    def _pooled(self, requests: Sequence[Request], end_s: float) -> list[tuple[int, Outcome]]:
        if self._pool is None:
            self._pool = LocalPool(simulate, self._jobs)
        for number, each in enumerate(requests):
            self._pool.submit(number, each)
        found: list[tuple[int, Outcome]] = []
        is_stopped = False
        while len(found) < len(requests):
            found += self._pool.take(_WAIT_S)
            if not is_stopped and time.monotonic() > end_s:
                self._pool.stop()
                is_stopped = True
        return found


def request(scenario: Scenario, seed: int | None, settings: Sequence[str] = ()) -> Request:
    """A run of a scenario with further settings."""
    return Request(scenario.text, scenario.file, (*scenario.overrides, *settings), seed)


def spread_starts(flows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Settings that draw the start of each flow, given by its entry in a result, so that seeds differ."""
    return tuple(
        setting(
            f"flow.{flow['name']}.start",
            {"uniform": [f"{flow['start_s']:.9f} s", f"{flow['start_s'] + START_SPREAD_S:.9f} s"]},
        )
        for flow in flows
    )


def check_of(world: World, scenario: Scenario) -> Callable[[Request], None]:
    """The check of requests for a world, or that of the simulator where this machine cannot run the scenario."""
    check = checker(world)
    try:
        check(request(scenario, None))
    except InputError:
        return validate
    return check


def is_valid(scenario: Scenario, settings: Sequence[str], check: Callable[[Request], None] = validate) -> bool:
    """Whether a scenario accepts further settings."""
    try:
        check(request(scenario, None, settings))
    except InputError:
        return False
    return True
