"""Lines: the mean or median with its interval over a parameter, and published values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D

from anabranch.plot import marks, spots
from anabranch.plot.panels import PANEL_KEYS, PanelKind
from anabranch.plot.ranges import MARKS, X_RANGE, Y_RANGE
from anabranch.plot.style import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from anabranch.plot.marks import View
    from anabranch.sweep import Point


class Lines(PanelKind):
    """A line for each series."""

    name = "lines"
    required = ("x",)
    optional = PANEL_KEYS | {"log_x"}
    keys = (X_RANGE, Y_RANGE, MARKS)
    has_places = True
    is_scaled = True
    shows_published = True

    def paint(self, axes: Axes, view: View, points: Sequence[Point]) -> None:
        """Draw the series of one panel."""
        drawn: list[list[tuple[float, float]]] = []
        for index, name in enumerate(view.names):
            chosen = marks.samples(view, points, name)
            if not chosen:
                continue
            colour, marker = look(index)
            line = [(s.x, s.ours.centre) for s in chosen]
            # A line that hides an equal one is dashed with smaller markers: both remain visible.
            hidden = sum(_same(line, other) for other in drawn)
            drawn.append(line)
            with spots.series(axes, index):
                axes.errorbar(
                    [s.x for s in chosen], [s.ours.centre for s in chosen], yerr=marks.errors(chosen), color=colour,
                    marker=marker, markersize=max(1.6, 3.8 - 1.4 * hidden),
                    linestyle=(3.0 * hidden, (3, 3)) if hidden else "-", capsize=2.0, elinewidth=0.9, zorder=3,
                )  # fmt: skip
                marks.zeros(axes, chosen, colour, marker)
                marks.published(axes, chosen, colour, marker)
            spots.add_samples(axes, index, name.subject, chosen)
        marks.references(axes, view, points)

    def handle(self, index: int, label: str) -> Artist:
        """Entry of the legend for the n-th series."""
        colour, marker = look(index)
        return Line2D([], [], color=colour, marker=marker, label=label)


KIND = Lines()


def _same(line: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    return len(line) == len(other) and bool(np.allclose(line, other, rtol=0.005))
