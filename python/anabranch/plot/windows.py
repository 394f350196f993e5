"""Draws windows over time: congestion windows and thresholds per path, bytes in flight, and buffers.

One column of panels per run, from its traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.plot.style import COLUMN_WIDTH, SETTINGS, look, place_legend, settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from anabranch.plot.style import Style
    from anabranch.traces import Traces, Window

    _Path = tuple[str, str]  # names of a flow and of one of its paths

_FLOW_COLOURS = ("#444444", "#A65628", "#8C9A00", "#984EA3")
_FLOW_MARKERS = ("<", ">", "p", "h")
_ROWS = ("Congestion\nwindow [kB]", "In flight [kB]", "Buffers [kB]")
_BUFFERS: tuple[tuple[str, str, Any], ...] = (
    ("send_buffer_bytes", "send buffer", "-"),
    ("receive_buffer_bytes", "receive buffer", (0, (3, 3))),
    # Dots in the gaps of the receive buffer's dashes: both lines stay visible where they are equal.
    ("reordering_buffer_bytes", "of which out of order", (2, (1, 5))),
)
_THRESHOLD: Style = {"linestyle": (0, (1, 1.2)), "linewidth": 0.8}
_MARKER_DISTANCE = 0.25  # between markers of a curve, as a share of the panel's diagonal
_MAX_VECTOR_SAMPLES = 4000  # lines with more samples are drawn as pixels also in an SVG


@dataclass(frozen=True)
class Layout:
    """Title, labels, width and span of time of a figure of windows."""

    title: str
    labels: Mapping[str, str]
    """Labels of flows and paths; the key of a path is "FLOW/PATH"."""
    width: str
    """Width of the figure: "page" or "column"."""
    window: Window
    """Span of time in seconds; (0, 0) for the whole run."""
    grey: bool = False
    legend: str = "below"
    """Place of the legend, one of `style.LegendPlace`."""

    def look(self, index: int) -> tuple[str, str]:
        """Colour and marker of the n-th path."""
        return look(index, grey=self.grey)

    def flow_colour(self, index: int) -> str:
        """Colour of the n-th flow's buffers."""
        return look(index, grey=True)[0] if self.grey else _FLOW_COLOURS[index % len(_FLOW_COLOURS)]


@dataclass(frozen=True)
class Curves:
    """The traces of one run, cut to some flows and a span of time."""

    paths: pl.DataFrame
    buffers: pl.DataFrame | None
    """Rows of `buffers.csv`; `None` for runs without this trace, such as runs on the kernel."""

    @classmethod
    def of(cls, traces: Traces, flows: Sequence[str], window: Window) -> Curves:
        """Select flows and a span of time of a run's traces; no flows mean all of them."""
        buffers = _cut(traces.buffers, flows, window) if traces.has_buffers else None
        return cls(_cut(traces.paths, flows, window), buffers)


def draw(layout: Layout, columns: Sequence[tuple[str, Curves]]) -> Canvas:
    """Draw the curves of several runs in columns, each with its title."""
    traces = [curves for _, curves in columns]
    flows = list(dict.fromkeys(flow for trace in traces for flow in _flows(trace)))
    rows = _ROWS if any(t.buffers is not None for t in traces) else _ROWS[:2]
    paths = dict.fromkeys(path for t in traces for path in _used_paths(t))
    names = sorted(paths, key=lambda path: flows.index(path[0]))
    with mpl.rc_context(cast("Any", SETTINGS)):
        width = COLUMN_WIDTH if layout.width == "column" else max(4.2, 0.8 + 2.6 * len(traces))
        canvas = Canvas(figsize=(width, 1.8 * len(rows)), layout="constrained")
        axes = canvas.subplots(len(rows), len(traces), sharex=True, sharey="row", squeeze=False)
        for j, (title, trace) in enumerate(columns):
            _draw_paths(axes[0][j], axes[1][j], trace, [(name, layout.look(i)) for i, name in enumerate(names)])
            if trace.buffers is not None:
                _draw_buffers(axes[2][j], trace.buffers, [(f, layout.flow_colour(i)) for i, f in enumerate(flows)])
            axes[0][j].set_title(title)
            axes[-1][j].set_xlabel("Time [s]")
        for i, label in enumerate(rows):
            axes[i][0].set_ylabel(label)
            axes[i][0].set_ylim(bottom=0.0)
        if layout.window != (0.0, 0.0):
            axes[0][0].set_xlim(*layout.window)
        if layout.title:
            canvas.suptitle(layout.title, fontsize=9.5)
        _legend(canvas, layout, names, flows if len(rows) == len(_ROWS) else [])
        settle(canvas)
    return canvas


def _draw_paths(
    windows: Axes, outstanding: Axes, trace: Curves, names: Sequence[tuple[_Path, tuple[str, str]]]
) -> None:
    for index, ((flow, path), (colour, marker)) in enumerate(names):
        rows = trace.paths.filter((pl.col("flow") == flow) & (pl.col("path") == path))
        marks = {"marker": marker, "markevery": _markers(index, len(names))}
        _steps(windows, rows, "cwnd_bytes", color=colour, **marks)
        _steps(windows, rows, "ssthresh_bytes", color=colour, label="threshold", **_THRESHOLD)
        _steps(outstanding, rows, "outstanding_bytes", color=colour, **marks)


def _draw_buffers(axes: Axes, buffers: pl.DataFrame, flows: Sequence[tuple[str, str]]) -> None:
    for index, (flow, colour) in enumerate(flows):
        rows = buffers.filter(pl.col("flow") == flow)
        marks = {"marker": _FLOW_MARKERS[index % 4], "markevery": _markers(index, len(flows))} if len(flows) > 1 else {}
        for column, label, style in _BUFFERS:
            _steps(axes, rows, column, color=colour, label=label, linestyle=style, **marks)


def _markers(index: int, count: int) -> tuple[float, float]:
    """Offset and distance of the n-th curve's markers; equal curves show the markers of all."""
    return (_MARKER_DISTANCE * (index + 0.5) / count, _MARKER_DISTANCE)


def _steps(axes: Axes, rows: pl.DataFrame, column: str, **look: Any) -> None:
    known = rows.drop_nulls(column)
    axes.plot(
        known["time_s"].to_numpy(),
        known[column].to_numpy() / 1e3,
        drawstyle="steps-post",
        rasterized=known.height > _MAX_VECTOR_SAMPLES,
        **{"linewidth": 0.9, "markersize": 3.0, **look},
    )


def _legend(canvas: Canvas, layout: Layout, names: Sequence[_Path], flows: Sequence[str]) -> None:
    """Draw the legend: paths, flows with buffers, and kinds of lines."""
    handles = [
        Line2D([], [], color=layout.look(i)[0], marker=layout.look(i)[1], label=_path_label(layout, path))
        for i, path in enumerate(names)
    ]
    handles.append(Line2D([], [], color="#444444", label="threshold", **_THRESHOLD))
    several = len(flows) > 1
    for i, flow in enumerate(flows if several else []):
        label = f"buffers of {layout.labels.get(flow, flow)}"
        handles.append(Line2D([], [], color=layout.flow_colour(i), marker=_FLOW_MARKERS[i % 4], label=label))
    for _, label, style in _BUFFERS if flows else ():
        colour = "black" if several else layout.flow_colour(0)
        handles.append(Line2D([], [], color=colour, linestyle=style, label=label))
    place_legend(canvas, handles, 4, layout.legend, handlelength=3.0)


def _path_label(layout: Layout, path: _Path) -> str:
    """Label of a path."""
    return layout.labels.get("/".join(path), ", path ".join(path))


def _cut(frame: pl.DataFrame, flows: Sequence[str], window: Window) -> pl.DataFrame:
    """Rows of some flows in a span of time, with the last values before its begin and at its end."""
    if flows:
        frame = frame.filter(pl.col("flow").is_in(list(flows)))
    keys = [c for c in ("flow", "path") if c in frame.columns]
    start, end = window
    frame = frame.filter(pl.col("time_s") <= end)
    before = _latest(frame.filter(pl.col("time_s") < start), keys)
    after = _latest(frame, keys).with_columns(time_s=pl.lit(end))
    return pl.concat([before, frame.filter(pl.col("time_s") >= start), after])


def _latest(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.group_by(keys, maintain_order=True).last().select(frame.columns)


def _flows(trace: Curves) -> pl.Series:
    rows = trace.paths if trace.buffers is None else trace.buffers
    return rows["flow"].unique(maintain_order=True)


def _used_paths(trace: Curves) -> list[_Path]:
    """Flow and path of each path that had data in flight; other paths have no curve."""
    used = trace.paths.filter(pl.col("outstanding_bytes") > 0)
    return list(used.select("flow", "path").unique(maintain_order=True).iter_rows())
