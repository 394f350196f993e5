"""Everything that a study leaves in its folder: tables, figures, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.plot import lines, style
from anabranch.report import markdown
from anabranch.study import frames

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.study.analysis import Analysis
    from anabranch.study.engine import Plan


def write_all(analysis: Analysis, plan: Plan) -> Path:
    """Write runs.parquet, links.parquet, points.csv, the figures and report.md; returns the report.

    Raises:
        InputError: If the folder cannot be written.

    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        frames.write(analysis, plan.folder)
        return markdown.write(analysis, draw_all(analysis, plan), plan.folder)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(error.filename or plan.folder)) from None


def draw_all(analysis: Analysis, plan: Plan) -> list[Path]:
    """Draw the figures of a study whose points were run; returns the files."""
    files: list[Path] = []
    for figure in analysis.study.figures:
        canvas = lines.draw(figure, analysis)
        if canvas is not None:
            files += style.save(canvas, plan.folder / "figures", figure.name)
    return files
