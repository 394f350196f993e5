"""The data and marks that several kinds of panels share: series, samples, error bars, published values, references."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.patches import Patch
from matplotlib.path import Path as Outline

from anabranch.plot.style import HATCHES, LINE_STYLES, REFERENCE_STYLES, look
from anabranch.sweep import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.style import Style
    from anabranch.stats import Estimate
    from anabranch.study.analysis import Analysis
    from anabranch.study.claims import Claim
    from anabranch.study.figures import Figure
    from anabranch.sweep import Point, Value

    Places = dict[Value, float]
    """Position on the horizontal axis of each value of its parameter."""

_GROUP_WIDTH = 0.8  # width of a value's bars or boxes as a share of the distance between values
FACE_ALPHA = 0.75
"""Opacity of bars and boxes."""
_BAND_WIDTH = 5.0  # points of the bar over a stated value and its tolerance
_BAND_ALPHA = 0.35
_ARROW_SIZE = 26.0  # points; an arrow is half as long
_BASE, _SHAFT, _HEAD = [(-0.3, 0.0), (0.3, 0.0)], [(0.0, 0.0), (0.0, 1.0)], [(-0.22, 0.6), (0.0, 1.0), (0.22, 0.6)]
_CODES = [Outline.MOVETO, Outline.LINETO] * 2 + [Outline.MOVETO, Outline.LINETO, Outline.LINETO]
ARROWS = {
    "at_least": Outline([*_BASE, *_SHAFT, *_HEAD], _CODES),
    "at_most": Outline([(x, -y) for x, y in (*_BASE, *_SHAFT, *_HEAD)], _CODES),
}
"""Outlines of the marks for a least value, an arrow upwards from it, and for a greatest one."""


TOGETHER: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean, "median": statistics.median, "smallest": min, "largest": max, "sum": math.fsum,
}  # fmt: skip
"""Functions that combine the values of several points and subjects."""


@dataclass(frozen=True)
class Series:
    """Data of one line: a subject, a value of the series' parameter, or a subject at a value."""

    value: Value | None = None
    """Value of the series' parameter; `None` if the series are subjects."""
    subject: str | None = None
    """Name of the subject; `None` for a single subject or for the combination of all."""
    second: Value | None = None
    """Value of the parameter that the dashes of lines show; `None` without such a parameter."""

    def has(self, figure: Figure, point: Point) -> bool:
        """Whether a point of a figure belongs to this series."""
        return (self.value is None or point.values[figure.series] == self.value) and (
            self.second is None or point.values[figure.dashes] == self.second
        )


@dataclass(frozen=True)
class Look:
    """The style of a series."""

    colour: str
    marker: str
    dash: Any
    """Line style."""
    hatch: str
    """Pattern of bars and boxes."""


@dataclass(frozen=True)
class View:
    """A figure and the data common to its panels."""

    figure: Figure
    analysis: Analysis
    names: tuple[Series, ...]
    places: Places

    def variables_of(self, name: Series) -> tuple[tuple[Value | None, str | None], Value | None]:
        """The part of a series that has a colour, and the part that has a dash."""
        if self.figure.dashes == "subject":
            return (name.value, None), name.subject
        return (name.value, name.subject), name.second

    def look(self, index: int) -> Look:
        """Style of the n-th series: with two variables a colour for the first one and a dash for the second.

        Otherwise each has its own colour, and in grey or in some kinds its own dash too.
        """
        figure = self.figure
        if figure.dashes:
            pairs = [self.variables_of(name) for name in self.names]
            colours, dashes = (list(dict.fromkeys(part)) for part in zip(*pairs, strict=True))
            first, second = colours.index(pairs[index][0]), dashes.index(pairs[index][1])
        else:
            first, second = index, index if figure.is_grey or figure.kind.has_dashes else 0
        dash, hatch = LINE_STYLES[second % len(LINE_STYLES)], HATCHES[second % len(HATCHES)]
        return Look(*look(first, grey=figure.is_grey), dash, hatch)


@dataclass(frozen=True)
class Sample:
    """One marker: the position of a point, the values of its runs, and the published value if there is one."""

    x: float
    ours: Estimate
    values: Sequence[float]
    published: float | None
    late: bool
    """Whether the machine of a run did not keep up with its network."""
    points: tuple[Point, ...]
    """The points whose runs give the values."""


@dataclass(frozen=True)
class Stated:
    """The value of a published statement at one point."""

    x: float
    claim: Claim


def shows_published(view: View) -> bool:
    """Whether the figure shows the published metric in a kind of panel with markers for published values."""
    published = view.analysis.study.published
    figure = view.figure
    return published is not None and published.metric == figure.metric and figure.shows_published


def is_drawn(figure: Figure, subject: str) -> bool:
    """Whether the figure shows a subject."""
    return not figure.subjects or subject in figure.subjects


def samples(view: View, points: Sequence[Point], name: Series, shift: float = 0.0) -> list[Sample]:
    """The markers of one series in one panel that its vertical axis can show, from left to right."""
    return [s for s in all_samples(view, points, name, shift) if is_visible(view.figure, s)]


def is_visible(figure: Figure, sample: Sample) -> bool:
    """Whether the vertical axis can show a marker: a logarithmic one shows values above 0 only."""
    least = min(sample.values) if figure.kind.shows_samples else sample.ours.centre
    return not figure.log_y or least > 0.0


def all_samples(view: View, points: Sequence[Point], name: Series, shift: float = 0.0) -> list[Sample]:
    """The markers of one series in one panel, from left to right."""
    figure, analysis = view.figure, view.analysis
    chosen = [p for p in points if name.has(figure, p)]
    if figure.together:
        return _together(view, chosen, shift)
    found = []
    for point in chosen:
        theirs = analysis.published_at(point) if shows_published(view) else {}
        values = analysis.samples(point, figure.metric)
        for subject, ours in analysis.estimates(point, figure.metric).items():
            if subject == name.subject if name.subject is not None else is_drawn(figure, subject):
                x = _place(view, point, shift)
                is_late = analysis.late(point) > 0
                found.append(Sample(x, ours, values[subject], theirs.get(subject), is_late, (point,)))
    return sorted(found, key=lambda s: s.x)


def _together(view: View, points: Sequence[Point], shift: float) -> list[Sample]:
    """One marker for all points and subjects at a position; the values of each repetition are combined."""
    figure, analysis = view.figure, view.analysis
    places: dict[float, list[Point]] = {}
    for point in points:
        places.setdefault(_place(view, point, shift), []).append(point)
    found = []
    for x, here in places.items():
        chosen = [
            values
            for point in here
            for subject, values in analysis.samples(point, figure.metric).items()
            if is_drawn(figure, subject)
        ]
        # Without a value in each repetition, values of the same repetition cannot be matched.
        if chosen and len({len(values) for values in chosen}) == 1:
            taken = [TOGETHER[figure.together](values) for values in zip(*chosen, strict=True)]
            late = any(analysis.late(point) for point in here)
            found.append(Sample(x, analysis.estimate(taken), taken, None, late, tuple(here)))
    return sorted(found, key=lambda s: s.x)


def _place(view: View, point: Point, shift: float) -> float:
    return view.places[point.values[view.figure.x]] + shift if view.figure.x else 0.0


def slot(index: int, count: int) -> tuple[float, float]:
    """Offset and width of the n-th bar of a group."""
    width = _GROUP_WIDTH / max(1, count)
    return (index - (count - 1) / 2.0) * width, 0.9 * width


def face_handle(look: Look, label: str) -> Artist:
    """Entry of the legend for the bars or boxes of a series."""
    return Patch(facecolor=look.colour, edgecolor=look.colour, hatch=look.hatch, alpha=FACE_ALPHA, label=label)


def errors(chosen: Sequence[Sample]) -> list[list[float]]:
    """Lengths of the error bars, downwards and upwards."""
    return [
        [_reach(s.ours.centre - s.ours.low) for s in chosen],
        [_reach(s.ours.high - s.ours.centre) for s in chosen],
    ]


def _reach(length: float) -> float:
    """Length of an error bar; 0 without an interval, or if a skewed interval does not contain the centre."""
    return 0.0 if math.isnan(length) else max(0.0, length)


def zeros(axes: Axes, chosen: Sequence[Sample], colour: str, marker: str) -> None:
    """Draw a mark for each value of 0: a bar of height 0 is invisible, and the axis would cut a clipped mark."""
    xs = [s.x for s in chosen if s.ours.centre == 0.0]
    if xs:
        axes.plot(
            xs, [0.0] * len(xs), linestyle="none", color=colour, marker=marker, markersize=3.8, zorder=5, clip_on=False
        )


def published(axes: Axes, chosen: Sequence[Sample], edge: str, marker: str) -> None:
    """Draw hollow markers for published values."""
    found = [(s.x, s.published) for s in chosen if s.published is not None]
    if found:
        axes.plot(
            [x for x, _ in found], [y for _, y in found], linestyle="none", color=edge, marker=marker,
            markersize=6.5, markerfacecolor="none", markeredgecolor=edge, markeredgewidth=0.9, zorder=4,
        )  # fmt: skip


def stated(view: View, points: Sequence[Point], name: Series, shift: float = 0.0) -> list[Stated]:
    """The published statements about one series in one panel."""
    figure = view.figure
    return [
        Stated(_place(view, point, shift), claim)
        for claim in view.analysis.study.claims
        if figure.shows_claims and figure.states(claim)
        for point in points
        if name.has(figure, point) and matches(point.values, claim.quantity.where)
        for subject in claim.quantity.subjects
        if (subject == name.subject if name.subject is not None else is_drawn(figure, subject))
    ]


def claims(axes: Axes, found: Sequence[Stated], colour: str, *, in_front: bool = False) -> None:
    """Draw a bar over each stated value and its tolerance, and an arrow from each least or greatest value."""
    order = 4 if in_front else 2
    for item in found:
        claim = item.claim
        if claim.kind == "value":
            low, high = claim.bounds
            axes.vlines([item.x], [low], [high], zorder=order, **band_look(colour))
            axes.plot([item.x], [claim.expect], linestyle="none", zorder=order, **level_look(colour))
        else:
            axes.plot([item.x], [claim.expect], linestyle="none", zorder=4, **arrow_look(claim.kind, colour))


def band_look(colour: str) -> Style:
    """Style of the bar over a stated value and its tolerance."""
    return {"color": colour, "linewidth": _BAND_WIDTH, "alpha": _BAND_ALPHA}


def level_look(colour: str) -> Style:
    """Style of the mark at a stated value."""
    return {"color": colour, "marker": "_", "markersize": 7.0}


def arrow_look(kind: str, colour: str) -> Style:
    """Style of the arrow from a least or greatest value."""
    return {
        "color": colour, "marker": ARROWS[kind], "markersize": _ARROW_SIZE, "markerfacecolor": "none",
        "markeredgewidth": 1.0, "clip_on": False,
    }  # fmt: skip


def references(axes: Axes, view: View, points: Sequence[Point]) -> None:
    """Draw the reference lines."""
    for index, reference in enumerate(view.figure.references):
        heights = {view.places[p.values[view.figure.x]]: view.analysis.height(reference, p) for p in points}
        xs = sorted(heights)
        if view.figure.kind.is_scaled:
            axes.plot(xs, [heights[x] for x in xs], **reference_look(index))
        else:
            begins, ends = [x - 0.5 for x in xs], [x + 0.5 for x in xs]
            axes.hlines([heights[x] for x in xs], begins, ends, **reference_look(index))


def reference_look(index: int) -> Style:
    """Style of the n-th reference line."""
    style = REFERENCE_STYLES[index % len(REFERENCE_STYLES)]
    return {"color": "#666666", "linewidth": 0.9, "linestyle": style, "zorder": 2}
