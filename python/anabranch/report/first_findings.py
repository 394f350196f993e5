"""The first findings of a study's report: for each experiment, the causes that slow its points down."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._core.simulator import canonical
from anabranch.explain.likely import first_finding
from anabranch.explain.remedies import KINDS, WITHOUT_REMEDY
from anabranch.report.study_tables import Table
from anabranch.study.engine import request_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request
    from anabranch.explain.likely import Likely
    from anabranch.study.analysis import Analysis
    from anabranch.study.model import Experiment, Run
    from anabranch.study.store import StoredRun

NOTE = (
    "Rules name the first cause by one run of each point, without running a remedy. `anabranch explain` measures the "
    "gain of each remedy; the command in the last column does so for the point that misses most of its links' rate."
)
MAX_POINTS = 100
"""Points of an experiment that are examined, at equal distances."""
_TITLES = {**{kind.name: kind.title for kind in KINDS}, **WITHOUT_REMEDY, "unknown": "no cause is known"}


@dataclass(frozen=True)
class _Found:
    """The first finding on a point."""

    request: Request
    likely: Likely


def tables(analysis: Analysis) -> list[tuple[str, Table]]:
    """The title and the table of each experiment with a finding.

    Args:
        analysis: The finished runs of a study; those on the kernel lack the times that the rules need.

    """
    found = [(experiment.title, _table(analysis, experiment)) for experiment in analysis.study.experiments.values()]
    return [(title, table) for title, table in found if table.rows]


def _table(analysis: Analysis, experiment: Experiment) -> Table:
    """One row for each kind of finding, the most frequent first."""
    firsts = list(_first_runs(analysis, experiment))
    chosen = firsts[:: -(-len(firsts) // MAX_POINTS) or 1]
    found = [each for run in chosen if (each := _of(analysis, run)) is not None]
    counts = Counter(each.likely.kind for each in found)
    rows = []
    for kind, count in counts.most_common():
        worst = max((each for each in found if each.likely.kind == kind), key=lambda each: each.likely.gap)
        cause = f"{worst.likely.cause}." if worst.likely.cause else "–"
        missed = f"{100 * worst.likely.gap:.0f} %"
        rows.append([_TITLES[kind], str(count), missed, cause, _command(analysis, worst.request)])
    note = f"{len(found)} of {len(firsts)} points."
    return Table(["first finding", "points", "missed, at most", "cause there", "command"], rows, note)


def _first_runs(analysis: Analysis, experiment: Experiment) -> Iterator[tuple[Run, StoredRun]]:
    """The first run of each point."""
    seen = set()
    for run, stored in analysis.runs:
        if run.point.experiment == experiment.name and run.point.key not in seen:
            seen.add(run.point.key)
            yield run, stored


def _of(analysis: Analysis, first: tuple[Run, StoredRun]) -> _Found | None:
    run, stored = first
    request = request_of(analysis.study, run)
    document: Document = {**stored.record().document, "scenario": dict(canonical(request))}
    likely = first_finding(document)
    return None if likely is None else _Found(request, likely)


def _command(analysis: Analysis, request: Request) -> str:
    """The command that explains a point, for a shell in the folder of the study."""
    name = os.path.relpath(request.file, analysis.study.folder)
    settings: Iterable[str] = request.overrides
    words: Sequence[str] = [word for setting in settings for word in ("--set", setting)]
    seed = [] if request.seed is None else ["--seed", str(request.seed)]
    return shlex.join(["anabranch", "explain", name, *words, *seed])
