"""The tables of one run, for the terminal, pages and notebooks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.fairness.possible import possible_bps
from anabranch.limits import CAUSES, shown
from anabranch.remarks import released_bps
from anabranch.report.table_layout import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._core.document import Document


def sheets(document: Document) -> list[Sheet]:
    """The tables of a run: flows, links, and middleboxes and hosts with a cost if there are any."""
    found = [flows(document), _links(document)]
    if document.get("middleboxes"):
        found.append(_middleboxes(document))
    if any("utilisation" in host for host in document.get("hosts", ())):
        found.append(_hosts(document))
    return found


def flows(document: Document) -> Sheet:
    """Flows, and the paths of each flow with several."""
    causes = shown(document)
    extra = [column for column in _OPTIONAL if any(column.key in flow for flow in document["flows"])]
    has_copies = any(path["reinjections"] for flow in document["flows"] for path in flow["paths"])
    sheet = Sheet(
        [
            Column("Flow", words=True), Column("Protocol", words=True), Column("Goodput\nMbit/s"),
            Column("Possible\nMbit/s", spare=1), Column("Sent\nMbit/s", spare=6), Column("Retr.", spare=3),
            *([Column("Reinj.", spare=3)] if has_copies else []),
            Column("RTOs", spare=4), Column("SRTT\nms", spare=2), Column("Window\nkB", spare=5),
            Column("Delay\np95 ms", spare=7),
            *(Column(column.title, spare=column.spare) for column in extra),
            *(Column(f"Limited\n{CAUSES[cause]} s", spare=8) for cause in causes),
        ],
        str(document.get("title", "")),
    )  # fmt: skip
    for flow in document["flows"]:
        paths = flow["paths"]
        single = paths[0] if len(paths) == 1 else None
        delay = flow.get("delivery_delay_s")
        sheet.add(
            flow["name"],
            " ".join(part for part in (flow["protocol"], flow["congestion"]) if part),
            number(flow["goodput_bps"], 1e-6, 3) + ("*" if released_bps(flow) else ""),
            number(None if "arrived" in flow else possible_bps(document, [flow["name"]]), 1e-6, 1),
            number(flow["throughput_bps"], 1e-6, 3),
            _of_connections(flow, "retransmissions"),
            *([_count([p["reinjections"] for p in paths])] if has_copies else []),
            _of_connections(flow, "timeouts"),
            number(single and single["srtt_mean_s"], 1e3, 1),
            number(single and single["cwnd_mean_bytes"], 1e-3, 1),
            number(delay and delay["p95"], 1e3, 1),
            *(column.of(flow) for column in extra),
            *(number(flow.get("limited_s", {}).get(cause), 1.0, 1) for cause in causes),
        )
        for path in paths if len(paths) > 1 else []:
            sheet.add(
                f"  {path['name']}",
                "",
                number(path["goodput_bps"], 1e-6, 3),
                "",
                number(path["throughput_bps"], 1e-6, 3),
                str(path["retransmissions"]),
                *([_count([path["reinjections"]])] if has_copies else []),
                _count([path["timeouts"]]),
                number(path["srtt_mean_s"], 1e3, 1),
                number(path["cwnd_mean_bytes"], 1e-3, 1),
                "",
                *("" for _ in extra),
                *(number(path.get("limited_s", {}).get(cause), 1.0, 1) for cause in causes),
                style="dim",
            )
    return sheet


@dataclass(frozen=True)
class _Optional:
    """A column of the table of flows that is shown if a flow of the run has the key."""

    title: str
    key: str
    scale: float
    digits: int
    spare: int

    def of(self, flow: Mapping[str, Any]) -> str:
        """Value of a flow in this column; of a distribution its 95 % quantile."""
        value = flow.get(self.key)
        return number(value["p95"] if isinstance(value, dict) else value, self.scale, self.digits)


_OPTIONAL = [
    _Optional("Back\nMbit/s", "reverse_goodput_bps", 1e-6, 3, 1),
    _Optional("Answers", "answers", 1.0, 0, 2),
    _Optional("Response\np95 ms", "response_time_s", 1e3, 1, 1),
    _Optional("Complete\np95 ms", "completion_time_s", 1e3, 1, 1),
    _Optional("Slowdown\np95", "slowdown", 1.0, 2, 1),
    _Optional("Unfin.", "unfinished", 1.0, 0, 2),
    _Optional("Refused", "refused", 1.0, 0, 2),
    _Optional("Lost\n%", "lost_share", 1e2, 2, 3),
    _Optional("Jitter\nms", "jitter_s", 1e3, 2, 4),
    _Optional("MOS", "mos", 1.0, 2, 1),
]
"""Columns of flows with data in both directions, with requests and responses, with arrivals, or with datagrams."""


def _of_connections(flow: Mapping[str, Any], key: str) -> str:
    """A sum over the paths of a flow, or over its connections if there are several."""
    if "arrived" in flow:
        return str(flow["counters"][key])
    return _count([path[key] for path in flow["paths"]])


def _count(counts: list[int | None]) -> str:
    """The sum of the counts; a dash if one of them is unknown."""
    return "–" if None in counts else str(sum(count or 0 for count in counts))


def _links(document: Document) -> Sheet:
    sheet = Sheet([
        Column("Link", words=True), Column("Direction", words=True, spare=0), Column("Packets", spare=2),
        Column("Utilisation"), Column("Queue\npackets"), Column("Drops"), Column("by cause", words=True, spare=1),
    ])  # fmt: skip
    for link in document["links"]:
        if not link["packets"] and not link["drops"]:
            continue
        causes = ", ".join(f"{cause} {count:,}" for cause, count in link["drops_by_cause"].items() if count)
        sheet.add(
            link["name"],
            link["direction"],
            f"{link['packets']:,}",
            f"{100 * link['utilisation']:.1f} %",
            f"{link['occupancy']['mean']:.1f}",
            f"{link['drops']:,}",
            causes,
        )
    return sheet


def _middleboxes(document: Document) -> Sheet:
    sheet = Sheet([
        Column("Middlebox", words=True), Column("Kind", words=True), Column("Packets"), Column("Changed"),
        Column("Dropped"),
    ])  # fmt: skip
    for box in document["middleboxes"]:
        sheet.add(box["node"], box["kind"], *(f"{box[key]:,}" for key in ("packets", "changed", "dropped")))
    return sheet


def _hosts(document: Document) -> Sheet:
    sheet = Sheet([Column("Host", words=True), Column("Utilisation"), Column("Drops")])
    for host in document["hosts"]:
        sheet.add(host["name"], f"{100 * host['utilisation']:.1f} %", f"{host['drops']:,}")
    return sheet


def number(value: float | None, scale: float, digits: int) -> str:
    """A number in another unit; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value * scale:.{digits}f}"
