"""Runs of the scenarios of a comparison, several at a time, with this program or that of another build."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core import worlds
from anabranch._core.simulator import LARGEST_SEED, Request
from anabranch.documents import parse_documents
from anabranch.errors import InputError, RunFailed
from anabranch.logs import logger
from anabranch.paths import names_others
from anabranch.study import worker
from anabranch.study.engine import Progress
from anabranch.study.local import LocalPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch._core.document import Document
    from anabranch.scenario import Scenario
    from anabranch.study.engine import Observer
    from anabranch.study.worker import Outcome

_LOG = logger(__name__)
_WAIT_S = 1.0
_INPUT_ERROR = 2
"""Exit status of the command line for a mistake in the input."""


@dataclass(frozen=True)
class Variant:
    """A scenario to run, as a side of a comparison."""

    name: str
    scenario: Scenario
    program: str | None = None
    """Absolute path of the program of another build; this build if `None`."""


@dataclass(frozen=True)
class Plan:
    """Number of runs of each variant, their seeds, and the world and number of processes."""

    reps: int = 10
    seed: int = 1
    """Seed of the first run; the others follow."""
    jobs: int = 1
    world: str = "sim"

    @property
    def seeds(self) -> range:
        """The seeds of each variant.

        Raises:
            InputError: If a number is out of its range.

        """
        for name, value in (("reps", self.reps), ("jobs", self.jobs)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} must be a whole number from 1 on, but is {value!r}")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise InputError(f"seed must be a whole number from 0 on, but is {self.seed!r}")
        if self.seed + self.reps - 1 > LARGEST_SEED:
            raise InputError(f"the last seed must be at most {LARGEST_SEED}; use a smaller seed or fewer repetitions")
        return range(self.seed, self.seed + self.reps)


@dataclass(frozen=True)
class Task(Request):
    """A request with the world and the program that carry it out."""

    world: str = "sim"
    program: str | None = None


def carry_out(request: Request) -> Document:
    """Run a task; the function that worker processes call."""
    assert isinstance(request, Task)
    if request.program is not None:
        return _run_program(request, request.program)
    return worlds.of(request.world)(request)


def find_program(path: str) -> str:
    """The absolute path of the program of another build.

    Raises:
        InputError: If there is no executable file.

    """
    program = Path(path).absolute()
    if not (program.is_file() and os.access(program, os.X_OK)):
        raise InputError("is not an executable file; name the program anabranch of the other build", path)
    return str(program)


def run_all(variants: Sequence[Variant], plan: Plan, observer: Observer) -> list[list[Document]]:
    """Run all variants with each seed, seed by seed, so that changes of a machine over time concern all sides.

    Returns:
        The result documents of each variant in the order of the seeds.

    Raises:
        InputError: If a scenario is not valid or this machine cannot run it.
        RunFailed: If a run fails.

    """
    tasks = [(variant, seed) for seed in plan.seeds for variant in variants]
    for variant in variants:
        _check(variant, plan.world)
    jobs = min(plan.jobs, len(tasks)) if plan.world == "sim" else 1
    progress = Progress(total=len(tasks), reused=0)
    observer.begin(progress)
    found: dict[int, Document] = {}
    requests = [_task(variant, seed, plan.world) for variant, seed in tasks]
    for number, outcome in _outcomes(requests, jobs):
        variant, seed = tasks[number]
        if outcome.mistake is not None:
            raise outcome.mistake
        if outcome.document is None:
            raise RunFailed(f"{variant.name}, seed {seed}: {outcome.failure.removeprefix('RunFailed: ')}")
        found[number] = outcome.document
        progress.finished += 1
        _LOG.info("run finished: %s, seed %d, %.3f s", variant.name, seed, outcome.seconds)
        observer.advance(progress)
    return [[found[number] for number in range(index, len(tasks), len(variants))] for index in range(len(variants))]


def _check(variant: Variant, world: str) -> None:
    """Refuse a scenario that cannot run before anything runs; another build checks its own."""
    if variant.program is not None:
        return
    scenario = variant.scenario
    worlds.checker(world)(Request(scenario.text, scenario.file, scenario.overrides))


def _task(variant: Variant, seed: int, world: str) -> Task:
    scenario = variant.scenario
    return Task(
        scenario.text, scenario.file, scenario.overrides, seed=seed, world=world, program=variant.program
    )  # fmt: skip


def _outcomes(requests: Sequence[Task], jobs: int) -> Iterator[tuple[int, Outcome]]:
    if jobs == 1:
        # No worker process: scripts without a main guard can compare, too.
        yield from ((number, worker.run(carry_out, request)) for number, request in enumerate(requests))
        return
    with closing(LocalPool(carry_out, jobs)) as pool:
        try:
            yield from _pooled(pool, requests)
        except BaseException:
            pool.kill()
            raise


def _pooled(pool: LocalPool, requests: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
    try:
        for number, request in enumerate(requests):
            pool.submit(number, request)
        left = len(requests)
        while left:
            ended = pool.take(_WAIT_S)
            left -= len(ended)
            yield from ended
    except RunFailed:
        raise RunFailed("a worker process died, perhaps for lack of memory; use fewer jobs") from None


def _run_program(task: Task, program: str) -> Document:
    """Run a task with the program of another build, in the folder that files of the scenario are relative to."""
    command = [program, "run", "-", "--json", "--seed", str(task.seed)]
    if task.world != "sim":
        command += ["--world", task.world]
    if names_others(task.scenario, task.file):
        command += ["--allow-paths"]
    for override in task.overrides:
        command += ["--set", override]
    folder = Path(task.file).parent
    try:
        done = subprocess.run(
            command, input=task.scenario, cwd=folder if folder.is_dir() else None, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot be started: {error.strerror}", program) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode} without a message"]
        message = lines[-1].removeprefix("anabranch: ").replace("standard input", task.file)
        raise InputError(message, program) if done.returncode == _INPUT_ERROR else RunFailed(f"{program}: {message}")
    return parse_documents(done.stdout, program)[0]
