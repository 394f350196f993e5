"""The result of a run as polars frames."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import InputError, nearest
from anabranch.possible import possible_bps
from anabranch.remarks import remarks
from anabranch.silence import silences
from anabranch.traces import Traces, Window, span_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from matplotlib.figure import Figure

    from anabranch.simulator import Document


class Result:
    """What came out of one run.

    The frames hold one row per flow, per flow and path, and per link and direction. Tables within the result become
    columns with joined names, such as `delivery_delay_s_p95`. Units are part of a column's name: `_bps` is bits per
    second, `_s` seconds, `_bytes` bytes.
    """

    def __init__(self, document: Document, trace: str | Path | None = None) -> None:
        self.document = document
        """The result as the simulator wrote it."""
        self._trace = trace

    def __repr__(self) -> str:
        return f"Result(seed={self.seed}, digest={self.digest!r}, flows={[f['name'] for f in self.document['flows']]})"

    @property
    def seed(self) -> int:
        """Seed of all random streams of the run."""
        return int(self.document["seed"])

    @property
    def digest(self) -> str | None:
        """Digest of all that happened: equal digests mean equal runs, packet by packet. Only simulations have one."""
        value: str | None = self.document["digest"]
        return value

    @property
    def jain(self) -> float | None:
        """Jain's fairness index over the goodputs of the flows; `None` if nothing was delivered."""
        value: float | None = self.document["jain"]
        return value

    def possible_bps(self, *flows: str) -> float | None:
        """What the links on the paths of some flows, or of all, could carry together if nothing else used them.

        In bit/s, headers and framing included, by the rates of the scenario; see `anabranch.capacity`. `None` if a
        link follows a trace of delivery opportunities.
        """
        return possible_bps(self.document, flows or [flow["name"] for flow in self.document["flows"]])

    @cached_property
    def traces(self) -> Traces:
        """What changed over time, as frames.

        Raises:
            InputError: If the run was not asked for traces.

        """
        if self._trace is None:
            raise InputError('this run wrote no traces; run it with trace="FOLDER"')
        return Traces(self._trace)

    def plot(
        self,
        file: str | Path | None = None,
        *,
        kind: Literal["windows", "sequences"] = "windows",
        flows: Sequence[str] = (),
        window: Window = (0.0, 0.0),
        width: Literal["page", "column"] = "page",
    ) -> Figure:
        """Draw what happened over time, from the traces of the run.

        Args:
            file: Where to save the figure, as PNG, SVG or PDF by its ending.
            kind: "windows" for congestion windows, bytes in flight and buffers; "sequences" for which data schedulers
                gave to which path, and when.
            flows: Which flows to draw; all if none is named.
            window: From when to when, in seconds, at most to the end of the run; the whole run by default.
            width: As wide as the panels need, or one column of a two-column page.

        Raises:
            InputError: If the run wrote no traces, a flow is not there, the window begins after the end of the run, or
                the file cannot be written.

        """
        from anabranch.plot import sequences, style, windows

        known = [flow["name"] for flow in self.document["flows"]]
        for flow in flows:
            if flow not in known:
                raise InputError(f'there is no flow "{flow}" in this run ({nearest(flow, known)})')
        span = span_of(window, float(self.document["duration_s"]))
        title = str(self.document["title"])
        if kind == "sequences":
            figure = sequences.draw(title, width, sequences.Pieces.of(self.traces, flows, span))
        else:
            layout = windows.Layout("", {}, width, span if any(window) else (0.0, 0.0))
            figure = windows.draw(layout, [(title, windows.Curves.of(self.traces, flows, span))])
        if file is not None:
            style.save_as(figure, Path(file))
        return figure

    @cached_property
    def silences(self) -> list[str]:
        """A sentence for each flow that never connected, delivered nothing or fell back to TCP, with the reason.

        A subflow that never opened has one too.
        """
        return silences(self.document)

    @cached_property
    def remarks(self) -> list[str]:
        """A sentence for each path with many reinjections, and for each goodput that includes earlier arrivals."""
        return remarks(self.document)

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row per flow."""
        return _frame([flatten({k: v for k, v in f.items() if k != "paths"}) for f in self.document["flows"]])

    @cached_property
    def paths(self) -> pl.DataFrame:
        """One row per flow and path; the flow's name is in column `flow`."""
        return _frame(
            [{"flow": flow["name"], **flatten(path)} for flow in self.document["flows"] for path in flow["paths"]]
        )

    @cached_property
    def middleboxes(self) -> pl.DataFrame:
        """One row per middlebox."""
        return _frame(self.document.get("middleboxes", []))

    @cached_property
    def links(self) -> pl.DataFrame:
        """One row per link and direction."""
        return _frame([flatten(link) for link in self.document["links"]])


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables within a table as keys joined with "_"; lists stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}".replace("-", "_")
        if isinstance(value, dict):
            flat.update(flatten(value, f"{name}_"))
        else:
            flat[name] = value
    return flat


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
