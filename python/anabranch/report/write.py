"""Writes the results of a study into its folder: tables, figures and the report."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from anabranch.errors import InputError, RunFailed, not_written
from anabranch.files import write_output
from anabranch.plot import style
from anabranch.plot.over_time import TracedRun
from anabranch.report import markdown, study_page
from anabranch.report.terminal import unreadable
from anabranch.study import frames
from anabranch.study.engine import request_of
from anabranch.traces import Traces

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure as Canvas

    from anabranch._core.document import Document
    from anabranch.study.analysis import Analysis
    from anabranch.study.engine import Plan
    from anabranch.sweep import Point


def write_all(analysis: Analysis, plan: Plan, page: Path | None = None) -> Path:
    """Write runs.parquet, links.parquet, points.csv, the figures and report.md; returns the report.

    Args:
        analysis: The finished runs.
        plan: The study and its folder of results.
        page: File for the report as a page; `None` for no page.

    Raises:
        InputError: If the folder cannot be written.
        RunFailed: If a run that is repeated for its traces comes out differently.

    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        frames.write(analysis, plan.folder)
        if not analysis.runs:
            raise InputError(f"holds no run that this version can read; {unreadable(analysis)}", str(plan.folder))
        drawn = draw_all(analysis, plan)
        if page is not None:
            write_output(page, study_page.page_of(analysis, drawn, plan.build))
        files = [f for name, canvas in drawn.items() for f in style.save(canvas, plan.folder / "figures", name)]
        return markdown.write(analysis, files, plan)
    except OSError as error:
        place = str(error.filename or plan.folder)
        raise not_written(f"cannot be written: {error.strerror or error}", error, place) from None


def draw_all(analysis: Analysis, plan: Plan) -> dict[str, Canvas]:
    """Draw the figures of a study whose points were run; returns them by name."""
    drawn = {}
    for figure in analysis.study.figures:
        canvas = figure.kind.draw(figure, analysis, _Tracer(figure.name, analysis, plan))
        if canvas is not None:
            drawn[figure.name] = canvas
    return drawn


class _Tracer:
    """Repeats runs with traces, each in its own folder."""

    def __init__(self, name: str, analysis: Analysis, plan: Plan) -> None:
        self._name = name
        self._analysis = analysis
        self._plan = plan
        self._count = 0

    def __call__(self, point: Point, repetition: int) -> TracedRun:
        self._count += 1
        folder = self._plan.folder / "traces" / f"{self._name}-{self._count}"
        document = _trace((point, repetition), folder, self._analysis, self._plan)
        return TracedRun(Traces(folder), document)


def _trace(which: tuple[Point, int], folder: Path, analysis: Analysis, plan: Plan) -> Document:
    """Repeat the n-th run of a point with traces; its digest has to be that of the run in the study."""
    point, repetition = which
    run, record = [(run, record) for run, record in analysis.runs if run.point.key == point.key][repetition]
    request = dataclasses.replace(request_of(analysis.study, run), trace=str(folder))
    document = plan.backend(request)
    if record.build == plan.build and document["digest"] != record.document["digest"]:
        raise RunFailed(f"{run.title}: repeated for its traces, the run came out differently; this is a bug")
    return document
