"""Lengths of queues over time, with the thresholds of RED."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.plot.style import COLUMN_WIDTH, LINE_STYLES, REFERENCE_STYLES, SETTINGS, look, place_legend, settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from anabranch._core.document import Document
    from anabranch.plot.style import Style
    from anabranch.traces import Traces, Window

_PACKETS = re.compile(r"(\d+) packets?")
_MAX_VECTOR_SAMPLES = 4000  # lines with more samples are drawn as pixels also in an SVG


@dataclass(frozen=True)
class Layout:
    """Title, labels and width of a figure of queues."""

    title: str
    labels: Mapping[str, str]
    """Labels of directions of links; the key is "LINK/DIRECTION"."""
    width: str
    """Width of the figure: "page" or "column"."""
    grey: bool = False
    legend: str = "below"
    """Place of the legend, one of `style.LegendPlace`."""


@dataclass(frozen=True)
class Panel:
    """One column: the queues of one run."""

    title: str
    rows: pl.DataFrame
    """Rows of `queues.csv`, with the name "LINK/DIRECTION" as `queue`."""
    thresholds: Mapping[str, tuple[int, int]]
    """The smaller and the larger threshold of RED in packets, by the name of the queue."""
    span: Window


def panel_of(title: str, traces: Traces, document: Document, queues: Sequence[str], span: Window) -> Panel:
    """Select queues and a span of time; without names, all queues that ever held a packet."""
    rows = traces.queues.with_columns(
        pl.concat_str("link", "direction", separator="/").alias("queue"), pl.col("time_s").cast(pl.Float64)
    )
    used = list(rows.filter(pl.col("packets") > 0)["queue"].unique(maintain_order=True))
    names = list(queues) or used
    rows = rows.filter(pl.col("queue").is_in(names) & (pl.col("time_s") <= span[1]))
    before = rows.filter(pl.col("time_s") < span[0]).group_by("queue", maintain_order=True).last()
    rows = pl.concat([before.select(rows.columns), rows.filter(pl.col("time_s") >= span[0])])
    limits = thresholds(document.get("scenario") or {})
    return Panel(title, rows, {name: limits[name] for name in names if name in limits}, span)


def thresholds(scenario: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The thresholds of RED in packets, by "LINK/DIRECTION", in a scenario with all its defaults."""
    found = {}
    for link in scenario.get("link", []):
        for direction in ("forward", "reverse"):
            own = link.get("reverse", {}) if direction == "reverse" else {}
            queue = own.get("queue", link.get("queue", {}))
            ends = [_PACKETS.fullmatch(str(queue.get(key, ""))) for key in ("min", "max")]
            if ends[0] and ends[1]:
                found[f"{link['name']}/{direction}"] = (int(ends[0][1]), int(ends[1][1]))
    return found


def draw(layout: Layout, panels: Sequence[Panel]) -> Canvas:
    """Draw the queues of several runs in columns."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.rows["queue"]))
    with mpl.rc_context(cast("Any", SETTINGS)):
        width = COLUMN_WIDTH if layout.width == "column" else max(4.2, 0.8 + 2.6 * len(panels))
        canvas = Canvas(figsize=(width, 3.2), layout="constrained")
        axes = canvas.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)
        for place, panel in zip(axes[0], panels, strict=True):
            _draw_panel(place, panel, [(name, _look(layout, i)) for i, name in enumerate(names)])
            place.set_title(panel.title)
            place.set_xlabel("Time [s]")
        axes[0][0].set_ylabel("Queue [packets]")
        axes[0][0].set_ylim(bottom=0.0)
        if layout.title:
            canvas.suptitle(layout.title, fontsize=9.5)
        handles = [Line2D([], [], label=layout.labels.get(n, n), **_look(layout, i)) for i, n in enumerate(names)]
        if any(panel.thresholds for panel in panels):
            grey = "#444444"
            handles += [
                Line2D(
                    [], [], color=grey, linewidth=0.8, linestyle=REFERENCE_STYLES[i], label=f"{word} threshold of RED"
                )
                for i, word in enumerate(("smaller", "larger"))
            ]
        place_legend(canvas, handles, 4, layout.legend, handlelength=3.0)
        settle(canvas)
    return canvas


def _look(layout: Layout, index: int) -> Style:
    """A colour for each queue, and in grey a dash too."""
    dash = LINE_STYLES[index % len(LINE_STYLES)] if layout.grey else "-"
    return {"color": look(index, grey=layout.grey)[0], "linestyle": dash}


def _draw_panel(axes: Axes, panel: Panel, looks: Sequence[tuple[str, Style]]) -> None:
    for name, style_of_queue in looks:
        rows = panel.rows.filter(pl.col("queue") == name)
        colour = style_of_queue["color"]
        axes.plot(
            rows["time_s"].to_numpy(), rows["packets"].to_numpy(), drawstyle="steps-post", linewidth=0.9,
            rasterized=rows.height > _MAX_VECTOR_SAMPLES, **style_of_queue,
        )  # fmt: skip
        for style, height in zip(REFERENCE_STYLES, panel.thresholds.get(name, ()), strict=False):
            axes.axhline(height, color=colour, linewidth=0.8, linestyle=style)
    axes.set_xlim(*panel.span)
