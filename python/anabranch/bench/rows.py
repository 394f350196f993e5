"""Measures the steps of a study around its runs: write rows to the store, check for missing runs, write the report.

The rows are generated: each is the result of a real run of its scenario with all numbers slightly changed. The steps
treat them as real rows. The rows have a separate simulator version, which marks them as generated.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import random
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import simulate
from anabranch.bench.measure import peak_bytes
from anabranch.documents import without_scenario
from anabranch.errors import RunFailed
from anabranch.study.engine import Plan, Progress, execute, request_of
from anabranch.study.library import find
from anabranch.study.store import FILE, Record, Store, run_key
from anabranch.study.worker import host_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch._core.document import Document
    from anabranch.study.model import Effort, Study

BUILD = "made up"
"""Simulator version in generated rows."""
_RELATIVE_RANGE = 0.1  # range of a number relative to its value
_VARIANTS = 500  # different results of a scenario; more variants do not change the measured costs


@dataclass(frozen=True)
class Cost:
    """Cost of a step, which runs in a separate process."""

    step: str
    wall_s: float
    cpu_s: float
    """Processor time of all threads of the process."""
    peak_bytes: int
    """Peak resident size of the process, bytes."""


@dataclass(frozen=True)
class Rows:
    """A store of generated rows, and the cost of each step on it."""

    study: str
    rows: int
    file_bytes: int
    costs: tuple[Cost, ...]


class _SilentObserver:
    """An observer that shows nothing."""

    def begin(self, progress: Progress) -> None:
        """Do nothing."""

    def advance(self, progress: Progress) -> None:
        """Do nothing."""


def measure(name: str, count: int, folder: Path) -> Rows:
    """Generate at least `count` rows of a study's full form by repeating each point, and measure the steps on them.

    Raises:
        InputError: If the study is unknown or the folder cannot be written.
        RunFailed: If a process dies.

    """
    study = find(name)
    points = len(study.points(study.full))
    repetitions = -(-count // points)
    steps: dict[str, Callable[[str, int, Path], None]] = {"rows": fill, "resume check": look, "report": report}
    costs = tuple(_in_own_process(step, work, name, repetitions, folder) for step, work in steps.items())
    return Rows(name, points * repetitions, _folder(study, folder).joinpath(FILE).stat().st_size, costs)


def fill(name: str, repetitions: int, folder: Path) -> None:
    """Generate rows and save them as a study does."""
    study = find(name)
    variants: dict[tuple[str, str], list[Document]] = {}
    host = host_settings()
    with Store(_folder(study, folder)) as store:
        for run in study.runs(_effort(study, repetitions)):
            request = request_of(study, run)
            place = (run.point.experiment, run.point.scenario)
            if place not in variants:
                pattern = without_scenario(simulate(request))
                draw = random.Random(run.seed)
                variants[place] = [varied(pattern, draw) for _ in range(_VARIANTS)]
            document = variants[place][run.seed % _VARIANTS].copy()
            document.update({"seed": run.seed, "digest": f"{run.seed:016x}"})
            store.append(Record(run_key(request), run.title, run.repetition, run.seed, BUILD, host, document))
            store.settle()


def varied(value: Any, draw: random.Random) -> Any:
    """Copy a part of a document and change all its numbers slightly."""
    if isinstance(value, dict):
        return {key: varied(part, draw) for key, part in value.items()}
    if isinstance(value, list):
        return [varied(part, draw) for part in value]
    if isinstance(value, float):
        return value * (1.0 + _RELATIVE_RANGE * (draw.random() - 0.5))
    if isinstance(value, int) and not isinstance(value, bool):
        return round(value * (1.0 + _RELATIVE_RANGE * (draw.random() - 0.5)))
    return value


def look(name: str, repetitions: int, folder: Path) -> None:
    """Resume the study; no run is missing."""
    study = find(name)
    effort = _effort(study, repetitions)
    outcome = execute(Plan(study, effort, _folder(study, folder), simulate, BUILD), _SilentObserver(), resume=True)
    if outcome.reused != outcome.total:
        raise RunFailed(f"{outcome.total - outcome.reused} of {outcome.total} rows were not reused")


def report(name: str, repetitions: int, folder: Path) -> None:
    """Write and print the report as `anabranch study report` does."""
    from anabranch.cli.study import study as command

    arguments = ["report", name, "--reps", str(repetitions), "--results", str(folder)]
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        command.main(arguments, "anabranch study", standalone_mode=False)


def _effort(study: Study, repetitions: int) -> Effort:
    return study.effort(quick=False, repetitions=repetitions)


def _folder(study: Study, folder: Path) -> Path:
    """Path of the store for a study's full form in a folder of results."""
    return folder / study.name / study.full.name


def _in_own_process(
    step: str, work: Callable[[str, int, Path], None], name: str, repetitions: int, folder: Path
) -> Cost:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(_cost, step, work, name, repetitions, folder).result()
        except concurrent.futures.process.BrokenProcessPool:
            raise RunFailed(f"{step}: the process died, perhaps for lack of memory") from None


def _cost(step: str, work: Callable[[str, int, Path], None], name: str, repetitions: int, folder: Path) -> Cost:
    began_s = time.perf_counter()
    work(name, repetitions, folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Cost(step, time.perf_counter() - began_s, used.ru_utime + used.ru_stime, peak_bytes())
