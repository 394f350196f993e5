"""Lines: the mean or median with its interval over a parameter, and published values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D

from anabranch.plot import marks, spots
from anabranch.plot.appearance import CLAIMS, GREY, LEGEND, PUBLISHED
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import LOG_Y, MARKS, X_RANGE, X_TICKS, Y_RANGE, Y_TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import Look, View
    from anabranch.sweep import Point


class Lines(PanelKind):
    """A line for each series."""

    name = "lines"
    required = ("x",)
    optional = PANEL_KEYS | {"log_x"}
    keys = (X_RANGE, Y_RANGE, X_TICKS, Y_TICKS, LOG_Y, MARKS, LEGEND, GREY, PUBLISHED, CLAIMS)
    has_places = True
    is_scaled = True
    shows_published = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        drawn: list[list[tuple[float, float]]] = []
        for index, name in enumerate(view.names):
            chosen = marks.samples(view, points, name)
            look = view.look(index)
            marks.claims(axes, marks.stated(view, points, name), look.colour)
            if not chosen:
                continue
            colour, marker = look.colour, look.marker
            line = [(s.x, s.ours.centre) for s in chosen]
            # A line that hides an equal one is dashed with smaller markers: both remain visible.
            hidden = sum(_same(line, other) for other in drawn)
            drawn.append(line)
            dash = (3.0 * hidden, (3, 3)) if hidden and look.dash == "-" else look.dash
            with spots.series(axes, index):
                axes.errorbar(
                    [s.x for s in chosen], [s.ours.centre for s in chosen], yerr=marks.errors(chosen), color=colour,
                    marker=marker, markersize=max(1.6, 3.8 - 1.4 * hidden), linestyle=dash, capsize=2.0,
                    elinewidth=0.9, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, chosen, colour, marker)
                marks.published(axes, chosen, colour, marker)
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, look: Look, label: str) -> Artist:
        """Entry of the legend for a series."""
        return Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.dash, label=label)


KIND = Lines()


def _same(line: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    return len(line) == len(other) and bool(np.allclose(line, other, rtol=0.005))
