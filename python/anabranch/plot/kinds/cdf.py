"""Distributions: the share of the runs with at most a value of the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from anabranch.plot import marks, spots
from anabranch.plot.appearance import GREY, LEGEND
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import MARKS, X_RANGE, X_TICKS, Y_RANGE, Y_TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import Look, View
    from anabranch.sweep import Point


class Distribution(PanelKind):
    """A step function for each series; the horizontal axis is the metric."""

    name = "cdf"
    optional = PANEL_KEYS | {"log_x"}
    keys = (X_RANGE, Y_RANGE, X_TICKS, Y_TICKS, MARKS, LEGEND, GREY)
    has_dashes = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        for index, name in enumerate(view.names):
            values = [value for sample in marks.samples(view, points, name) for value in sample.values]
            if values:
                look = view.look(index)
                with spots.series(axes, index):
                    axes.ecdf(values, color=look.colour, linestyle=look.dash, zorder=3)
        for index, reference in enumerate(view.figure.references):
            for height in {view.analysis.height(reference, p) for p in points}:
                axes.axvline(height, **marks.reference_look(index))
        axes.set_ylim(0.0, 1.02)

    def handle(self, look: Look, label: str) -> Artist:
        """Entry of the legend for a series."""
        return Line2D([], [], color=look.colour, linestyle=look.dash, label=label)


KIND = Distribution()
