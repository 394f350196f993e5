"""The first findings of a study's report: for each experiment, the causes that slow its points down."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from anabranch._core.simulator import canonical
from anabranch.explain.likely import first_finding
from anabranch.explain.remedies import KINDS, WITHOUT_REMEDY
from anabranch.report.study_tables import Table
from anabranch.study.engine import request_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request
    from anabranch.explain.likely import Likely
    from anabranch.study.analysis import Analysis
    from anabranch.study.model import Run
    from anabranch.study.store import StoredRun

NOTE = (
    "Rules name the first cause by one run of each point, without running a remedy. `anabranch explain` measures the "
    "gain of each remedy; the command in the last column does so for the point that misses most of its links' rate."
)
MAX_POINTS = 100
"""Maximum number of points of an experiment that are examined, at equal distances."""
_TITLES = {**{kind.name: kind.title for kind in KINDS}, **WITHOUT_REMEDY, "unknown": "no cause is known"}


@dataclass(frozen=True)
class _Found:
    """A point of a study with the first finding on its run."""

    request: Request
    likely: Likely


@lru_cache(maxsize=1)
def tables(analysis: Analysis) -> list[tuple[str, Table]]:
    """The title and the table of each experiment with a finding. Both forms of a report show the same tables.

    Args:
        analysis: The finished runs of a study; those on the kernel lack the times that the rules need.

    """
    firsts: dict[str, dict[str, tuple[Run, StoredRun]]] = {name: {} for name in analysis.study.experiments}
    for run, stored in analysis.runs:
        firsts[run.point.experiment].setdefault(run.point.key, (run, stored))
    found = [
        (experiment.title, _table(analysis, list(firsts[name].values())))
        for name, experiment in analysis.study.experiments.items()
    ]
    return [(title, table) for title, table in found if table.rows]


def _table(analysis: Analysis, firsts: Sequence[tuple[Run, StoredRun]]) -> Table:
    """One row for each kind of finding, the most frequent first; from the first run of each point."""
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


def _of(analysis: Analysis, first: tuple[Run, StoredRun]) -> _Found | None:
    run, stored = first
    request = request_of(analysis.study, run)
    document: Document = {**stored.record().document, "scenario": dict(canonical(request))}
    likely = first_finding(document)
    return None if likely is None else _Found(request, likely)


def _command(analysis: Analysis, request: Request) -> str:
    """The command that explains a point, for a shell in the folder of the study."""
    name = os.path.relpath(request.file, analysis.study.folder)
    words = [word for setting in request.overrides for word in ("--set", setting)]
    seed = [] if request.seed is None else ["--seed", str(request.seed)]
    return shlex.join(["anabranch", "explain", name, *words, *seed])
