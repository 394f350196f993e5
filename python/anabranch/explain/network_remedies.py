"""Remedies in the network: links, queues, events and middleboxes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.explain.facts import FULL_LINK, HEADER_BYTES, PACKET_BYTES
from anabranch.explain.further_paths import added_bps
from anabranch.explain.proposals import Proposal, keys_of_path, of_flow
from anabranch.fairness.capacity import bits_per_second, seconds
from anabranch.quantities import counted, mbps, ms
from anabranch.sweep import literal, setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from anabranch.explain.facts import Facts, Side

_MIN_PACKETS = 20
_USUAL_MTU = 1500
_GROWTH_WEIGHT = 0.2
"""Part of the room on the paths that a larger segment fills."""
_MIN_BLOATED_TRIPS = 2.0
"""Minimum duration of a full queue that counts as too long, in round trips of its path."""
_MIN_LATE_TRIPS = 10.0
"""Minimum duration of a full queue that makes data late, in round trips of the longest path."""
_MIN_QUEUED_TRIPS = 0.35
"""Minimum mean waiting time in such a queue at which data is late, in round trips of its path."""
_FULL_QUEUE_WEIGHT = 0.65
"""Part of the gap that active queue management saves if a long queue makes data late."""
_SMALL_BUFFER_WEIGHT = 0.3
"""The same if buffers are smaller than the queue, and limit the flow with a short queue, too."""
_LONG_QUEUE_EVIDENCE = 0.05
"""Evidence of a long queue that only delays packets."""
_MIN_HELD_UP_SHARE = 0.1
"""Share of the time with a full buffer from which on late data delays the other paths."""
_MIN_HELD_BACK_SHARE = 0.15
"""Share of the possible rate that the paths carry and the receiver holds back from which on data is late."""
_MIN_BUSY_SHARE = 0.5
"""Share of the time from which on a link for acknowledgements counts as busy."""


def random_loss(facts: Facts) -> Iterator[Proposal]:
    """Links that lose packets at random, without that loss."""
    found = _of_several(list(_random_loss(facts)))
    # Of equal evidence the first counts: all links together, since few losses in one run may be chance.
    yield from found[-1:]
    yield from found[:-1]


def _random_loss(facts: Facts) -> Iterator[Proposal]:
    for side in facts.sides_there:
        if side.has_loss:
            lost = side.report["drops_by_cause"].get("loss") or 0
            cause = f'Link "{side.link}" lost {lost:,} of {side.report["packets"]:,} packets at random'
            evidence = 0.95 * facts.free_share([side.link]) if side.lost_share else 0.0
            yield _of_link(side, "loss", {"model": "none"}, cause, evidence)


def queue_too_short(facts: Facts) -> Iterator[Proposal]:
    """A queue of one bandwidth-delay product, where the queue is shorter and dropped packets because it was full."""
    yield from _of_several(list(_queue_too_short(facts)))


def _queue_too_short(facts: Facts) -> Iterator[Proposal]:
    for path in facts.paths:
        for side in path.there:
            dropped, product = side.dropped, side.bdp_bytes(path)
            if not dropped or side.limit_bytes >= product:
                continue
            packets = max(_MIN_PACKETS, round(product / PACKET_BYTES))
            cause = (
                f'The queue of link "{side.link}" holds {side.values["queue"]["limit"]}, less than a round trip of '
                f"traffic ({packets} packets), and dropped {counted(dropped, 'packet')}"
            )
            # A queue that is nearly long enough costs next to nothing.
            weight = 1.0 - (side.limit_bytes / product) ** 2
            yield _of_link(side, "queue.limit", f"{packets} packets", cause, weight * facts.free_share([side.link]))


def bufferbloat(facts: Facts) -> Iterator[Proposal]:
    """Short delays by active queue management, where a queue can hold several round trips of traffic."""
    for path in facts.paths:
        for side in path.there:
            if side.values["queue"]["kind"] != "fifo" or side.limit_s < _MIN_BLOATED_TRIPS * max(path.rtt_s, 0.01):
                continue
            cause = (
                f'The queue of link "{side.link}" can hold {ms(side.limit_s)} of traffic and delayed packets by '
                f'{ms(side.queue_s)} on average; path "{path.name}" has a round trip of {ms(path.rtt_s)} without it'
            )
            late = _FULL_QUEUE_WEIGHT if can_fill_queue(facts) else _SMALL_BUFFER_WEIGHT
            weight = min(1.0, side.queue_s / (side.queue_s + path.rtt_s or 1.0))
            yield _of_link(
                side, "queue", {"kind": "codel"}, cause, weight * max(late * held_up(facts), _LONG_QUEUE_EVIDENCE)
            )


def held_up(facts: Facts) -> float:
    """The gap of a flow that waits for late data of a path with a long queue; 0 for other flows.

    A flow waits if its buffers are full for a part of the time, or if its gap exceeds the free rate of its paths.
    """
    buffers = facts.waited_share("receive-window") + facts.waited_share("send-buffer")
    is_waiting = buffers >= _MIN_HELD_UP_SHARE or facts.payload_gap >= facts.room + _MIN_HELD_BACK_SHARE
    return facts.payload_gap if is_waiting and late_sides(facts) else 0.0


def late_sides(facts: Facts) -> list[Side]:
    """Directions of links whose long queue delays data of one of several paths."""
    if len(facts.paths) < 2:  # noqa: PLR2004  a single path holds up no other
        return []
    longest_s = max(path.rtt_s for path in facts.paths)
    late = {
        side.key: side
        for path in facts.paths
        for side in path.there
        if side.limit_s >= _MIN_LATE_TRIPS * longest_s > 0.0 and side.queue_s >= _MIN_QUEUED_TRIPS * path.rtt_s
    }
    return list(late.values())


def can_fill_queue(facts: Facts) -> bool:
    """Whether the buffers hold more than the queue that empties last, so that a window can fill it."""
    longest = max(facts.sides_there, key=lambda side: side.limit_s, default=None)
    return longest is None or facts.buffer_bits > 8.0 * longest.limit_bytes


def reverse_path(facts: Facts) -> Iterator[Proposal]:
    """A faster or emptier return path for acknowledgements."""
    yield from _of_several(list(_reverse_path(facts)))


def _reverse_path(facts: Facts) -> Iterator[Proposal]:
    rates = {(side.link, side.is_forward): side.rate_bps for side in facts.sides_there}
    for side in facts.sides_back:
        # A link's reverse direction inherits the keys that it does not set: here the direction of the data.
        data = None if not side.is_forward else facts.side((side.link, False))
        used = float(side.report["utilisation"] or 0.0)
        there = rates.get((side.link, not side.is_forward))
        if used < _MIN_BUSY_SHARE and not side.has_loss:
            continue
        cause = (
            f'Acknowledgements wait on link "{side.link}", whose reverse direction was busy for {100 * used:.0f} % of '
            f"the time and delayed packets by {ms(side.queue_s)} on average"
        )
        evidence = facts.free_share([side.link]) * used
        if side.rate_bps and there and there > side.rate_bps:
            yield _of_link(side, "rate", f"{there / 1e6:g} Mbit/s", cause, evidence, kept=data)
        if side.values["queue"]["kind"] == "fifo":
            yield _of_link(side, "queue", {"kind": "fq-codel"}, cause, 0.7 * evidence, kept=data)
        if side.has_loss:
            lost = f'Link "{side.link}" loses acknowledgements'
            # A later acknowledgement replaces a lost one: only their number falls.
            evidence = side.lost_share * facts.free_share([side.link])
            yield _of_link(side, "loss", {"model": "none"}, lost, evidence, kept=data)


def down(facts: Facts) -> Iterator[Proposal]:
    """Links that are down from the start, and events that take a link down or make it worse."""
    on_paths = {link["name"] for link in facts.links_of_ends()} | {side.link for side in facts.sides_there}
    for link in facts.spelt_out["link"]:
        if link["name"] in on_paths and link["state"] == "down":
            cause = f'Link "{link["name"]}" is down at the start{facts.obstacle_of([link["name"]])}'
            rate_bps = bits_per_second(link["rate"]) if isinstance(link["rate"], str) else facts.goodput_bps
            evidence = facts.share_of(added_bps(facts, rate_bps))
            keys = keys_of_path(facts, link["name"])
            state = f'link.{link["name"]}.state="up"'
            yield Proposal(link["name"], (state,), cause, 0.0 if keys else evidence)
            if keys:
                further = tuple(setting(f"flow.{facts.name}.{key}", value) for key, value in keys.items())
                also = f"{cause}, and its path carries no data until the flow has other values of {', '.join(keys)}"
                yield Proposal(link["name"], (state, *further), also, evidence)
    by_link: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for number, event in enumerate(facts.spelt_out.get("event", [])):
        if event.get("link") in on_paths:
            by_link.setdefault(event["link"], []).append((number, event))
    for name, events in by_link.items():
        settings = tuple(setting(f"event.{number}.set", {"state": "up"}) for number, _ in events)
        first = events[0][1]
        changes = ", ".join(f"{key} = {_plain(value)}" for key, value in first["set"].items())
        cause = f'Link "{name}" changes during the run: at {first["at"]} {changes}'
        duration_s = facts.document["duration_s"]
        evidence = 0.6 * facts.gap * (1.0 - min(1.0, seconds(first["at"]) / duration_s))
        yield Proposal(name, settings, cause, max(0.1, evidence))


def middleboxes(facts: Facts) -> Iterator[Proposal]:
    """Middleboxes that let the packets of Multipath TCP pass."""
    reports = {box["node"]: box for box in facts.document.get("middleboxes", [])}
    for box in facts.spelt_out.get("middlebox", []):
        node, does = box["node"], box["does"]
        report = reports.get(node)
        touched = report["changed"] + report["dropped"] if report else 0
        cause = f'The middlebox at "{node}" ({does["kind"]}) changed or dropped {counted(touched, "packet")}'
        cause += facts.obstacle_of(link["name"] for link in facts.links_of_ends())
        harmless: dict[str, dict[str, bool]] = {
            "strip-options": {"mptcp": False},
            "drop-syn": {"capable": False, "join": False},
        }
        values = harmless.get(does["kind"])
        if values is not None:
            settings = tuple(setting(f"middlebox.{node}.does.{key}", value) for key, value in values.items())
            yield Proposal(node, settings, cause, 0.6 if touched else 0.3)
        elif does["kind"] == "shaper" and facts.possible_bps:
            rate = f"{facts.possible_bps * 1e-6:g} Mbit/s"
            yield Proposal(node, (setting(f"middlebox.{node}.does.rate", rate),), cause, 0.5 * facts.gap)


def source_routes(facts: Facts) -> Iterator[Proposal]:
    """Routers that follow source routes, where paths never opened because they dropped them."""
    yield from _of_several(list(_source_routes(facts)))


def _source_routes(facts: Facts) -> Iterator[Proposal]:
    lost = [path for path in facts.paths if not path.was_open and not path.report["backup"]]
    for router in facts.document.get("routers", []):
        node = router["node"]
        through = [path for path in lost if any(node in facts.ends_of(side.link) for side in path.there)]
        if not router["dropped"] or not through:
            continue
        count = f"{router['dropped']:,} of {router['source_routed']:,} packets with a source route"
        cause = f'Router "{node}" dropped {count}, so that path "{through[0].name}" never opened'
        more_bps = math.fsum(facts.free_bps(path) for path in through)
        followed = setting(f"router.{node}.source_routes", "forward")
        yield Proposal(node, (followed,), cause, facts.share_of(more_bps))


def mtu(facts: Facts) -> Iterator[Proposal]:
    """The usual packet size, and packets that fit where routers drop long ones silently."""
    for side in facts.sides_there:
        size, silent = side.values["mtu"], side.report["drops_by_cause"].get("mtu") or 0
        if size < _USUAL_MTU:
            cause = f'Link "{side.link}" carries packets of at most {size} bytes'
            settings = (f"link.{side.link}.mtu={_USUAL_MTU}",)
            evidence = 0.5 if silent else _of_longer_packets(facts, size, _USUAL_MTU)
            yield Proposal(side.link, settings, cause, evidence)
        if silent and not side.values["icmp"]:
            cause = f'Link "{side.link}" dropped {counted(silent, "packet")} longer than {size} bytes without an answer'
            yield of_flow(facts, {"mtu": size}, cause, 0.9, side.link)
    own, smallest = facts.settings.get("mtu"), min((side.values["mtu"] for side in facts.sides_there), default=0)
    if own is not None and own < smallest:
        cause = f"Packets of the flow have at most {own} bytes, although its links carry {smallest}"
        yield of_flow(facts, {"mtu": smallest}, cause, _of_longer_packets(facts, own, smallest))


def _of_longer_packets(facts: Facts, size: int, longest: int) -> float:
    """The share that longer packets add: fewer headers, and a window that grows by larger packets.

    The window of a short transfer begins with larger packets, too, and saves a round trip for twice the size.
    """
    framing = max((side.values["overhead"] for side in facts.sides_there), default=0)
    before, after = [max(1, each - HEADER_BYTES) / (each + framing) for each in (size, longest)]
    saved = 1.0 - before / after
    share = saved + (1.0 - saved) * _GROWTH_WEIGHT * facts.room
    completion_s = facts.flow["completion_s"]
    if not facts.is_short or not completion_s:
        return share
    trips = math.log2(max(1, longest - HEADER_BYTES) / max(1, size - HEADER_BYTES))
    return max(share, min(1.0, trips * facts.largest_rtt_s / completion_s) / facts.rate_weight)


def busiest(facts: Facts) -> str:
    """A sentence on the link where other flows take most, without its full stop; empty if there is none."""
    found = []
    for side in facts.sides_there:
        taken = facts.others_bps(side)
        if side.rate_bps and (side.report["utilisation"] or 0.0) > FULL_LINK and taken > 0.1 * side.rate_bps:
            found.append((taken, side))
    if not found:
        return ""
    taken, side = max(found, key=lambda each: each[0])
    return f'Other flows take {mbps(taken)} of the {mbps(side.rate_bps or 0.0)} of link "{side.link}", which is full'


def _plain(value: Any) -> str:
    """A value of an event for a sentence: texts without quotes, all else as TOML."""
    return value if isinstance(value, str) else literal(value)


def _of_several(found: list[Proposal]) -> list[Proposal]:
    """Remedies at single links; if several links need one, also the first remedies of all these links together."""
    firsts: dict[str, Proposal] = {}
    for each in found:
        firsts.setdefault(each.subject, each)
    if len(firsts) < 2:  # noqa: PLR2004  a single link
        return found
    settings = [setting for each in firsts.values() for setting in each.settings]
    causes = ". ".join(each.cause for each in firsts.values())
    # The rates that the remedies add do not depend on each other.
    more = sum(each.evidence / max(1e-9, 1.0 - each.evidence) for each in firsts.values())
    evidence = more / (1.0 + more)
    return [*found, Proposal(", ".join(firsts), tuple(dict.fromkeys(settings)), causes, evidence)]


def _of_link(side: Side, key: str, value: Any, cause: str, evidence: float, *, kept: Side | None = None) -> Proposal:
    """A remedy at one direction of a link; the direction `kept` keeps its value of the key."""
    settings = [] if kept is None else [setting(f"{kept.key}{key}", kept.values[key])]
    settings.append(setting(f"{side.key}{key}", value))
    return Proposal(side.link, tuple(settings), cause, evidence)
