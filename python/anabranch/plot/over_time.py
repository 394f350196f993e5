"""Parts that figures over time share: a column for each point, from the traces of its first run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from anabranch.plot import ranges
from anabranch.plot.style import settle
from anabranch.study.figures import Key
from anabranch.sweep import matches
from anabranch.traces import span_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from anabranch._core.document import Document
    from anabranch.study.analysis import Analysis
    from anabranch.study.document import Table
    from anabranch.study.figures import Figure
    from anabranch.study.scope import Scope
    from anabranch.sweep import Point
    from anabranch.traces import Traces, Window


@dataclass(frozen=True)
class TracedRun:
    """A run with its traces."""

    traces: Traces
    document: Document
    """Result document of the run."""


TracesOf = Callable[["Point", int], TracedRun]
"""Function that repeats the n-th run of a point, counted from 0, with traces."""


@dataclass(frozen=True)
class Column:
    """The traced runs of one point, with the title of its column and the span of time to show."""

    title: str
    runs: tuple[TracedRun, ...]
    """One run of the point, or all of its repetitions."""
    span: Window

    @property
    def traces(self) -> Traces:
        """The traces of the first run."""
        return self.runs[0].traces


def points_of(figure: Figure, analysis: Analysis) -> list[Point]:
    """The points that a figure of a study shows, one per column."""
    return [p for p in analysis.points() if p.experiment == figure.experiment and matches(p.values, figure.where)]


def columns_of(figure: Figure, analysis: Analysis, traces: TracesOf, *, repeated: bool = False) -> list[Column]:
    """A column for each point of a figure whose runs reach its window, with the first run or all of them."""
    columns = []
    for point in points_of(figure, analysis):
        duration = analysis.duration_s(point)
        if figure.window[0] < duration:
            span = span_of(figure.window, duration)
            count = analysis.runs_of(point)[0] if repeated else 1
            runs = tuple(traces(point, n) for n in range(count))
            columns.append(Column(title(figure, analysis, point), runs, span))
    return columns


def finished(figure: Figure, canvas: Canvas) -> Canvas:
    """Apply ticks, ranges and vertical lines of a figure to its panels."""
    ranges.apply(canvas.axes, figure.options)
    settle(canvas)
    return canvas


def title(figure: Figure, analysis: Analysis, point: Point) -> str:
    """Title of the column of a point: the value of the figure's parameter, or of all that differ between points.

    If all points have the same values, the title of the only column has the values of all parameters.
    """
    points = points_of(figure, analysis)
    differing = [name for name, value in point.values.items() if any(p.values[name] != value for p in points)]
    names = [figure.columns] if figure.columns else differing or list(point.values)
    parameters = analysis.study.parameters
    return ", ".join(parameters[name].show(point.values[name]) for name in names)


def _check_window(table: Table[Any], _: Scope, window: Window) -> None:
    if window[0] >= window[1]:
        raise table.error('"window" has to be [from, to] in seconds', "window")


WINDOW = Key(
    "window",
    Annotated[
        tuple[float, float] | UnsetType,
        Meta(
            description="Shown span of time, seconds; the whole run if left out.",
            extra={"form": "[from, to] in seconds"},
        ),
    ],
    UNSET,
    _check_window,
)
