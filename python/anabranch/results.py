"""The result of a run as polars frames."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch import html
from anabranch.diagnostics import diagnose
from anabranch.documents import read_documents, write_document
from anabranch.errors import InputError, nearest
from anabranch.extras import require
from anabranch.fairness.possible import possible_bps
from anabranch.remarks import remarks
from anabranch.traces import Traces, Window, span_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from matplotlib.figure import Figure

    from anabranch._core.document import Document
    from anabranch.explain.explanation import Explanation, Options


PlotKind = Literal["windows", "sequences", "goodput", "rtt", "queues", "limits"]
"""Kind of a plot of one run."""

FLOW_LISTS = ("paths", "paths_wanted", "streams")
"""Keys of a flow whose entries are rows of other tables."""
PLOT_INTERVAL_S = 0.5
"""Interval of a value in plots of goodput and round-trip times."""


class Result:
    """The result of one run.

    Results of simulations are equal if their digests are: all packets of both runs arrived at the same times. Kernel
    results are equal if all of their numbers are.

    `flows` has one row per flow, `paths` one per flow and path, `streams` one per flow and SCTP stream, `links` one per
    link and direction. Tables within the result become columns with joined names, such as `delivery_delay_s_p95`. The
    name of a column ends with its unit: `_bps` is bits per second, `_s` seconds, `_bytes` bytes.
    docs/reference/results.md lists all fields.

    Args:
        document: The result document of the run.
        trace: Folder with the traces of the run; `None` if it wrote none.

    """

    def __init__(self, document: Document, trace: str | Path | None = None) -> None:
        self.document = document
        """The result document, as decoded from the simulator's JSON."""
        self._trace = trace

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result that `save` or `anabranch run --json` wrote; it has no traces.

        Args:
            path: The file.

        Raises:
            InputError: If the file cannot be read, contains something else or several results, or has another format.

        """
        file = _path(path)
        first, *others = read_documents(file)
        if others:
            raise InputError(
                f"contains {len(others) + 1} results, not one; anabranch.compare reads them all", str(file)
            )
        return cls(first)

    def save(self, path: str | Path) -> None:
        """Write the result to a file, as `anabranch run --json` prints it; traces are not part of it.

        Args:
            path: The file; an existing file is replaced.

        Raises:
            InputError: If the file cannot be written.
            RunFailed: If the disk is full.

        """
        write_document(self.document, _path(path))

    def __repr__(self) -> str:
        return f"Result({self.document['title']!r}, seed={self.seed}, digest={self.digest!r})"

    def _repr_html_(self) -> str:
        """The table of flows that `anabranch run` prints, for notebooks."""
        from anabranch.report.run_tables import flows

        digest = "" if self.digest is None else f" · digest {self.digest}"
        return flows(self.document).html() + html.paragraph(f"seed {self.seed}{digest}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        if self.digest is None or other.digest is None:
            return self.document == other.document
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.seed, self.digest))

    @property
    def seed(self) -> int:
        """Seed of all random streams of the run."""
        return self.document["seed"]

    @property
    def digest(self) -> str | None:
        """Digest of all events: equal digests mean equal runs, packet by packet. `None` for runs on the kernel."""
        return self.document["digest"]

    @property
    def jain(self) -> float | None:
        """Jain's fairness index over the goodputs of the flows (Jain, Chiu, Hawe 1984), from 1/n to 1.

        `None` if nothing was delivered.
        """
        return self.document["jain"]

    def possible_bps(self, *flows: str) -> float | None:
        """Largest total rate that the links on the paths of some flows can carry without any other traffic.

        The rate is in bit/s with headers and framing, by the rates of the scenario; see
        `anabranch.fairness.capacity`. It is `None` if a link follows a trace of delivery opportunities.

        Args:
            flows: Names of flows; all flows if none is named.

        """
        return possible_bps(self.document, flows or [flow["name"] for flow in self.document["flows"]])

    @cached_property
    def traces(self) -> Traces:
        """The traces over time, as frames.

        Raises:
            InputError: If the run wrote no traces.

        """
        if self._trace is None:
            raise InputError('this run wrote no traces; run it with trace="FOLDER"')
        return Traces(self._trace)

    def plot(
        self,
        file: str | Path | None = None,
        *,
        kind: PlotKind = "windows",
        flows: Sequence[str] = (),
        window: Window = (0.0, 0.0),
        width: Literal["page", "column"] = "page",
    ) -> Figure:
        """Draw the traces of the run over time, or its times by cause.

        Args:
            file: File for the figure; its ending selects PNG, SVG or PDF.
            kind: "windows" for congestion windows, bytes in flight and buffers; "sequences" for the data that the
                schedulers assigned to each path; "goodput" and "rtt" for a value in each interval of flows, paths and
                their sum; "queues" for the lengths of queues with the thresholds of RED;
                "limits" for the times by the cause that limited each path, which need no traces and have no window.
            flows: Names of the flows to draw; all flows if none is named.
            window: Begin and end in seconds; the whole run by default. An end after that of the run is cut.
            width: "page" for the width that the panels need, "column" for one column of a two-column page.

        Raises:
            InputError: If the run wrote no traces or has no such times, a flow does not exist, all flows have arrivals
                (except for "queues"), the window begins after the end of the run, or the file cannot be written.
            RunFailed: If the disk is full.

        """
        from anabranch.plot import limits, queues, rates, sequences, style, windows

        known = [flow["name"] for flow in self.document["flows"]]
        for flow in flows:
            if flow not in known:
                raise InputError(f'there is no flow "{flow}" in this run ({nearest(flow, known)})')
        drawn = [flow for flow in self.document["flows"] if not flows or flow["name"] in flows]
        if kind != "queues" and drawn and all("arrived" in flow for flow in drawn):
            raise InputError(
                f'"{drawn[0]["name"]}" has arrivals, and traces record no connections of such a flow; draw queues '
                "instead"
            )
        span = span_of(window, float(self.document["duration_s"]))
        title = str(self.document["title"])
        if kind == "limits":
            figure = limits.draw(self.document, width, flows)
        elif kind == "sequences":
            figure = sequences.draw(title, width, sequences.Pieces.of(self.traces, flows, span))
        elif kind == "queues":
            panel = queues.panel_of(title, self.traces, self.document, (), span)
            figure = queues.draw(queues.Layout("", {}, width), [panel])
        elif kind != "windows":
            edges = rates.edges_of(span, PLOT_INTERVAL_S)
            curves = rates.curves(kind, self.traces, flows, edges)
            figure = rates.draw(rates.Layout("", {}, width, kind), [rates.Panel(title, edges, [curves])])
        else:
            layout = windows.Layout("", {}, width, span if any(window) else (0.0, 0.0))
            figure = windows.draw(layout, [(title, windows.Curves.of(self.traces, flows, span))])
        if file is not None:
            style.save_as(figure, Path(file))
        return figure

    @cached_property
    def diagnostics(self) -> list[str]:
        """A sentence for each flow that never connected, delivered nothing or fell back to TCP, with the known causes.

        Each subflow that never opened has a sentence too.
        """
        return diagnose(self.document)

    @cached_property
    def remarks(self) -> list[str]:
        """A sentence for each path with many reinjections, and for each goodput that includes earlier arrivals."""
        return remarks(self.document)

    def explain(self, options: Options | None = None) -> Explanation:
        """Explain why a flow of this run is slow: causes, remedies and their measured gains, best first.

        The run and all remedies are simulated, also for a result of the kernel.

        Args:
            options: The flow, the aim, and the extent of the runs.

        Raises:
            InputError: If the result does not contain its scenario, or an option is not valid.
            RunFailed: If a run breaks off.

        """
        from anabranch.explain.explanation import explain_document

        return explain_document(self.document, options, allow_paths=True)

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row per flow."""
        return _frame([flatten({k: v for k, v in f.items() if k not in FLOW_LISTS}) for f in self.document["flows"]])

    @cached_property
    def streams(self) -> pl.DataFrame:
        """One row per flow and SCTP stream, for flows with several; the flow's name is in column `flow`."""
        rows = [(flow["name"], stream) for flow in self.document["flows"] for stream in flow.get("streams", [])]
        return _frame([{"flow": name, **flatten(stream)} for name, stream in rows])

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


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise InputError(f"path must be the name of a file, not {path!r}")
    return Path(path)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Tables within a table as keys joined with "_"; lists stay as they are."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}".replace("-", "_")
        if isinstance(value, dict):
            flat.update(flatten(value, f"{name}_"))
        else:
            flat[name] = value
    return flat


def _frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    require("frames", "a frame of results")
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
