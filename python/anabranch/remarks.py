"""Explains numbers of a run that are easy to misread: many reinjections, and goodput that arrived earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.fairness.capacity import size_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch._core.document import Document, FlowResult

_MAX_USUAL_COPIES_SHARE = 0.05
"""Share of a path's data packets above which reinjections are reported."""
_MIN_EXCESS_SHARE = 0.005
"""Share by which a goodput may exceed the arrived data without a report; the three digits of a table hide less."""


def remarks(document: Document) -> list[str]:
    """Sentences about reinjections, goodput that includes earlier arrivals, and queues whose limit cuts RED off.

    A sentence about such a goodput begins with the mark that the value has in tables.
    """
    early = (f"* {text}" for flow in document["flows"] for text in released(document, flow))
    return [*_reinjections(document), *early, *_cut_off(document)]


def released_bps(flow: FlowResult) -> float:
    """The part of a flow's goodput that arrived during the warm-up, in bit/s; 0 if it is too small to matter.

    Such data waited out of order at the receiver and was delivered in the measured part.
    """
    if "answers" in flow or flow.get("direction") == "both" or not flow["paths"]:
        return 0.0
    arrived = sum(path["goodput_bps"] for path in flow["paths"])
    excess = float(flow["goodput_bps"] - arrived)
    return excess if excess > _MIN_EXCESS_SHARE * arrived else 0.0


def _reinjections(document: Document) -> Iterator[str]:
    for flow in document["flows"]:
        for path in flow["paths"]:
            copies, packets = path["reinjections"] or 0, path["data_packets"]
            if copies > _MAX_USUAL_COPIES_SHARE * packets:
                yield (
                    f'{copies:,} of {packets:,} data packets on path "{path["name"]}" of "{flow["name"]}" '
                    f"({100 * copies / packets:.0f} %) were reinjections: copies of data that another path had carried."
                )


def released(document: Document, flow: FlowResult) -> list[str]:
    """A sentence if the goodput of a flow includes data that arrived before measuring began; else an empty list."""
    early_bps = released_bps(flow)
    if not early_bps:
        return []
    return [
        f'{early_bps * 1e-6:.3f} Mbit/s of the goodput of "{flow["name"]}" arrived before measuring '
        f"began at {document['warmup_s']:g} s and waited for a gap to close; its paths carried "
        f"{(flow['goodput_bps'] - early_bps) * 1e-6:.3f} Mbit/s."
    ]


def _cut_off(document: Document) -> Iterator[str]:
    for link in document.get("scenario", {}).get("link", []):
        for side in (link, link.get("reverse", {})):
            queue = side.get("queue", {})
            limit, most = queue.get("limit", ""), queue.get("max", 0.0)
            if queue.get("gentle") and 2 * _length(most, limit) > _length(limit, limit):
                yield (
                    f'The limit of {limit} cuts gentle RED off at link "{link["name"]}": the queue is full '
                    f"before its average reaches twice its max of {most}, from which on all packets are dropped."
                )
                break


def _length(value: float | str, limit: str) -> float:
    """A threshold of a queue in packets or bytes: a length, or a share of the limit."""
    if not isinstance(value, str):
        return value * _length(limit, limit)
    number, unit = value.split()
    return float(number) if unit.startswith("packet") else size_bytes(value)
