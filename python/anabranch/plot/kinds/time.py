"""Goodput or round-trip time per interval, of flows, their paths and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.plot import rates
from anabranch.plot.appearance import GREY, LEGEND
from anabranch.plot.over_time import WINDOW, columns_of, finished
from anabranch.plot.ranges import OVER_TIME
from anabranch.study.figures import Key, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.over_time import TracesOf
    from anabranch.study.analysis import Analysis
    from anabranch.study.document import Table
    from anabranch.study.figures import Figure
    from anabranch.study.scope import Scope

_MIN_INTERVAL_S, _MAX_INTERVAL_S = 0.1, 1.0
_REPETITIONS = ("first", "all")


def _read_interval(table: Table, _: Scope) -> float:
    interval = table.get("interval", float, _MAX_INTERVAL_S)
    if not _MIN_INTERVAL_S <= interval <= _MAX_INTERVAL_S:
        raise table.error(
            f'"interval" has to be from {_MIN_INTERVAL_S:g} to {_MAX_INTERVAL_S:g} s, not {interval:g}', "interval"
        )
    return interval


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
            {"enum": list(rates.QUANTITIES), "description": "Quantity of a figure over time."},
            lambda table, _: table.choice("quantity", tuple(rates.QUANTITIES), "goodput"),
        ),
        Key(
            "interval",
            {
                "type": "number",
                "minimum": _MIN_INTERVAL_S,
                "maximum": _MAX_INTERVAL_S,
                "description": "Seconds that make one value of a figure over time.",
            },
            _read_interval,
        ),
        Key(
            "repetitions",
            {"enum": list(_REPETITIONS), "description": "The first run of a point, or the mean of all with a band."},
            lambda table, _: table.choice("repetitions", _REPETITIONS, "first"),
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
