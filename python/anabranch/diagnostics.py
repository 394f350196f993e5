"""Explains flows without data, flows that fell back to TCP, and subflows that never opened.

A row of zeros in a table may be a result or a mistake; the sentences of this module give the known causes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from anabranch.fairness.capacity import directions, size_bytes
from anabranch.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from anabranch._core.document import Document, FlowResult, PathResult, WantedPathResult

_FALLBACK_CAUSES = "two SYNs were lost, or a middlebox removes the options of Multipath TCP"
MIN_VISIBLE_BPS = 500.0
"""Tables in Mbit/s show 0.000 for goodputs below this rate."""
_DROP_VERBS = {"loss": "lost", "down": "was down for", "mtu": "is too small (MTU) for", "queue": "had no room for"}
"""Verbs of sentences about a link, by cause of the drop."""
OBSTACLES = {
    "no-answer": "its handshake got no answer",
    "refused": "the other host, or a middlebox between the hosts, refused it",
    "no-route": "its interface is down, or no route leads to the other host",
    "limit": "the number of paths or ports does not admit it",
    "stripped": "an option of Multipath TCP did not arrive, or the connection fell back to TCP",
}
"""Ends of sentences by the reason for which a wanted path never opened; "pending" has no sentence."""
_END_PHRASES = {
    "timed-out": "timed out",
    "reset": "was reset",
    "aborted": "was aborted",
    "refused": "was refused",
    "unreachable": "found no route",
}
"""Verbs of sentences about a flow that has ended, by its state."""


def diagnose(document: Document) -> list[str]:
    """A sentence for each flow that never connected, delivered nothing or fell back to TCP, with the reason.

    For other flows, a sentence for each subflow that never opened.

    Args:
        document: The result document of a run.

    """
    sentences = []
    for flow in document["flows"]:
        sentence = _sentence(flow, document)
        sentences += [sentence] if sentence else _unopened(flow, document)
    return sentences


def _unopened(flow: FlowResult, document: Document) -> list[str]:
    """A sentence for each wanted path that never opened; a flow of the kernel has counters of its paths instead."""
    wanted = flow.get("paths_wanted")
    if wanted is not None:
        return [
            f'Path "{each["name"]}" of "{flow["name"]}" never opened: {_obstacle(each, flow, document)}.'
            for each in wanted
            if is_obstructed(each) and len(wanted) > 1
        ]
    if len(flow["paths"]) < 2:  # noqa: PLR2004
        return []
    return [
        f'Path "{path["name"]}" of "{flow["name"]}" never opened: {_cause({**flow, "paths": [path]}, document)}.'
        for path in flow["paths"]
        if path["links"] and path["packets"] and path["timeouts"] != 0
        if not path["data_packets"] and path["srtt_s"] is None
    ]


def is_obstructed(wanted: WantedPathResult) -> bool:
    """Whether a wanted path that never opened is reported; a path from one link to another without a route is not.

    Addresses on separate links have no route to each other, so the lack of such a path is no fault.

    Args:
        wanted: An entry of `paths_wanted`.

    """
    reason = wanted["reason"]
    return reason in OBSTACLES and not (reason == "no-route" and ">" in wanted["name"])


def _obstacle(wanted: WantedPathResult, flow: FlowResult, document: Document) -> str:
    """The reason for which a path never opened, with the losses of its links."""
    reason = OBSTACLES[str(wanted["reason"])]
    tried = [path for path in flow["paths"] if path["name"] == wanted["name"] and path["links"] and path["packets"]]
    causes = dict.fromkeys([*_lossy_links({**flow, "paths": tried}, document), *_routers(tried, document)])
    return "; ".join([reason, *causes])


def _sentence(flow: FlowResult, document: Document) -> str:
    symptom = _symptom(flow, document)
    if symptom:
        return f'"{flow["name"]}" {symptom}: {_cause(flow, document)}.'
    if not flow["fallback"]:
        return ""
    ends = [flow["from"], flow.get("through", flow["to"])]
    without = [host["name"] for host in document.get("scenario", {}).get("host", []) if host.get("mptcp") is False]
    found = [f'host "{end}" does not support Multipath TCP (mptcp = false)' for end in ends if end in without]
    return f'"{flow["name"]}" fell back to plain TCP and had one path: {" and ".join(found) or _FALLBACK_CAUSES}.'


def _symptom(flow: FlowResult, document: Document) -> str:
    """The verb of a sentence about a flow with hardly any goodput; empty for other flows."""
    if flow["goodput_bps"] >= MIN_VISIBLE_BPS:
        return ""
    never_open = flow["state"] == "opening" or (flow["state"] in _END_PHRASES and not flow["written_bytes"])
    if never_open and flow["protocol"] != "udp":
        return "never connected"
    if not flow["delivered_bytes"]:
        return "never delivered anything"
    if flow["goodput_bps"] > 0.0:
        return f"delivered no more than {counted(flow['delivered_bytes'], 'byte')}"
    delivered = counted(flow["delivered_bytes"], "byte")
    return f"delivered its {delivered} before measuring began at {document['warmup_s']:g} s"


def _cause(flow: FlowResult, document: Document) -> str:
    """The causes that the counts of links and middleboxes and the scenario show; without any, packets and timeouts."""
    if not any(path["links"] for path in flow["paths"]):
        # Other addresses of the host may be reachable.
        return f"host {flow['from']} has no route to the address of {flow['to']} that the flow connects to"
    causes = [*dict.fromkeys(_lossy_links(flow, document)), *_middleboxes(flow, document), *_own(flow, document)]
    if causes:
        return "; ".join(causes)
    packets = sum(path["packets"] for path in flow["paths"])
    timeouts = sum(path["timeouts"] or 0 for path in flow["paths"])
    ended = f", then it {_END_PHRASES[flow['state']]}" if flow["state"] in _END_PHRASES else ""
    return f"it sent {counted(packets, 'packet')} and had {counted(timeouts, 'timeout')}{ended}"


def _lossy_links(flow: FlowResult, document: Document) -> Iterator[str]:
    """Yields, for each path, the first link that dropped half of its packets or more; forward links are first."""
    links = {(link["name"], link["direction"] == "forward"): link for link in document["links"]}
    for path in flow["paths"]:
        there = directions(flow, path, document)
        back = [] if flow["protocol"] == "udp" else [(name, not forward) for name, forward in reversed(there)]
        yield from itertools.islice(filter(None, (_barrier(links[side]) for side in [*there, *back])), 1)


def _middleboxes(flow: FlowResult, document: Document) -> Iterator[str]:
    """The middleboxes on the flow's paths that dropped packets."""
    nodes = _nodes(flow["paths"], document)
    for box in document.get("middleboxes", []):
        if box["dropped"] and box["node"] in nodes:
            dropped = f"dropped {box['dropped']:,} of {box['packets']:,} packets"
            yield f'the middlebox at "{box["node"]}" ({box["kind"]}) {dropped}'


def _routers(paths: Iterable[PathResult], document: Document) -> Iterator[str]:
    """The routers on paths that dropped source routes, with the remedy."""
    nodes = _nodes(paths, document)
    for router in document.get("routers", []):
        if router["dropped"] and router["node"] in nodes:
            count = f"{router['dropped']:,} of {router['source_routed']:,} packets with a source route"
            remedy = 'to follow them, it needs source_routes = "forward" in its [[router]]'
            yield f'router "{router["node"]}" dropped {count}; {remedy}'


def _nodes(paths: Iterable[PathResult], document: Document) -> set[str]:
    """The nodes at the ends of the links of paths."""
    used = {name for path in paths for name in path["links"]}
    return {link[end] for link in document["links"] if link["name"] in used for end in ("from", "to")}


def _barrier(link: Mapping[str, Any]) -> str:
    """A sentence about one direction of a link if it dropped at least half of its packets; otherwise empty."""
    # `packets` includes those lost on the wire, but not those dropped before transmission.
    on_the_way = link["drops_by_cause"].get("loss", 0)
    offered = max(link["packets"] + link["drops"] - on_the_way, link["drops"])
    if not link["drops"] or 2 * link["drops"] < offered:
        return ""
    cause = max(link["drops_by_cause"], key=link["drops_by_cause"].__getitem__)
    count = "all" if link["drops"] == offered else f"{link['drops']:,} of"
    return f'link "{link["name"]}" {_DROP_VERBS.get(cause, "dropped")} {count} {offered:,} packets towards {link["to"]}'


def _own(flow: FlowResult, document: Document) -> Iterator[str]:
    """Causes within the flow itself: its receive buffer or its application."""
    settings = {f["name"]: f for f in document.get("scenario", {}).get("flow", [])}.get(flow["name"], {})
    buffer = settings.get("receive_buffer", "")
    smallest = 576  # bytes; every host must accept packets of this size (RFC 791)
    if flow["state"] != "opening" and buffer not in ("", "auto") and size_bytes(buffer) < smallest:
        yield f"its receive buffer of {buffer} holds less than one packet"
    if flow["state"] != "opening" and not flow["written_bytes"]:
        yield "its application wrote nothing"
    if flow["completion_s"] is not None and flow["completion_s"] <= document["warmup_s"]:
        yield f"it was done after {flow['completion_s']:.3g} s"
