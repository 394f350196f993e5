"""Bars: the mean or median with its interval for each value of a parameter, and published values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.plot import marks, spots
from anabranch.plot.appearance import CLAIMS, GREY, LEGEND, PUBLISHED
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import LOG_Y, Y_RANGE, Y_TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import Look, View
    from anabranch.sweep import Point


class Bar(PanelKind):
    """A group of bars for each value of the horizontal axis."""

    name = "bar"
    required = ("x",)
    optional = PANEL_KEYS
    keys = (Y_RANGE, Y_TICKS, LOG_Y, LEGEND, GREY, PUBLISHED, CLAIMS)
    has_places = True
    shows_published = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        for index, name in enumerate(view.names):
            shift, width = marks.slot(index, len(view.names))
            chosen = marks.samples(view, points, name, shift)
            look = view.look(index)
            with spots.series(axes, index):
                axes.bar(
                    [s.x for s in chosen], [s.ours.centre for s in chosen], width, yerr=marks.errors(chosen),
                    color=look.colour, hatch=look.hatch, alpha=marks.FACE_ALPHA, capsize=2.0,
                    error_kw={"elinewidth": 0.9}, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, chosen, look.colour, look.marker)
                marks.published(axes, chosen, "#222222", look.marker)
                marks.claims(axes, marks.stated(view, points, name, shift), "#222222", in_front=True)
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, look: Look, label: str) -> Artist:
        """Entry of the legend for a series."""
        return marks.face_handle(look, label)


KIND = Bar()
