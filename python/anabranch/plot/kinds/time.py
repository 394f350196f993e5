"""Goodput or round-trip time per interval, of flows, their paths and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from anabranch.plot import rates
from anabranch.plot.appearance import GREY, LEGEND
from anabranch.plot.over_time import WINDOW, columns_of, finished
from anabranch.plot.ranges import OVER_TIME
from anabranch.study.figures import Key, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.over_time import TracesOf
    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure


class Time(Kind):
    """A column of curves for each point."""

    name = "time"
    keys = (
        WINDOW,
        *OVER_TIME,
        LEGEND,
        GREY,
        Key(
            "quantity",
            Annotated[rates.Quantity, Meta(description="Quantity of a figure over time.")],
            "goodput",
        ),
        Key(
            "interval",
            Annotated[
                float,
                Meta(
                    ge=0.1,
                    le=1.0,
                    description="Seconds of one value of a figure over time.",
                    extra={"form": "a number of seconds from 0.1 to 1"},
                ),
            ],
            1.0,
        ),
        Key(
            "repetitions",
            Annotated[
                Literal["first", "all"],
                Meta(description="The first run of a point, or the mean of all with a band."),
            ],
            "first",
        ),
    )
    is_over_time = True

    def draw(self, figure: Figure, analysis: Analysis, traces: TracesOf) -> Canvas | None:
        """Draw the first run of each point, or the mean of all its runs."""
        quantity, interval = figure.options["quantity"], figure.options["interval"]
        panels = []
        for column in columns_of(figure, analysis, traces, repeated=figure.options["repetitions"] == "all"):
            edges = rates.edges_of(column.span, interval)
            if quantity == "goodput" and not column.traces.has_transfers:
                panels.append(rates.Panel(f"{column.title}\nno goodput over time: not simulated", edges, []))
                continue
            runs = [rates.curves(quantity, run.traces, figure.subjects, edges) for run in column.runs]
            panels.append(rates.Panel(column.title, edges, runs))
        layout = rates.Layout(figure.title, figure.labels, figure.width, quantity, figure.is_grey, figure.legend)
        return finished(figure, rates.draw(layout, panels)) if panels else None


KIND = Time()
