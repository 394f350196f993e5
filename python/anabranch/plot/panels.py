"""Draws panels over the parameters of a study: lines, bars and boxes over a parameter, or distributions of a metric.

This module selects the points of each panel and draws axes, labels and the legend. The kinds in `plot.kinds` draw the
panels.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.metrics import SIGNED
from anabranch.plot import marks, ranges
from anabranch.plot.style import COLUMN_WIDTH, REFERENCE_STYLES, SETTINGS, place_legend, settle
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
_NEUTRAL = "#444444"  # colour of entries of the legend that stand for several series
_LEGEND_ARROW_SIZE = 18.0


PANEL_KEYS = frozenset({"metric", "x", "rows", "series", "together", "reference"})
"""Keys that all kinds of panels have."""


class PanelKind(Kind):
    """A kind of figure with a panel for each row and column, and a legend of its series."""

    has_series = True

    @abstractmethod
    def paint(self, axes: Axes, view: marks.View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""

    @abstractmethod
    def handle(self, look: marks.Look, label: str) -> Artist:
        """Entry of the legend for a series."""

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
        looks = [view.look(index) for index in range(len(view.names))]
        if figure.dashes:
            handles = self._handles_of_two(view, looks, points)
        else:
            labels = [series_label(figure, analysis, name, points) for name in view.names]
            handles = [self.handle(*pair) for pair in zip(looks, labels, strict=True)]
        if marks.shows_published(view) and any(analysis.published_at(p) for p in points):
            handles.append(published_handle(analysis))
        return [*handles, *claim_handles(view, points), *reference_handles(figure)]

    def _handles_of_two(self, view: marks.View, looks: Sequence[marks.Look], points: Sequence[Point]) -> list[Artist]:
        """Entries for series of two variables: the colours of the first, and the dashes of the second."""
        colours, dashes = dict[str, marks.Look](), dict[str, marks.Look]()
        for name, look in zip(view.names, looks, strict=True):
            first, second = view.variables_of(name)
            label = series_label(view.figure, view.analysis, marks.Series(*first), points)
            colours.setdefault(label, dataclasses.replace(look, dash="-", hatch=""))
            subject = str(second) if view.figure.dashes == "subject" else None
            parts = marks.Series(subject=subject) if subject is not None else marks.Series(value=second)
            label = series_label(view.figure, view.analysis, parts, points)
            dashes.setdefault(label, dataclasses.replace(look, colour=_NEUTRAL, marker=""))
        return [self.handle(look, label) for found in (colours, dashes) for label, look in found.items()]


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
                paint(axes[i][j], _panel(figure, points, row, column))
        _label(canvas, axes, view, (rows, columns))
        is_distribution = not figure.kind.has_places
        study = view.analysis.study
        axis = study.metrics[figure.metric].axis if is_distribution else study.parameters[figure.x].axis
        if figure.legend == "below":
            # The label of the horizontal axis is the legend's title: below the panels there is room for one only.
            place_legend(canvas, handles, 5, figure.legend, title=axis)
        else:
            canvas.supxlabel(axis, fontsize=8.5)
            place_legend(canvas, handles, 5, figure.legend)
        settle(canvas)
    return canvas


def unshown(figure: Figure, analysis: Analysis) -> int:
    """Number of markers that a logarithmic axis cannot show, because they are not above 0."""
    points = chosen(figure, analysis.points()) if figure.log_y else []
    if not points:
        return 0
    view = view_of(figure, analysis, points)
    panels = itertools.product(_values(points, figure.rows), _values(points, figure.columns))
    found = (
        sample
        for row, column in panels
        for name in view.names
        for sample in marks.all_samples(view, _panel(figure, points, row, column), name)
    )
    return sum(not marks.is_visible(figure, sample) for sample in found)


def _panel(figure: Figure, points: Sequence[Point], row: Value, column: Value) -> list[Point]:
    """The points of one panel."""
    return [p for p in points if _fits(p, figure.rows, row) and _fits(p, figure.columns, column)]


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
        ranges.make_logarithmic(axes[0][0], "x")
    if figure.log_y:
        ranges.make_logarithmic(axes[0][0], "y")
    elif axes[0][0].get_ylim()[0] >= 0.0 or figure.metric not in SIGNED:
        axes[0][0].set_ylim(bottom=0.0)
    together = f", {figure.together}" if figure.together not in ("", "mean") else ""
    quantity = view.analysis.study.metrics[figure.metric].axis + together
    ranges.apply(list(axes.flat), figure.options)
    canvas.supylabel(quantity if figure.kind.has_places else "Share of runs", fontsize=8.5)
    if figure.title:
        canvas.suptitle(figure.title, fontsize=9.5)


def published_handle(analysis: Analysis) -> Artist:
    """Entry of the legend for published values."""
    source = analysis.study.published.source if analysis.study.published is not None else ""
    return Line2D([], [], linestyle="none", marker="o", markersize=6.5, markerfacecolor="none",
                  markeredgecolor=_NEUTRAL, label=f"published{': ' + source if source else ''}")  # fmt: skip


def claim_handles(view: marks.View, points: Sequence[Point]) -> list[Artist]:
    """Entries of the legend for the marks of published statements."""
    kinds = {item.claim.kind for name in view.names for item in marks.stated(view, points, name)}
    handles: list[Artist] = []
    if "value" in kinds:
        handles.append(Line2D([], [], label="stated value ± tolerance", **marks.band_look(_NEUTRAL)))
    for kind, label in (("at_least", "stated least value"), ("at_most", "stated greatest value")):
        if kind in kinds:
            look = {**marks.arrow_look(kind, _NEUTRAL), "markersize": _LEGEND_ARROW_SIZE}
            handles.append(Line2D([], [], linestyle="none", label=label, **look))
    return handles


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
    if figure.variables == ("subject",) and figure.together:
        return [marks.Series()]
    is_single = figure.together or not figure.kind.has_places or len(subjects) < 2  # noqa: PLR2004
    apart: list[str | None] = [None] if is_single and "subject" not in figure.variables else [*subjects]
    values, seconds = (_parameter_values(points, name) for name in (figure.series, figure.dashes))
    return [
        marks.Series(value, subject, second) for value, second, subject in itertools.product(values, seconds, apart)
    ]


def _parameter_values(points: Sequence[Point], variable: str) -> list[Value | None]:
    """The values of a variable of the series; `None` alone if it is not a parameter."""
    return [None] if variable in ("", "subject") else [*_values(points, variable)]


def series_label(figure: Figure, analysis: Analysis, series: marks.Series, points: Sequence[Point]) -> str:
    """Label of a line: that of the figure, or the flow's label if it is the same in all panels."""
    if series == marks.Series():
        return f"{figure.together} of {', '.join(figure.subjects)}"
    parts = [plain(value) for value in (series.value, series.second) if value is not None]
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
    """Positions on the horizontal axis, the same in all panels: values if the axis is a scale, else indices."""
    if _has_scale(figure, values):
        return {v: float(v) for v in values}
    return {v: float(i) for i, v in enumerate(values)}


def _has_scale(figure: Figure, values: Sequence[Value]) -> bool:
    """Whether the horizontal axis is a scale of numbers; bars and boxes have equal distances."""
    return figure.kind.is_scaled and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
