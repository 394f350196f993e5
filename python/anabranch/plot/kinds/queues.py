"""Queues: their lengths over time with the thresholds of RED, from the first repetition of each point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.plot import queues
from anabranch.plot.appearance import GREY, LEGEND
from anabranch.plot.over_time import WINDOW, columns_of, finished
from anabranch.plot.ranges import OVER_TIME
from anabranch.study.figures import Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.over_time import TracesOf
    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure


class Queues(Kind):
    """A column for each point; the subjects are directions of links."""

    name = "queues"
    keys = (WINDOW, *OVER_TIME, LEGEND, GREY)
    is_over_time = True
    subjects_of = "drops"

    def draw(self, figure: Figure, analysis: Analysis, traces: TracesOf) -> Canvas | None:
        """Draw the queues of the first run of each point."""
        panels = [
            queues.panel_of(column.title, column.traces, column.runs[0].document, figure.subjects, column.span)
            for column in columns_of(figure, analysis, traces)
        ]
        layout = queues.Layout(figure.title, figure.labels, figure.width, figure.is_grey, figure.legend)
        return finished(figure, queues.draw(layout, panels)) if panels else None


KIND = Queues()
