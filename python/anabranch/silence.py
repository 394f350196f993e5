"""Flows that came to nothing, or to less than was asked for, in words: a row of zeros may be a result or a mistake."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from anabranch.capacity import directions, size_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.simulator import Document

_BACK = "two SYNs were lost, or something on the way takes the options of Multipath TCP out"
_UNSEEN = 500.0  # bit/s, below which tables in Mbit/s show 0.000
_WAYS = {"loss": "lost", "down": "was down for", "mtu": "is too small (MTU) for", "queue": "had no room for"}
_ENDED = {
    "timed-out": "timed out",
    "reset": "was reset",
    "aborted": "was aborted",
    "refused": "was refused",
    "unreachable": "found no way",
}


def silences(document: Document) -> list[str]:
    """A sentence for each flow that never connected, delivered nothing or fell back to TCP, with the reason.

    Of a flow without such a sentence, each subflow that never opened has one.
    """
    sentences = []
    for flow in document["flows"]:
        sentence = _sentence(flow, document)
        sentences += [sentence] if sentence else _unopened(flow, document)
    return sentences


def _unopened(flow: Mapping[str, Any], document: Document) -> list[str]:
    """A sentence for each subflow that was tried and never opened."""
    if len(flow["paths"]) < 2:  # noqa: PLR2004
        return []
    return [
        f'Path "{path["name"]}" of "{flow["name"]}" never opened: {_why({**flow, "paths": [path]}, document)}.'
        for path in flow["paths"]
        if path["links"] and path["packets"] and path["timeouts"] != 0
        if not path["data_packets"] and path["srtt_s"] is None
    ]


def _sentence(flow: Mapping[str, Any], document: Document) -> str:
    said = _silence(flow, document)
    if said:
        return f'"{flow["name"]}" {said}: {_why(flow, document)}.'
    return f'"{flow["name"]}" fell back to plain TCP, and had one path: {_BACK}.' if flow["fallback"] else ""


def _silence(flow: Mapping[str, Any], document: Document) -> str:
    """What a flow did not do; empty for one that delivered something."""
    if flow["goodput_bps"] >= _UNSEEN:
        return ""
    never_open = flow["state"] == "opening" or (flow["state"] in _ENDED and not flow["written_bytes"])
    if never_open and flow["protocol"] != "udp":
        return "never connected"
    if not flow["delivered_bytes"]:
        return "never delivered anything"
    if flow["goodput_bps"] > 0.0:
        return f"delivered no more than {flow['delivered_bytes']:,} bytes"
    return f"delivered its {flow['delivered_bytes']:,} bytes before measuring began at {document['warmup_s']:g} s"


def _why(flow: Mapping[str, Any], document: Document) -> str:
    """What can be told from the counts of links and the scenario, the plainest reason alone."""
    if not any(path["links"] for path in flow["paths"]):
        # Another of its addresses may be reached.
        return f"no route leads from {flow['from']} to the address of {flow['to']} that it connects to"
    reasons = [*dict.fromkeys(_lost(flow, document)), *_kept(flow, document), *_own(flow, document)]
    if reasons:
        return "; ".join(reasons)
    packets = sum(path["packets"] for path in flow["paths"])
    timeouts = sum(path["timeouts"] or 0 for path in flow["paths"])
    ended = f", then it {_ENDED[flow['state']]}" if flow["state"] in _ENDED else ""
    return f"it sent {packets:,} packets and had {timeouts:,} timeouts{ended}"


def _lost(flow: Mapping[str, Any], document: Document) -> Iterator[str]:
    """For each path the first link, there or else back, that let at most half of what was to pass through."""
    links = {(link["name"], link["direction"] == "forward"): link for link in document["links"]}
    for path in flow["paths"]:
        there = directions(flow, path, document)
        back = [] if flow["protocol"] == "udp" else [(name, not forward) for name, forward in reversed(there)]
        yield from itertools.islice(filter(None, (_barrier(links[side]) for side in [*there, *back])), 1)


def _kept(flow: Mapping[str, Any], document: Document) -> Iterator[str]:
    """The middleboxes on the flow's way that kept packets from going on."""
    used = {name for path in flow["paths"] for name in path["links"]}
    nodes = {link[end] for link in document["links"] if link["name"] in used for end in ("from", "to")}
    for box in document.get("middleboxes", []):
        if box["dropped"] and box["node"] in nodes:
            dropped = f"dropped {box['dropped']:,} of {box['packets']:,} packets"
            yield f'the middlebox at "{box["node"]}" ({box["kind"]}) {dropped}'


def _barrier(link: Mapping[str, Any]) -> str:
    """What one direction of a link did to at least half of its packets; empty if it did no such thing."""
    # What a link loses on the way it has counted as a packet of its own; what never got that far it has not.
    on_the_way = link["drops_by_cause"].get("loss", 0)
    offered = max(link["packets"] + link["drops"] - on_the_way, link["drops"])
    if not link["drops"] or 2 * link["drops"] < offered:
        return ""
    cause = max(link["drops_by_cause"], key=link["drops_by_cause"].__getitem__)
    count = "all" if link["drops"] == offered else f"{link['drops']:,} of"
    return f'link "{link["name"]}" {_WAYS.get(cause, "dropped")} {count} {offered:,} packets towards {link["to"]}'


def _own(flow: Mapping[str, Any], document: Document) -> Iterator[str]:
    """Reasons that lie in the flow itself."""
    settings = {f["name"]: f for f in document.get("scenario", {}).get("flow", [])}.get(flow["name"], {})
    buffer = settings.get("receive_buffer", "")
    smallest = 576  # bytes that every host has to be able to take in one packet (RFC 791)
    if flow["state"] != "opening" and buffer not in ("", "auto") and size_bytes(buffer) < smallest:
        yield f"its receive buffer of {buffer} holds less than one packet"
    if flow["state"] != "opening" and not flow["written_bytes"]:
        yield "its application wrote nothing"
    if flow["completion_s"] is not None and flow["completion_s"] <= document["warmup_s"]:
        yield f"it was done after {flow['completion_s']:.3g} s"
