"""Studies from Python: run one, and read its finished runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core import simulator
from anabranch.errors import RunFailed
from anabranch.study.analysis import Analysis
from anabranch.study.engine import Plan, Silent, execute
from anabranch.study.library import find
from anabranch.study.store import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.study.code import Function
    from anabranch.study.worker import Backend


def run(
    study: str | Path,
    *,
    quick: bool = False,
    results: str | Path = "results",
    jobs: int | None = None,
    metrics: Mapping[str, Function] | None = None,
    backend: Backend = simulator.simulate,
    allow_paths: bool = False,
    allow_code: bool = False,
) -> Analysis:
    """Run the unfinished runs of a study, and read the values of all.

    Args:
        study: The name of a study that comes with the package, or the folder of one with its study.toml.
        quick: Whether to run the quick form.
        results: Folder for the results of all studies, as for `anabranch study run --results`.
        jobs: Number of worker processes; by default the number of cores.
        metrics: Further metrics of the run by name: functions from a result document to a value, or to `None` for no
            value. Figures and claims of the study may name them.
        backend: Function that runs a scenario.
        allow_paths: Whether the study may name files outside its folder, and its scenarios traces outside theirs.
        allow_code: Whether the study may name functions in Python as metrics.

    Returns:
        The finished runs, with `samples(point, metric)` and `estimates(point, metric)` of all `points()`.

    Raises:
        InputError: If the study has a mistake or the results cannot be written.
        RunFailed: If a run broke off.

    """
    chosen = find(study, metrics, allow_paths=allow_paths, allow_code=allow_code)
    effort = chosen.effort(quick)
    build = simulator.build_fingerprint()
    target = Path(results) / chosen.name / effort.name
    plan = Plan(chosen, effort, target, backend, build, jobs or os.cpu_count() or 1)
    progress = execute(plan, Silent(), resume=True)
    if progress.failures:
        raise RunFailed(f"{len(progress.failures)} of {progress.total} runs broke off: {progress.failures[0]}")
    with read(target) as store:
        analysis = Analysis(chosen, effort, store.records, build)
        # The first pass over the records collects all values, so that the store can be closed.
        analysis.read()
    return analysis
