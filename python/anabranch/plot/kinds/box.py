"""Boxes: the distribution of the runs for each value of a parameter, as quartiles, whiskers and outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.plot import marks, spots
from anabranch.plot.appearance import CLAIMS, GREY, LEGEND
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import LOG_Y, Y_RANGE, Y_TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import Look, View
    from anabranch.sweep import Point


class Box(PanelKind):
    """A group of boxes for each value of the horizontal axis."""

    name = "box"
    required = ("x",)
    optional = PANEL_KEYS
    keys = (Y_RANGE, Y_TICKS, LOG_Y, LEGEND, GREY, CLAIMS)
    has_places = True
    shows_samples = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        for index, name in enumerate(view.names):
            shift, width = marks.slot(index, len(view.names))
            chosen = marks.samples(view, points, name, shift)
            look = view.look(index)
            with spots.series(axes, index):
                marks.claims(axes, marks.stated(view, points, name, shift), "#222222", in_front=True)
            if not chosen:
                continue
            colour = look.colour
            face = {"facecolor": colour, "edgecolor": colour, "alpha": marks.FACE_ALPHA, "hatch": look.hatch}
            with spots.series(axes, index):
                axes.boxplot(
                    [list(s.values) for s in chosen], positions=[s.x for s in chosen], widths=width, patch_artist=True,
                    manage_ticks=False, boxprops=face,
                    medianprops={"color": "black"}, whiskerprops={"color": colour}, capprops={"color": colour},
                    flierprops={"markeredgecolor": colour, "markersize": 3.0}, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, [s for s in chosen if max(s.values) == 0.0], colour, look.marker)
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, look: Look, label: str) -> Artist:
        """Entry of the legend for a series."""
        return marks.face_handle(look, label)


KIND = Box()
