"""Goodput or round-trip time per interval of a run's flows, of their paths and of all flows together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from anabranch.errors import InputError
from anabranch.plot.style import COLUMN_WIDTH, LINE_STYLES, SETTINGS, look, place_legend, settle
from anabranch.stats import estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from anabranch.plot.style import Style
    from anabranch.traces import Traces, Window

    Values = np.ndarray[Any, np.dtype[np.float64]]
    Curves = Mapping[tuple[str, str], Values]
    """Values per interval, by flow and path: no path for a whole flow, neither for the sum of all flows."""

Quantity = Literal["goodput", "rtt"]
QUANTITIES: dict[Quantity, str] = {"goodput": "Goodput [Mbit/s]", "rtt": "Round-trip time [ms]"}
_NEW_DATA_REASONS = ("new-data", "window-probe")
_BAND_ALPHA = 0.2
_SUM_COLOUR = "#222222"


@dataclass(frozen=True)
class Layout:
    """Title, labels and axes of a figure of rates."""

    title: str
    labels: Mapping[str, str]
    """Labels of flows and paths; the key of a path is "FLOW/PATH"."""
    width: str
    """Width of the figure: "page" or "column"."""
    quantity: Quantity
    """Shown quantity, one of `QUANTITIES`."""
    grey: bool = False
    legend: str = "below"
    """Place of the legend, one of `style.LegendPlace`."""


@dataclass(frozen=True)
class Panel:
    """One column: the curves of one run, or of each repetition."""

    title: str
    edges: Values
    """Start of each interval, and the end of the last one, seconds."""
    runs: Sequence[Curves]


def edges_of(span: Window, interval: float) -> Values:
    """The whole intervals in a span of time; a span shorter than one is a single interval."""
    count = max(1, int((span[1] - span[0]) / interval + 1e-9))
    return cast("Values", span[0] + interval * np.arange(count + 1))


def curves(quantity: str, traces: Traces, flows: Sequence[str], edges: Values) -> Curves:
    """The values of a quantity per interval; no flows mean all of them.

    Raises:
        InputError: If the run has no traces of the quantity, such as goodput on the kernel.

    """
    return _rtts(traces, flows, edges) if quantity == "rtt" else _goodputs(traces, flows, edges)


def _goodputs(traces: Traces, flows: Sequence[str], edges: Values) -> Curves:
    """Data that applications read, and for each of several paths the new data that it was given."""
    if not traces.has_transfers:
        raise InputError(
            "has no transfers.csv, so that there is no goodput over time: only the simulator writes it",
            str(traces.folder),
        )
    reads = traces.transfers.filter((pl.col("event") == "read") & (pl.col("direction") == "forward"))
    names = [name for name in traces.paths["flow"].unique(maintain_order=True) if not flows or name in flows]
    found: dict[tuple[str, str], Values] = {}
    given = traces.decisions.drop_nulls("path").filter(pl.col("reason").is_in(_NEW_DATA_REASONS))
    for name in names:
        found[name, ""] = _rate(reads.filter(pl.col("flow") == name), edges)
        own = given.filter(pl.col("flow") == name)
        paths = list(own["path"].unique(maintain_order=True))
        for path in paths if len(paths) > 1 else []:
            found[name, path] = _rate(own.filter(pl.col("path") == path), edges)
    if len(names) > 1:
        found["", ""] = cast("Values", sum(found[name, ""] for name in names))
    return found


def _rate(rows: pl.DataFrame, edges: Values) -> Values:
    """Mbit/s in each interval."""
    times = rows["time_s"].cast(pl.Float64).to_numpy()
    sizes = rows["length_bytes"].cast(pl.Float64).to_numpy()
    counted, _ = np.histogram(times, bins=edges, weights=sizes)
    return cast("Values", counted * 8e-6 / np.diff(edges))


def _rtts(traces: Traces, flows: Sequence[str], edges: Values) -> Curves:
    """The mean of the traced round-trip times of each path; an interval without a change has the value before."""
    rows = traces.paths.drop_nulls("srtt_us")
    if flows:
        rows = rows.filter(pl.col("flow").is_in(list(flows)))
    found: dict[tuple[str, str], Values] = {}
    for flow, path in rows.select("flow", "path").unique(maintain_order=True).iter_rows():
        own = rows.filter((pl.col("flow") == flow) & (pl.col("path") == path))
        times = own["time_s"].cast(pl.Float64).to_numpy()
        values = own["srtt_us"].cast(pl.Float64).to_numpy() / 1e3
        sums, _ = np.histogram(times, bins=edges, weights=values)
        counts, _ = np.histogram(times, bins=edges)
        before = np.searchsorted(times, edges[:-1], side="right") - 1
        held = np.where(before >= 0, values[np.maximum(before, 0)], np.nan)
        found[flow, path] = np.where(counts > 0, sums / np.maximum(counts, 1), held)
    return found


def draw(layout: Layout, panels: Sequence[Panel]) -> Canvas:
    """Draw a column for each panel; several runs of a panel are their mean with its interval as a band."""
    names = list(dict.fromkeys(name for panel in panels for run in panel.runs for name in run))
    flows = list(dict.fromkeys(flow for flow, _ in names if flow))
    with mpl.rc_context(cast("Any", SETTINGS)):
        width = COLUMN_WIDTH if layout.width == "column" else max(4.2, 0.8 + 2.6 * len(panels))
        canvas = Canvas(figsize=(width, 3.2), layout="constrained")
        axes = canvas.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)
        for place, panel in zip(axes[0], panels, strict=True):
            for name in names:
                style = {"label": _label(layout, name), **_look(layout, name, names, flows)}
                _draw_curve(place, panel, name, style)
            place.set_title(panel.title)
            place.set_xlabel("Time [s]")
        axes[0][0].set_ylabel(QUANTITIES[layout.quantity])
        axes[0][0].set_ylim(bottom=0.0)
        if layout.title:
            canvas.suptitle(layout.title, fontsize=9.5)
        handles = [Line2D([], [], label=_label(layout, name), **_look(layout, name, names, flows)) for name in names]
        place_legend(canvas, handles, 4, layout.legend, handlelength=3.0)
        settle(canvas)
    return canvas


def _draw_curve(axes: Axes, panel: Panel, name: tuple[str, str], style: Mapping[str, Any]) -> None:
    """One curve, with a mark for each interval at its middle."""
    runs = [run[name] for run in panel.runs if name in run]
    if not runs:
        return
    middles = (panel.edges[:-1] + panel.edges[1:]) / 2.0
    if len(runs) == 1:
        axes.plot(middles, runs[0], **style)
        return
    found = [estimate([v for v in values if not np.isnan(v)] or [np.nan]) for values in zip(*runs, strict=True)]
    axes.plot(middles, [e.centre for e in found], **style)
    low = [e.centre if np.isnan(e.low) else e.low for e in found]
    high = [e.centre if np.isnan(e.high) else e.high for e in found]
    axes.fill_between(middles, low, high, color=style["color"], alpha=_BAND_ALPHA, linewidth=0.0)


def _look(layout: Layout, name: tuple[str, str], names: Sequence[tuple[str, str]], flows: Sequence[str]) -> Style:
    """A colour for each flow, and a dash for each of its paths."""
    flow, path = name
    if not flow:
        return {"color": _SUM_COLOUR, "linewidth": 1.4, "linestyle": "-"}
    own = [other for other in names if other[0] == flow]
    colour = look(flows.index(flow), grey=layout.grey)[0]
    return {"color": colour, "linewidth": 1.0, "linestyle": LINE_STYLES[own.index((flow, path)) % len(LINE_STYLES)]}


def _label(layout: Layout, name: tuple[str, str]) -> str:
    flow, path = name
    if not flow:
        return "sum of all flows"
    if not path:
        return layout.labels.get(flow, flow)
    # The data that the scheduler gives to a path wait in its queue, and may be lost there.
    relation = "given to path" if layout.quantity == "goodput" else "path"
    return layout.labels.get(f"{flow}/{path}", f"{flow}, {relation} {path}")
