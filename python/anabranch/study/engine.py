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

from anabranch.errors import InputError
from anabranch.simulator import Request, validate
from anabranch.study.definition import FILE
from anabranch.study.origin import placed
from anabranch.study.pool import LocalPool
from anabranch.study.store import Record, Store, run_key
from anabranch.testbed.ending import signals_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from anabranch.study.definition import Effort, Run, Study
    from anabranch.study.pool import Pool
    from anabranch.study.worker import Backend, Outcome

_INTERRUPTED = 128 + signal.SIGINT  # exit status, as a shell reports a signal
_MOMENT = 0.2  # seconds between looks at the interrupt flag


@dataclass(frozen=True)
class Plan:
    """What there is to do: the runs of a study, and where and with what to run them."""

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
    """Where the workers are, see `anabranch.study.cluster`; by default they are processes of this machine."""


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
    """What the user should know about the store."""


class Observer(Protocol):
    """Whoever watches a study run, such as a progress bar."""

    def begin(self, progress: Progress) -> None:
        """Runs are about to start."""

    def advance(self, progress: Progress) -> None:
        """A run has ended."""


def request_of(study: Study, run: Run) -> Request:
    """The simulator's request for a run."""
    text = study.scenarios[run.point.scenario]
    return Request(text, _file(study.folder, run.point.scenario), run.point.overrides, run.seed)


@lru_cache(maxsize=64)
def _file(folder: Path, scenario: str) -> str:
    return os.path.normpath(folder / scenario)


def execute(plan: Plan, observer: Observer, *, resume: bool) -> Progress:
    """Run what is not finished yet. Ctrl-C lets the runs at hand finish and returns; another or SIGTERM ends at once.

    Without `resume` the runs of an earlier time are moved aside first and everything runs anew. Nothing is touched
    before every point is known to be a valid scenario and there is a pool to run it.

    Raises:
        InputError: If the study asks for something impossible or the results cannot be written.
        RunFailed: If the worker processes die.

    """
    runs = plan.study.runs(plan.effort)
    _check(plan, runs)
    with Store(plan.folder) as store, ExitStack() as stack:
        # Semaphores of a pool outlive a process that SIGTERM ends without further ado.
        stack.enter_context(signals_end())
        open_runs = [r for r in runs if not (resume and _is_finished(store, plan, r))]
        pool = stack.enter_context(closing(_pool(plan, min(plan.jobs, len(open_runs))))) if open_runs else None
        moved = None if resume else store.start_over()
        progress = Progress(total=len(runs), reused=len(runs) - len(open_runs), notes=list(store.notes))
        if moved is not None:
            progress.notes.append(f"earlier runs were kept as {moved}")
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
                # At its end the interpreter would wait for what is under way.
                pool.kill()
                raise
    return progress


def _check(plan: Plan, runs: Sequence[Run]) -> None:
    """Find the mistakes of all points before the first one runs."""
    if not runs:
        raise InputError(
            f"there is nothing to run: the {plan.effort.name} form leaves every experiment out", str(plan.study.folder)
        )
    for run in runs:
        if run.repetition == 1:
            try:
                plan.check(request_of(plan.study, run))
            except InputError as error:
                raise placed(error, plan.study, plan.effort, run.point, FILE) from None


def _is_finished(store: Store, plan: Plan, run: Run) -> bool:
    record = store.records.get(run_key(request_of(plan.study, run)))
    return record is not None and record.build == plan.build


def _spread(runs: Sequence[Run]) -> list[Run]:
    """Runs in a scattered but fixed order, so that the time left can be told from the share that is done."""
    return sorted(runs, key=lambda run: run.seed)


def _run_all(
    pool: Pool,
    plan: Plan,
    runs: Sequence[Run],
    progress: Progress,
    keep: Callable[[Iterable[tuple[Run, Outcome]]], None],
) -> None:
    """Run all; `keep` is called with what has ended since, every moment."""
    waiting: Iterator[tuple[int, Run]] = iter(enumerate(runs))
    pending: dict[int, Run] = {}
    with _Interrupts() as interrupts:
        while True:
            if interrupts.again:
                raise SystemExit(_INTERRUPTED)
            if interrupts.seen and not progress.interrupted:
                progress.interrupted = True
                waiting = iter(())
                pool.stop()
            _refill(pool, plan, waiting, pending)
            if not pending:
                return
            keep((pending.pop(ticket), outcome) for ticket, outcome in pool.take(_MOMENT))


def _pool(plan: Plan, jobs: int) -> Pool:
    """The workers that the plan asks for."""
    if not plan.place:
        return LocalPool(plan.backend, jobs)
    from anabranch.study import cluster

    return cluster.open_pool(plan.place, plan.backend, jobs)


class _Interrupts:
    """Turns Ctrl-C into a flag, so that nothing is cut short between a run's end and its record on disk.

    A second one asks for an end at once; a third takes it. Each says so. Outside the main thread signals are left
    alone.
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
        # Written past all buffers: this may come in the middle of another line.
        if self.seen:
            self.again = True
            os.write(2, b"\nanabranch: interrupted again; what was under way is lost, go on with --resume\n")
            return
        self.seen = True
        os.write(2, b"\nanabranch: interrupted; the runs under way may finish, Ctrl-C again ends at once\n")


def _refill(pool: Pool, plan: Plan, waiting: Iterator[tuple[int, Run]], pending: dict[int, Run]) -> None:
    """Keep every worker busy and one run each in reserve, no more: what is not begun is not lost to an interrupt."""
    for ticket, run in itertools.islice(waiting, max(0, 2 * pool.width - len(pending))):
        pool.submit(ticket, request_of(plan.study, run))
        pending[ticket] = run


def _save(plan: Plan, run: Run, outcome: Outcome, store: Store, progress: Progress) -> None:
    """Save what became of a run.

    Raises:
        InputError: If the run was not possible.

    """
    if not outcome.begun:
        return
    if outcome.mistake is not None:
        raise outcome.mistake
    if outcome.document is None:
        progress.failures.append(f"{run.title}: {outcome.failure}")
        return
    key = run_key(request_of(plan.study, run))
    # What exactly was run follows from the key; leaving the spelt-out scenario away keeps the store small.
    document = {k: v for k, v in outcome.document.items() if k != "scenario"}
    store.append(Record(key, run.title, run.repetition, run.seed, plan.build, outcome.host, document))
    progress.finished += 1
