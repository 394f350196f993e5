"""Boxes: the distribution of the runs for each value of a parameter, as quartiles, whiskers and outliers."""

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


class Box(PanelKind):
    """A group of boxes for each value of the horizontal axis."""

    name = "box"
    required = ("x",)
    optional = PANEL_KEYS
    keys = (Y_RANGE,)
    has_places = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        for index, name in enumerate(view.names):
            shift, width = marks.slot(index, len(view.names))
            chosen = marks.samples(view, points, name, shift)
            colour = look(index)[0]
            with spots.series(axes, index):
                axes.boxplot(
                    [list(s.values) for s in chosen], positions=[s.x for s in chosen], widths=width, patch_artist=True,
                    manage_ticks=False, boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.75},
                    medianprops={"color": "black"}, whiskerprops={"color": colour}, capprops={"color": colour},
                    flierprops={"markeredgecolor": colour, "markersize": 3.0}, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, [s for s in chosen if max(s.values) == 0.0], *look(index))
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, index: int, label: str) -> Artist:
        """Entry of the legend for the n-th series."""
        return Patch(facecolor=look(index)[0], edgecolor=look(index)[0], alpha=0.75, label=label)


KIND = Box()
