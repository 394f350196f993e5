"""Bars: the mean or median with its interval for each value of a parameter, and published values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patches import Patch

from anabranch.plot import marks, spots
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import Y_RANGE
from anabranch.plot.style import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import View
    from anabranch.sweep import Point


class Bar(PanelKind):
    """A group of bars for each value of the horizontal axis."""

    name = "bar"
    required = ("x",)
    optional = PANEL_KEYS
    keys = (Y_RANGE,)
    has_places = True
    shows_published = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        for index, name in enumerate(view.names):
            shift, width = marks.slot(index, len(view.names))
            chosen = marks.samples(view, points, name, shift)
            with spots.series(axes, index):
                axes.bar(
                    [s.x for s in chosen], [s.ours.centre for s in chosen], width, yerr=marks.errors(chosen),
                    color=look(index)[0], alpha=0.75, capsize=2.0, error_kw={"elinewidth": 0.9}, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, chosen, *look(index))
                marks.published(axes, chosen, "#222222", look(index)[1])
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, index: int, label: str) -> Artist:
        """Entry of the legend for the n-th series."""
        return Patch(facecolor=look(index)[0], edgecolor=look(index)[0], alpha=0.75, label=label)


KIND = Bar()
