"""Draws a figure of a study with the results of several worlds and the published values in each panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from anabranch._core.worlds import LABELS
from anabranch.plot import marks, panels
from anabranch.plot.style import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.style import Style
    from anabranch.study.figures import Figure
    from anabranch.study.world_comparison import WorldComparison
    from anabranch.sweep import Point

_WORLDS: tuple[Style, ...] = (
    {"linestyle": "-", "marker": "o", "markersize": 3.4},
    {"linestyle": (0, (3, 1.5)), "marker": "x", "markersize": 4.6},
    {"linestyle": (0, (1, 1)), "marker": "s", "markersize": 3.0, "markerfacecolor": "none"},
)
"""Styles of the worlds, in the order of the report; colours are those of the series."""
_LATE_ALPHA = 0.35
"""Opacity of markers with a run on a machine that did not keep up with its network."""


def draw(figure: Figure, comparison: WorldComparison) -> Canvas | None:
    """Draw a figure of lines or bars with all worlds in each panel; `None` for other kinds, or without any run."""
    points = panels.chosen(figure, comparison.points)
    if not figure.kind.shows_published or not points:
        return None
    views = [panels.view_of(figure, analysis, points) for analysis in comparison.analyses.values()]
    names = tuple(dict.fromkeys(name for view in views for name in view.names))
    views = [marks.View(figure, view.analysis, names, view.places) for view in views]

    def paint(axes: Axes, panel: Sequence[Point]) -> None:
        for index, view in enumerate(views):
            _paint(axes, view, panel, index)
        for index, name in enumerate(names):
            # Published values are equal in all worlds, but a world may lack the point.
            for view in views:
                marks.published(axes, marks.samples(view, panel, name), look(index)[0], "o")
            marks.claims(axes, marks.stated(views[0], panel, name), look(index)[0])
        marks.references(axes, views[0], panel)

    return panels.compose(views[0], points, paint, _handles(figure, comparison, views, points))


def _paint(axes: Axes, view: marks.View, panel: Sequence[Point], world: int) -> None:
    """The values of one world in one panel."""
    for index, name in enumerate(view.names):
        found = marks.samples(view, panel, name)
        kept = [s for s in found if not s.late]
        line = _WORLDS[world]["linestyle"] if view.figure.kind.is_scaled else "none"
        for samples, options in ((kept, {"linestyle": line}), ([s for s in found if s.late], {"alpha": _LATE_ALPHA})):
            if samples:
                axes.errorbar(
                    [s.x for s in samples], [s.ours.centre for s in samples], yerr=marks.errors(samples),
                    color=look(index)[0], capsize=2.0, elinewidth=0.9, zorder=3 + world,
                    **{**_WORLDS[world], "linestyle": "none", **options},
                )  # fmt: skip


def _handles(
    figure: Figure, comparison: WorldComparison, views: Sequence[marks.View], points: Sequence[Point]
) -> list[Artist]:
    """Entries of the legend: a colour for each series, a marker for each world, and the published values."""
    handles: list[Artist] = []
    for index, name in enumerate(views[0].names):
        label = panels.series_label(figure, views[0].analysis, name, points)
        handles.append(Line2D([], [], color=look(index)[0], linewidth=3.0, label=label))
    grey = "#444444"
    for world, options in zip(comparison.analyses, _WORLDS, strict=False):
        handles.append(Line2D([], [], color=grey, label=LABELS[world], **options))
    if any(comparison.analyses[world].late(point) for world in comparison.analyses for point in points):
        handles.append(
            Line2D(
                [],
                [],
                color=grey,
                alpha=_LATE_ALPHA,
                label="machine did not keep up",
                **{**_WORLDS[1], "linestyle": "none"},
            )
        )
    if marks.shows_published(views[0]) and any(views[0].analysis.published_at(p) for p in points):
        handles.append(panels.published_handle(views[0].analysis))
    return [*handles, *panels.claim_handles(views[0], points), *panels.reference_handles(figure)]
