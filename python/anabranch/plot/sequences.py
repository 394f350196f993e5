"""Draws the sequence numbers of data over time, with one colour per path.

Each piece of data that a scheduler assigned to a path is a marker; the marker of repeated data is hollow. A line shows
the data that the receiving application has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.plot.style import COLUMN_WIDTH, SETTINGS, legend, look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from anabranch.plot.style import Style
    from anabranch.traces import Traces, Window

_NEW_DATA_REASONS = ("new-data", "window-probe")
_READ_STYLE: Style = {"color": "#444444", "linewidth": 0.9}
_MAX_VECTOR_MARKS = 2000  # more marks are drawn as pixels also in an SVG


@dataclass(frozen=True)
class Pieces:
    """Schedulers' decisions and read data of some flows in a span of time."""

    given: pl.DataFrame
    """Rows of `decisions.csv` with a path."""
    read: pl.DataFrame
    """Rows of `buffers.csv`; empty if the read data is unknown."""
    label: str = "Data of {} [kB]"
    """Label of the vertical axis."""

    @classmethod
    def of(cls, traces: Traces, flows: Sequence[str], window: Window) -> Pieces:
        """Select flows and a span of time of a run's traces; no flows mean all of them."""
        start, end = window

        def cut(frame: pl.DataFrame) -> pl.DataFrame:
            if flows:
                frame = frame.filter(pl.col("flow").is_in(list(flows)))
            return frame.filter(pl.col("time_s").cast(pl.Float64).is_between(start, end))

        return cls(cut(traces.decisions.drop_nulls("path")), cut(traces.buffers))


def draw(title: str, width: str, pieces: Pieces) -> Canvas:
    """Draw a panel for each flow that has schedulers' decisions."""
    flows = list(pieces.given["flow"].unique(maintain_order=True))
    names = pieces.given.select("flow", "path").unique(maintain_order=True)
    paths = list(names.sort("flow", maintain_order=True).iter_rows())
    with mpl.rc_context(cast("Any", SETTINGS)):
        panels = max(1, len(flows))
        size = (COLUMN_WIDTH if width == "column" else 6.2, 0.8 + 3.0 * panels)
        canvas = Canvas(figsize=size, layout="constrained")
        axes = canvas.subplots(panels, 1, sharex=True, squeeze=False)
        for row, flow in enumerate(flows):
            _draw_flow(axes[row][0], flow, paths, pieces)
        axes[0][0].set_title(title)
        axes[-1][0].set_xlabel("Time [s]")
        _legend(canvas, paths, several=len(flows) > 1, shows_read=not pieces.read.is_empty())
    return canvas


def _draw_flow(axes: Axes, flow: str, paths: Sequence[tuple[str, str]], pieces: Pieces) -> None:
    for index, name in enumerate(paths):
        if name[0] != flow:
            continue
        rows = pieces.given.filter((pl.col("flow") == flow) & (pl.col("path") == name[1]))
        colour, marker = look(index)
        first = pl.col("reason").is_in(_NEW_DATA_REASONS)
        for part, face in ((rows.filter(first), colour), (rows.filter(~first), "none")):
            axes.plot(
                part["time_s"].to_numpy(),
                (part["offset_bytes"] + part["length_bytes"] / 2).to_numpy() / 1e3,
                color=colour, marker=marker, markersize=2.4, markerfacecolor=face, markeredgewidth=0.6,
                linestyle="none", rasterized=part.height > _MAX_VECTOR_MARKS,
            )  # fmt: skip
    rows = pieces.read.filter(pl.col("flow") == flow)
    axes.plot(
        rows["time_s"].to_numpy(), rows["delivered_bytes"].to_numpy() / 1e3, drawstyle="steps-post", **_READ_STYLE
    )
    axes.set_ylabel(pieces.label.format(flow))


def _legend(canvas: Canvas, paths: Sequence[tuple[str, str]], *, several: bool, shows_read: bool) -> None:
    handles = []
    for index, name in enumerate(paths):
        colour, marker = look(index)
        label = ", path ".join(name) if several else name[1]
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=label))
    hollow: Style = {"color": "#444444", "marker": "o", "markerfacecolor": "none", "linestyle": "none"}
    handles.append(Line2D([], [], label="repeated", **hollow))
    if shows_read:
        handles.append(Line2D([], [], label="read", **_READ_STYLE))
    legend(canvas, handles, 4)
