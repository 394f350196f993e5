"""Runs a study: all points and repetitions over worker processes, each finished run saved at once.

The outcome does not depend on the number of workers or on interruptions: a run is defined by its scenario, settings
and seed alone, and reports read the finished runs in the order of the study, not of their completion.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from anabranch._core.simulator import Request, check_storable, validate
from anabranch.documents import without_scenario
from anabranch.errors import InputError
from anabranch.logs import logger
from anabranch.study import forkserver
from anabranch.study.local import Limits, LocalPool
from anabranch.study.model import FILE, Run
from anabranch.study.origin import placed
from anabranch.study.records import RecordChecker
from anabranch.study.store import Record, Store, UnreadableRecord, run_key
from anabranch.testbed.ending import signals_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.study.model import Effort, Study
    from anabranch.study.pool import Pool
    from anabranch.study.worker import Backend, Outcome

_LOG = logger(__name__)
_INTERRUPTED = 128 + signal.SIGINT  # exit status, as a shell reports a signal
_POLL_S = 0.2
"""Interval at which the interrupt flag is read."""
_STUCK_FACTOR = 10.0
"""A run is stuck if it takes this many times as long as the slowest run that has ended, and"""
_MIN_STUCK_S = 10.0
"""at least this time."""


@dataclass(frozen=True)
class Plan:
    """The runs of a study, the machines to run them on, and the backend."""

    study: Study
    effort: Effort
    folder: Path
    """Folder for results."""
    backend: Backend
    build: str
    """Fingerprint of the simulator; finished runs of another build are run again."""
    jobs: int = 1
    check: Callable[[Request], None] = validate
    """Raises InputError if a request of the study is not valid."""
    place: str = ""
    """The cluster of the workers, see `anabranch.study.pool`; by default they are processes of this machine."""
    limits: Limits = field(default_factory=Limits)
    """Bounds of each run in the worker processes of this machine."""


@dataclass
class Progress:
    """How far a study has come."""

    total: int
    reused: int
    finished: int = 0
    failures: list[str] = field(default_factory=list)
    """Runs that broke off, with the reason."""
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    """Remarks about the store, for the user."""
    slowest_s: float = 0.0
    """Duration of the slowest run that has ended, in real time."""

    @property
    def ended(self) -> int:
        """Number of runs that have ended since the start, with or without a result."""
        return self.finished + len(self.failures)

    @property
    def open(self) -> int:
        """Number of runs that have not ended."""
        return self.total - self.reused - self.ended

    def left_s(self, elapsed_s: float) -> float | None:
        """Estimate of the time left: at the rate since the start, and at least the duration of the slowest run."""
        if not self.ended:
            return None
        return max(elapsed_s / self.ended * self.open, self.slowest_s) if self.open else 0.0


class Observer(Protocol):
    """An observer of a study that runs, such as a progress bar."""

    def begin(self, progress: Progress) -> None:
        """Runs are about to start."""

    def advance(self, progress: Progress) -> None:
        """A run has ended."""


class Silent:
    """An observer that shows nothing."""

    def begin(self, progress: Progress) -> None:
        """Ignore the start."""

    def advance(self, progress: Progress) -> None:
        """Ignore the end of a run."""


def request_of(study: Study, run: Run) -> Request:
    """The simulator's request for a run."""
    text = study.scenarios[run.point.scenario]
    return Request(text, _file(study.folder, run.point.scenario), run.point.overrides, run.seed)


@lru_cache(maxsize=64)
def _file(folder: Path, scenario: str) -> str:
    return os.path.normpath(folder / scenario)


def execute(plan: Plan, observer: Observer, *, resume: bool) -> Progress:
    """Run all runs that are not finished.

    The first Ctrl-C skips runs that take much longer than all others; without such a run it lets the running runs
    finish and returns. Another one or SIGTERM ends at once.

    Without `resume`, earlier runs are moved aside first and all runs are repeated. No file changes before every point
    has been checked and the pool has been opened.

    Raises:
        InputError: If a scenario is not valid or the results cannot be written.
        RunFailed: If worker processes cannot be started.

    """
    _check(plan)
    runs = plan.study.runs(plan.effort)
    with Store(plan.folder) as store, ExitStack() as stack:
        # Without a handler SIGTERM ends the process at once, and the semaphores of the pool stay.
        stack.enter_context(signals_end())
        checker = RecordChecker()
        open_runs = [r for r in runs if not (resume and _is_finished(store, plan, r, checker))]
        pool = stack.enter_context(closing(_pool(plan, min(plan.jobs, len(open_runs))))) if open_runs else None
        moved = None if resume else store.start_over()
        progress = Progress(total=len(runs), reused=len(runs) - len(open_runs), notes=list(store.notes))
        if moved is not None:
            progress.notes.append(f"earlier runs were kept as {moved}")
        for note in progress.notes:
            _LOG.warning("study %s: %s", plan.study.name, note)
        _LOG.info(
            "study %s: %d runs of the %s form, %d of them stored",
            plan.study.name, progress.total, plan.effort.name, progress.reused,
        )  # fmt: skip
        observer.begin(progress)

        def keep(ended: Iterable[tuple[Run, Outcome]]) -> None:
            for run, outcome in ended:
                _save(plan, run, outcome, store, progress)
                if outcome.begun:
                    observer.advance(progress)
            store.settle()

        if pool is not None:
            try:
                _run_all(pool, plan, _spread(open_runs), progress, keep)
            except BaseException:
                # Otherwise the interpreter would wait at its end for the running runs.
                pool.kill()
                raise
    return progress


def _check(plan: Plan) -> None:
    """Check all points before the first run; the first mistake is raised."""
    study, found = plan.study, False
    for experiment in study.experiments.values():
        if experiment.theory:
            continue
        for point in study.slice(plan.effort, experiment, experiment.over):
            found = True
            try:
                request = request_of(study, Run(point, 1, 0))
                plan.check(request)
                check_storable(request)
            except InputError as error:
                raise placed(error, study, plan.effort, point, FILE) from None
    if not found:
        raise InputError(
            f"there is nothing to run: the {plan.effort.name} form leaves every experiment out", str(study.folder)
        )


def _is_finished(store: Store, plan: Plan, run: Run, checker: RecordChecker) -> bool:
    record = store.records.get(run_key(request_of(plan.study, run)))
    if record is None or record.build != plan.build:
        return False
    try:
        checker.check(record)
    except UnreadableRecord:
        return False
    return True


def _spread(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order of their seeds, so that the time left follows from the share that has ended."""
    return sorted(runs, key=lambda run: run.seed)


def _run_all(
    pool: Pool,
    plan: Plan,
    runs: Sequence[Run],
    progress: Progress,
    keep: Callable[[Iterable[tuple[Run, Outcome]]], None],
) -> None:
    """Run all; `keep` is called with the ended runs at least every `_POLL_S`."""
    waiting: Iterator[tuple[int, Run]] = iter(enumerate(runs))
    pending: dict[int, Run] = {}
    with _Interrupts() as interrupts:
        while True:
            if interrupts.again:
                raise SystemExit(_INTERRUPTED)
            if interrupts.seen and not progress.interrupted:
                if _skip_stuck(pool, pending, progress):
                    interrupts.forget()
                    continue
                interrupts.tell()
                progress.interrupted = True
                waiting = iter(())
                pool.stop()
            _refill(pool, plan, waiting, pending)
            if not pending:
                return
            keep((pending.pop(ticket), outcome) for ticket, outcome in pool.take(_POLL_S))


def _skip_stuck(pool: Pool, pending: Mapping[int, Run], progress: Progress) -> bool:
    """End the runs that take much longer than all that have ended; returns whether there are any."""
    least = max(_MIN_STUCK_S, _STUCK_FACTOR * progress.slowest_s)
    stuck = {ticket: age for ticket, age in pool.under_way().items() if progress.ended and age > least}
    for ticket, age in stuck.items():
        pool.skip(ticket, f"skipped by Ctrl-C after {age:.0f} s; the slowest other run took {progress.slowest_s:.1f} s")
        _warn(f"skipped after {age:.0f} s: {pending[ticket].title}; the other runs go on, Ctrl-C again stops the study")
    return bool(stuck)


def _warn(sentence: str) -> None:
    """Write a sentence past all buffers, on a new line: a progress bar may have begun one."""
    os.write(2, f"\nanabranch: {sentence}\n".encode())


def _pool(plan: Plan, jobs: int) -> Pool:
    """The workers that the plan asks for."""
    if not plan.place:
        return LocalPool(plan.backend, jobs, plan.limits)
    if plan.place == "dask":
        forkserver.begin()
    from anabranch.study import cluster

    return cluster.open_pool(plan.place, plan.backend, jobs)


class _Interrupts:
    """Turns Ctrl-C into a flag, so that nothing is cut short between a run's end and its record on disk.

    A second one requests an end at once; a third ends the process. Outside the main thread signals stay as they are.
    """

    def __init__(self) -> None:
        self.seen = False
        self.again = False
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, *_: object) -> None:
        if self.again:
            os._exit(_INTERRUPTED)
        if self.seen:
            self.again = True
            _warn("interrupted again; unfinished runs are lost, go on with --resume")
            return
        self.seen = True

    def forget(self) -> None:
        """Treat the next Ctrl-C as the first one."""
        self.seen = False

    @staticmethod
    def tell() -> None:
        """Print the effect of the first Ctrl-C."""
        _warn("interrupted; waiting for running runs, Ctrl-C again ends at once")


def _refill(pool: Pool, plan: Plan, waiting: Iterator[tuple[int, Run]], pending: dict[int, Run]) -> None:
    """Submit runs until every worker has one in reserve. An interrupt loses no run that has not started."""
    for ticket, run in itertools.islice(waiting, max(0, pool.capacity - len(pending))):
        pool.submit(ticket, request_of(plan.study, run))
        pending[ticket] = run


def _save(plan: Plan, run: Run, outcome: Outcome, store: Store, progress: Progress) -> None:
    """Save the outcome of a run.

    Raises:
        InputError: If the run was not possible.

    """
    if not outcome.begun:
        return
    progress.slowest_s = max(progress.slowest_s, outcome.seconds)
    if outcome.mistake is not None:
        raise outcome.mistake
    if outcome.document is None:
        progress.failures.append(f"{run.title}: {outcome.failure}")
        _LOG.warning("run failed: %s: %s", run.title, outcome.failure)
        return
    key = run_key(request_of(plan.study, run))
    # The key identifies the run exactly; the store stays small without the complete scenario.
    document = without_scenario(outcome.document)
    store.append(Record(key, run.title, run.repetition, run.seed, plan.build, outcome.host, document))
    progress.finished += 1
    _LOG.info("run finished: %s, %.3f s", run.title, outcome.seconds)
