"""Runs a study: all points and repetitions over worker processes, each finished run saved at once.

The outcome does not depend on the number of workers or on interruptions: a run is defined by its scenario, settings
and seed alone, and reports read the finished runs in the order of the study, not of their completion.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import platform
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from anabranch.errors import InputError, RunFailed
from anabranch.simulator import Request, validate
from anabranch.study import worker
from anabranch.study.store import Record, Store, run_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anabranch.study.definition import Effort, Run, Study
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
    file = os.path.normpath(study.folder / run.point.scenario)
    return Request(text, file, run.point.overrides, run.seed)


def execute(plan: Plan, observer: Observer, *, resume: bool) -> Progress:
    """Run what is not finished yet. Ctrl-C lets the runs at hand finish and returns; a second one ends at once.

    Without `resume` the runs of an earlier time are moved aside first and everything runs anew. Nothing is touched
    before every point is known to be a valid scenario.

    Raises:
        InputError: If the study asks for something impossible or the results cannot be written.
        RunFailed: If the worker processes die.

    """
    runs = plan.study.runs(plan.effort)
    _check(plan, runs)
    with Store(plan.folder) as store:
        moved = None if resume else store.start_over()
        open_runs = [r for r in runs if not _is_finished(store, plan, r)]
        progress = Progress(total=len(runs), reused=len(runs) - len(open_runs), notes=list(store.notes))
        if moved is not None:
            progress.notes.append(f"earlier runs were kept as {moved}")
        observer.begin(progress)
        if open_runs:
            _run_all(plan, _spread(open_runs), store, progress, observer)
    return progress


def _check(plan: Plan, runs: Sequence[Run]) -> None:
    """Find the mistakes of all points before the first one runs."""
    if not runs:
        raise InputError(
            f"there is nothing to run: the {plan.effort.name} form leaves every experiment out", str(plan.study.folder)
        )
    for run in runs:
        if run.repetition == 1:
            plan.check(request_of(plan.study, run))


def host_settings() -> dict[str, str]:
    """Settings of this machine that a reader of results may ask for."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": model,
        "cores": str(os.cpu_count() or 0),
        "python": platform.python_version(),
    }


def _is_finished(store: Store, plan: Plan, run: Run) -> bool:
    record = store.records.get(run_key(request_of(plan.study, run)))
    return record is not None and record.build == plan.build


def _spread(runs: Sequence[Run]) -> list[Run]:
    """Runs in a scattered but fixed order, so that the time left can be told from the share that is done."""
    return sorted(runs, key=lambda run: run.seed)


def _run_all(plan: Plan, runs: Sequence[Run], store: Store, progress: Progress, observer: Observer) -> None:
    host = host_settings()
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        max_workers=min(plan.jobs, len(runs)), mp_context=context, initializer=worker.prepare
    )
    waiting = iter(runs)
    pending: dict[concurrent.futures.Future[Outcome], Run] = {}
    try:
        with _Interrupts() as interrupts:
            while True:
                if interrupts.again:
                    _end(set(multiprocessing.active_children()) - others)
                if interrupts.seen and not progress.interrupted:
                    progress.interrupted = True
                    waiting = iter(())
                _refill(pool, plan, waiting, pending)
                if not pending:
                    return
                _take_finished(plan, pending, store, progress, observer, host)
    except concurrent.futures.process.BrokenProcessPool:
        raise RunFailed(
            "a worker process died, perhaps for lack of memory; finished runs are kept, go on with --resume"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end(workers: set[multiprocessing.process.BaseProcess]) -> NoReturn:
    for process in workers:
        process.kill()
    raise SystemExit(_INTERRUPTED)


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


def _refill(
    pool: concurrent.futures.ProcessPoolExecutor,
    plan: Plan,
    waiting: Iterator[Run],
    pending: dict[concurrent.futures.Future[Outcome], Run],
) -> None:
    """Keep every worker busy and one run each in reserve, no more: what is not begun is not lost to an interrupt."""
    while len(pending) < 2 * plan.jobs:
        run = next(waiting, None)
        if run is None:
            return
        pending[pool.submit(worker.run, plan.backend, request_of(plan.study, run))] = run


def _take_finished(
    plan: Plan,
    pending: dict[concurrent.futures.Future[Outcome], Run],
    store: Store,
    progress: Progress,
    observer: Observer,
    host: dict[str, str],
) -> None:
    """Wait for the next run to end, or for a moment, and save what has ended."""
    done, _ = concurrent.futures.wait(pending, _MOMENT, return_when=concurrent.futures.FIRST_COMPLETED)
    for future in done:
        run = pending[future]
        outcome = future.result()
        if outcome.mistake is not None:
            raise outcome.mistake
        if outcome.document is None:
            progress.failures.append(f"{run.title}: {outcome.failure}")
        else:
            key = run_key(request_of(plan.study, run))
            # What exactly was run follows from the key; leaving the spelt-out scenario away keeps the store small.
            document = {k: v for k, v in outcome.document.items() if k != "scenario"}
            store.append(Record(key, run.title, run.repetition, run.seed, plan.build, host, document))
            progress.finished += 1
        del pending[future]
        observer.advance(progress)
