"""Windows: congestion windows, bytes in flight and buffers over time, from the first repetition of each point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.plot import windows
from anabranch.plot.appearance import GREY, LEGEND
from anabranch.plot.over_time import WINDOW, columns_of, finished
from anabranch.plot.ranges import X_TICKS
from anabranch.study.figures import Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.over_time import TracesOf
    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure


class Windows(Kind):
    """A column of panels for each point."""

    name = "windows"
    keys = (WINDOW, X_TICKS, LEGEND, GREY)
    is_over_time = True

    def draw(self, figure: Figure, analysis: Analysis, traces: TracesOf) -> Canvas | None:
        """Draw the curves of the first run of each point."""
        columns = columns_of(figure, analysis, traces)
        curves = [(c.title, windows.Curves.of(c.traces, figure.subjects, c.span)) for c in columns]
        shown = (figure.window[0], max(c.span[1] for c in columns)) if columns and any(figure.window) else figure.window
        layout = windows.Layout(figure.title, figure.labels, figure.width, shown, figure.is_grey, figure.legend)
        return finished(figure, windows.draw(layout, curves)) if curves else None


KIND = Windows()
