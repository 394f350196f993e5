"""Draws panels over the parameters of a study: lines, bars and boxes over a parameter, or distributions of a metric.

This module selects the points of each panel and draws axes, labels and the legend. The kinds in `plot.kinds` draw the
panels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from anabranch.metrics import SIGNED
from anabranch.plot import marks
from anabranch.plot.style import COLUMN_WIDTH, REFERENCE_STYLES, SETTINGS, legend, settle
from anabranch.study.figures import Kind
from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure
    from anabranch.sweep import Point, Value

    Paint = Callable[[Axes, Sequence[Point]], None]
    """Function that draws one panel."""
    Grid = Any
    """Array of axes by row and column."""

_PANEL_WIDTH = 1.85
_PANEL_HEIGHT = 1.75
_MIN_PLACE_WIDTH = 0.19  # inches of a value on an axis without a scale
_FEW_DECADES = 1.4


PANEL_KEYS = frozenset({"metric", "x", "rows", "series", "together", "reference"})
"""Keys that all kinds of panels have."""


class PanelKind(Kind):
    """A kind of figure with a panel for each row and column, and a legend of its series."""

    has_series = True

    @abstractmethod
    def paint(self, axes: Axes, view: marks.View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""

    @abstractmethod
    def handle(self, index: int, label: str) -> Artist:
        """Entry of the legend for the n-th series."""

    def draw(self, figure: Figure, analysis: Analysis, traces: object) -> Canvas | None:
        """Draw all panels; traces are not needed."""
        del traces
        points = chosen(figure, analysis.points())
        if not points:
            return None
        view = view_of(figure, analysis, points)
        return compose(view, points, lambda axes, panel: self.paint(axes, view, panel), self._handles(view, points))

    def _handles(self, view: marks.View, points: Sequence[Point]) -> list[Artist]:
        """Entries of the legend: the series, the published values, and the reference lines."""
        figure, analysis = view.figure, view.analysis
        handles = [
            self.handle(index, series_label(figure, analysis, name, points)) for index, name in enumerate(view.names)
        ]
        if marks.shows_published(view) and any(analysis.published_at(p) for p in points):
            handles.append(published_handle(analysis))
        return [*handles, *reference_handles(figure)]


def chosen(figure: Figure, points: Sequence[Point]) -> list[Point]:
    """The points of a figure."""
    return [p for p in points if p.experiment == figure.experiment and matches(p.values, figure.where)]


def view_of(figure: Figure, analysis: Analysis, points: Sequence[Point]) -> marks.View:
    """The series and positions common to all panels of a figure over some points."""
    names = tuple(_series(figure, analysis, points))
    return marks.View(figure, analysis, names, _places(figure, _values(points, figure.x)))


def compose(view: marks.View, points: Sequence[Point], paint: Paint, handles: Sequence[Artist]) -> Canvas:
    """A figure with a panel for each row and column that the points have, and a legend below."""
    figure = view.figure
    rows, columns = _values(points, figure.rows), _values(points, figure.columns)
    with mpl.rc_context(cast("Any", SETTINGS)):
        least = max(_PANEL_WIDTH, 0.0 if _has_scale(figure, list(view.places)) else _MIN_PLACE_WIDTH * len(view.places))
        width = COLUMN_WIDTH if figure.width == "column" else max(3.4, 0.7 + least * len(columns))
        height = 0.95 + max(_PANEL_HEIGHT * len(rows), 2.2 if len(rows) == 1 else 0.0)
        canvas = Canvas(figsize=(width, height), layout="constrained")
        axes = canvas.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                panel = [p for p in points if _fits(p, figure.rows, row) and _fits(p, figure.columns, column)]
                paint(axes[i][j], panel)
        _label(canvas, axes, view, (rows, columns))
        # The label of the horizontal axis is the legend's title: below the panels there is room for one only.
        is_distribution = not figure.kind.has_places
        study = view.analysis.study
        axis = study.metrics[figure.metric].axis if is_distribution else study.parameters[figure.x].axis
        legend(canvas, handles, 5, title=axis)
        settle(canvas)
    return canvas


def _label(canvas: Canvas, axes: Grid, view: marks.View, panels: tuple[list[Value], list[Value]]) -> None:
    """Title, axis labels, and the values of rows and columns at the edges."""
    figure, places = view.figure, view.places
    parameters = view.analysis.study.parameters
    rows, columns = panels
    for j, value in enumerate(columns):
        if figure.columns:
            axes[0][j].set_title(parameters[figure.columns].show(value))
    for i, value in enumerate(rows):
        if figure.rows:
            parameter = parameters[figure.rows]
            text = f"{parameter.label or parameter.name}\n{parameter.show(value)}"
            axes[i][-1].annotate(
                text,
                (1.03, 0.5),
                xycoords="axes fraction",
                rotation=-90,
                va="center",
                ha="left",
                fontsize=8.0,
            )
    if figure.kind.has_places and not _has_scale(figure, list(places)):
        axes[0][0].set_xticks(list(places.values()), [plain(v) for v in places])
    elif figure.log_x:
        _make_logarithmic(axes[0][0])
    if axes[0][0].get_ylim()[0] >= 0.0 or figure.metric not in SIGNED:
        axes[0][0].set_ylim(bottom=0.0)
    together = f", {figure.together}" if figure.together not in ("", "mean") else ""
    quantity = view.analysis.study.metrics[figure.metric].axis + together
    _apply_ranges(axes, figure)
    canvas.supylabel(quantity if figure.kind.has_places else "Share of runs", fontsize=8.5)
    if figure.title:
        canvas.suptitle(figure.title, fontsize=9.5)


def _apply_ranges(axes: Grid, figure: Figure) -> None:
    """Set the ranges of the axes that the figure has, and draw its vertical lines."""
    if figure.options.get("x_range"):
        axes[0][0].set_xlim(*figure.options["x_range"])
    if figure.options.get("y_range"):
        axes[0][0].set_ylim(*figure.options["y_range"])
    for place in figure.options.get("marks", ()):
        for panel in axes.flat:
            panel.axvline(place, color="#888888", linewidth=0.8, zorder=1)


def _make_logarithmic(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with as many plain numbers as fit a panel."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < _FEW_DECADES else (1, 3) if decades < 2 * _FEW_DECADES else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def published_handle(analysis: Analysis) -> Artist:
    """Entry of the legend for published values."""
    source = analysis.study.published.source if analysis.study.published is not None else ""
    return Line2D([], [], linestyle="none", marker="o", markersize=6.5, markerfacecolor="none",
                  markeredgecolor="#444444", label=f"published{': ' + source if source else ''}")  # fmt: skip


def reference_handles(figure: Figure) -> list[Artist]:
    """Entries of the legend for the reference lines."""
    return [
        Line2D([], [], color="#666666", linewidth=0.9, linestyle=REFERENCE_STYLES[index % len(REFERENCE_STYLES)],
               label=reference.label)
        for index, reference in enumerate(figure.references)
    ]  # fmt: skip


def _series(figure: Figure, analysis: Analysis, points: Sequence[Point]) -> list[marks.Series]:
    """The series of a figure: one per value of the series' parameter, or one per value and subject."""
    found: dict[str, None] = {}
    for point in points:
        found.update(dict.fromkeys(s for s in analysis.estimates(point, figure.metric) if marks.is_drawn(figure, s)))
    subjects = list(found)
    if figure.series == "subject" and figure.together:
        return [marks.Series()]
    if figure.series == "subject":
        return [marks.Series(subject=subject) for subject in subjects]
    is_single = figure.together or not figure.kind.has_places or len(subjects) < 2  # noqa: PLR2004
    apart: list[str | None] = [None] if is_single else [*subjects]
    return [marks.Series(value, subject) for value in _values(points, figure.series) for subject in apart]


def series_label(figure: Figure, analysis: Analysis, series: marks.Series, points: Sequence[Point]) -> str:
    """Label of a line: that of the figure, or the flow's label if it is the same in all panels."""
    if series == marks.Series():
        return f"{figure.together} of {', '.join(figure.subjects)}"
    parts = [] if series.value is None else [plain(series.value)]
    if series.subject is not None:
        parts.append(_subject_label(figure, analysis, series.subject, points))
    return ", ".join(parts)


def _subject_label(figure: Figure, analysis: Analysis, subject: str, points: Sequence[Point]) -> str:
    if subject in figure.labels:
        return figure.labels[subject]
    experiment = analysis.study.experiments[figure.experiment]
    labels = {experiment.flow_label(subject, p.values) for p in points}
    return labels.pop() if len(labels) == 1 else subject


def _values(points: Sequence[Point], parameter: str) -> list[Value]:
    """The values of a parameter in the points, in order; one dummy value if the parameter is empty."""
    return list(dict.fromkeys(p.values[parameter] for p in points)) if parameter else [""]


def _fits(point: Point, parameter: str, value: Value) -> bool:
    return not parameter or point.values[parameter] == value


def _places(figure: Figure, values: Sequence[Value]) -> marks.Places:
    """Positions on the horizontal axis, the same in all panels: the values if they are a scale, else their order."""
    if _has_scale(figure, values):
        return {v: float(v) for v in values}
    return {v: float(i) for i, v in enumerate(values)}


def _has_scale(figure: Figure, values: Sequence[Value]) -> bool:
    """Whether the horizontal axis is a scale of numbers; bars and boxes have equal distances."""
    return figure.kind.is_scaled and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
