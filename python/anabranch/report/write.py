"""Everything that a study leaves in its folder: tables, figures, report."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from anabranch.errors import InputError, RunFailed, not_written
from anabranch.plot import heat, panels, style, windows
from anabranch.report import markdown
from anabranch.report.terminal import unreadable
from anabranch.study import frames
from anabranch.study.engine import request_of
from anabranch.traces import Traces, span_of

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure as Canvas

    from anabranch.study.analysis import Analysis
    from anabranch.study.engine import Plan
    from anabranch.study.figures import Figure
    from anabranch.sweep import Point


def write_all(analysis: Analysis, plan: Plan) -> Path:
    """Write runs.parquet, links.parquet, points.csv, the figures and report.md; returns the report.

    Raises:
        InputError: If the folder cannot be written.
        RunFailed: If a run that is repeated for its traces comes out differently.

    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        frames.write(analysis, plan.folder)
        if not analysis.runs:
            raise InputError(f"holds no run that this version can read; {unreadable(analysis)}", str(plan.folder))
        return markdown.write(analysis, draw_all(analysis, plan), plan)
    except OSError as error:
        place = str(error.filename or plan.folder)
        raise not_written(f"cannot be written: {error.strerror or error}", error, place) from None


def draw_all(analysis: Analysis, plan: Plan) -> list[Path]:
    """Draw the figures of a study whose points were run; returns the files."""
    files: list[Path] = []
    for figure in analysis.study.figures:
        canvas = _draw(figure, analysis, plan)
        if canvas is not None:
            files += style.save(canvas, plan.folder / "figures", figure.name)
    return files


def _draw(figure: Figure, analysis: Analysis, plan: Plan) -> Canvas | None:
    if figure.kind == "windows":
        return _draw_windows(figure, analysis, plan)
    return heat.draw(figure, analysis) if figure.kind == "heat" else panels.draw(figure, analysis)


def _draw_windows(figure: Figure, analysis: Analysis, plan: Plan) -> Canvas | None:
    """Draw windows over time of the first repetition of each point."""
    columns, last = [], 0.0
    for index, point in enumerate(windows.points_of(figure, analysis), start=1):
        duration = analysis.duration_s(point)
        if figure.window[0] >= duration:
            continue
        span = span_of(figure.window, duration)
        last = max(last, span[1])
        folder = plan.folder / "traces" / f"{figure.name}-{index}"
        _trace(point, folder, analysis, plan)
        curves = windows.Curves.of(Traces(folder), figure.subjects, span)
        columns.append((windows.title(figure, analysis, point), curves))
    shown = (figure.window[0], last) if any(figure.window) else figure.window
    layout = windows.Layout(figure.title, figure.labels, figure.width, shown)
    return windows.draw(layout, columns) if columns else None


def _trace(point: Point, folder: Path, analysis: Analysis, plan: Plan) -> None:
    """Repeat the first run of a point with traces; its digest has to be that of the run in the study."""
    run, record = next((run, record) for run, record in analysis.runs if run.point.key == point.key)
    request = dataclasses.replace(request_of(analysis.study, run), trace=str(folder))
    document = plan.backend(request)
    if record.build == plan.build and document["digest"] != record.document["digest"]:
        raise RunFailed(f"{run.title}: repeated for its traces, the run came out differently; this is a bug")
