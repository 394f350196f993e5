"""Lines with error bars over a parameter, in panels, with published values as hollow markers beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.metrics import METRICS
from anabranch.plot.style import REFERENCE_STYLES, SETTINGS, look
from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure, Reference
    from anabranch.sweep import Point, Value

    Grid = Any  # an array of axes, one per row and column
    Places = dict[Value, float]  # where each value of the parameter on the horizontal axis is drawn

_PANEL_WIDTH = 1.85
_PANEL_HEIGHT = 1.75


@dataclass(frozen=True)
class Sample:
    """One marker: a measured value with its interval, and the published one if there is one."""

    x: float
    y: float
    low: float
    high: float
    published: float | None


def draw(figure: Figure, analysis: Analysis) -> Canvas | None:
    """Draw a figure of lines; `None` if none of its points were run."""
    points = [p for p in analysis.points() if p.experiment == figure.experiment and matches(p.values, figure.where)]
    if not points:
        return None
    rows, columns = _values(points, figure.rows), _values(points, figure.columns)
    places = _places(_values(points, figure.x))
    names = _series_names(figure, analysis, points)
    with mpl.rc_context(cast("Any", SETTINGS)):
        width = max(3.4, 0.7 + _PANEL_WIDTH * len(columns))
        height = 0.95 + max(_PANEL_HEIGHT * len(rows), 2.2 if len(rows) == 1 else 0.0)
        canvas = Canvas(figsize=(width, height), layout="constrained")
        axes = canvas.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                panel = [p for p in points if _fits(p, figure.rows, row) and _fits(p, figure.columns, column)]
                _draw_panel(axes[i][j], figure, analysis, panel, names, places)
        _label(canvas, axes, figure, analysis, (rows, columns), places)
        _legend(canvas, figure, analysis, names, points)
    return canvas


def _draw_panel(
    axes: Axes, figure: Figure, analysis: Analysis, points: Sequence[Point], names: Sequence[str], places: Places
) -> None:
    for index, name in enumerate(names):
        samples = _samples(figure, analysis, points, name, places)
        if not samples:
            continue
        colour, marker = look(index)
        xs = [s.x for s in samples]
        errors = [[_reach(s.y - s.low) for s in samples], [_reach(s.high - s.y) for s in samples]]
        axes.errorbar(
            xs,
            [s.y for s in samples],
            yerr=errors,
            color=colour,
            marker=marker,
            capsize=2.0,
            elinewidth=0.9,
            zorder=3,
        )
        published = [(s.x, s.published) for s in samples if s.published is not None]
        if published:
            axes.plot(
                [x for x, _ in published],
                [y for _, y in published],
                linestyle="none",
                marker=marker,
                markersize=6.5,
                markerfacecolor="none",
                markeredgecolor=colour,
                markeredgewidth=0.9,
                zorder=4,
            )
    for index, reference in enumerate(figure.references):
        _draw_reference(axes, figure, reference, index, points, places)


def _reach(length: float) -> float:
    """Length of an error bar; none where there is no interval, or where a skewed one ends before the centre."""
    return 0.0 if math.isnan(length) else max(0.0, length)


def _draw_reference(
    axes: Axes, figure: Figure, reference: Reference, index: int, points: Sequence[Point], places: Places
) -> None:
    heights = {places[p.values[figure.x]]: reference.height(p.values) for p in points}
    xs = sorted(heights)
    axes.plot(
        xs,
        [heights[x] for x in xs],
        color="#666666",
        linewidth=0.9,
        linestyle=REFERENCE_STYLES[index % len(REFERENCE_STYLES)],
        zorder=2,
    )


def _samples(figure: Figure, analysis: Analysis, points: Sequence[Point], name: str, places: Places) -> list[Sample]:
    """The markers of one line in one panel, from left to right."""
    samples = []
    for point in points:
        if figure.series != "subject" and plain(point.values[figure.series]) != name:
            continue
        published = analysis.published_at(point) if _has_published(figure, analysis) else {}
        for subject, ours in analysis.estimates(point, figure.metric).items():
            wanted = subject == name if figure.series == "subject" else _is_drawn(figure, subject)
            if wanted:
                x = places[point.values[figure.x]]
                samples.append(Sample(x, ours.centre, ours.low, ours.high, published.get(subject)))
    return sorted(samples, key=lambda s: s.x)


def _label(
    canvas: Canvas,
    axes: Grid,
    figure: Figure,
    analysis: Analysis,
    panels: tuple[list[Value], list[Value]],
    places: Places,
) -> None:
    """Title, axis labels, and the values of rows and columns at the edges."""
    parameters = analysis.study.parameters
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
    if not _are_numbers(list(places)):
        axes[0][0].set_xticks(list(places.values()), [plain(v) for v in places])
    elif figure.log_x:
        axes[0][0].set_xscale("log")
    axes[0][0].set_ylim(bottom=0.0)
    canvas.supylabel(METRICS[figure.metric].axis, fontsize=8.5)
    if figure.title:
        canvas.suptitle(figure.title, fontsize=9.5)


def _legend(canvas: Canvas, figure: Figure, analysis: Analysis, names: Sequence[str], points: Sequence[Point]) -> None:
    handles = []
    for index, name in enumerate(names):
        label = _series_label(figure, analysis, name, points)
        colour, marker = look(index)
        handles.append(Line2D([], [], color=colour, marker=marker, label=label))
    if _has_published(figure, analysis) and any(analysis.published_at(p) for p in points):
        source = analysis.study.published.source if analysis.study.published is not None else ""
        handles.append(
            Line2D([], [], linestyle="none", marker="o", markersize=6.5, markerfacecolor="none",
                   markeredgecolor="#444444", label=f"published{': ' + source if source else ''}")
        )  # fmt: skip
    for index, reference in enumerate(figure.references):
        style = REFERENCE_STYLES[index % len(REFERENCE_STYLES)]
        handles.append(Line2D([], [], color="#666666", linewidth=0.9, linestyle=style, label=reference.label))
    columns = min(len(handles), 5 if canvas.get_figwidth() > 6.0 else 3 if canvas.get_figwidth() > 4.0 else 2)  # noqa: PLR2004
    # The label of the horizontal axis is the legend's title: the layout keeps no room for both below the panels.
    axis = analysis.study.parameters[figure.x].axis
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns, title=axis, title_fontsize=8.5)


def _series_names(figure: Figure, analysis: Analysis, points: Sequence[Point]) -> list[str]:
    if figure.series != "subject":
        return [plain(v) for v in _values(points, figure.series)]
    names: dict[str, None] = {}
    for point in points:
        names.update(dict.fromkeys(s for s in analysis.estimates(point, figure.metric) if _is_drawn(figure, s)))
    return list(names)


def _series_label(figure: Figure, analysis: Analysis, name: str, points: Sequence[Point]) -> str:
    """Name of a line for people: the figure's own, or the flow's where it is the same in all panels."""
    if figure.series != "subject":
        return name
    if name in figure.labels:
        return figure.labels[name]
    experiment = analysis.study.experiments[figure.experiment]
    labels = {experiment.flow_label(name, p.values) for p in points}
    return labels.pop() if len(labels) == 1 else name


def _has_published(figure: Figure, analysis: Analysis) -> bool:
    published = analysis.study.published
    return published is not None and published.metric == figure.metric


def _is_drawn(figure: Figure, subject: str) -> bool:
    return not figure.subjects or subject in figure.subjects


def _values(points: Sequence[Point], parameter: str) -> list[Value]:
    """The values of a parameter that occur, in order; one dummy if there is no such parameter."""
    return list(dict.fromkeys(p.values[parameter] for p in points)) if parameter else [""]


def _fits(point: Point, parameter: str, value: Value) -> bool:
    return not parameter or point.values[parameter] == value


def _places(values: Sequence[Value]) -> Places:
    """Places on the horizontal axis, the same in all panels: the numbers themselves, or the order of words."""
    if _are_numbers(values):
        return {v: float(v) for v in values}
    return {v: float(i) for i, v in enumerate(values)}


def _are_numbers(values: Sequence[Value]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
