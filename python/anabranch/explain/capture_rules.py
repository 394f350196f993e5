"""Rules that name the causes of a slow connection in a capture. Each is a function; `RULES` lists them.

A finding is measured if packets show the time or bytes that it costs, and inferred otherwise. Its confidence estimates
this share, so that findings can be ranked. Nothing is verified: a capture cannot be run again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.explain.capture_requests import answer_bytes, waits_for_requests
from anabranch.explain.observed import DUPLICATES, MIN_LOSS, MULTIPATH, Finding
from anabranch.explain.weak_signs import WEAK_CONFIDENCE, weak_findings
from anabranch.quantities import counted, kb, mbps, ms, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.explain.observed import Observed, Part

MAX_FINDINGS = 3
_MIN_CONFIDENCE = 0.1
_MIN_SURE_CONFIDENCE = 0.45
"""Confidence of an inferred cause from which on nothing to mend is no further answer."""
_MIN_FIRM_CONFIDENCE = 0.25
"""Confidence from which on a pair of causes is named rather than nothing to mend."""
_MIN_NEAR_FULL_RATIO = 0.8
"""Ratio of the goodput to the sum of the largest rates from which on nothing to mend is a further answer."""
_LATE_DATA_WEIGHT = 0.3
"""Weight of a full receive window if a long queue makes data late: a larger window fills the queue, too."""
_LOSSY_WEIGHT = 0.3
"""Weight of a full receive window on a subflow whose losses limit it, too."""
_MIN_LIMITING_LOSS = 0.005
_MIN_NEAR_WINDOW_RATIO = 0.85
"""Ratio of the bytes in flight to the receive window from which on the window limits them."""
_MATHIS_FACTOR = 1.22
_MIN_EXCESS = 3.0
"""Ratio of the goodput to the rate that random losses permit from which on losses are not random."""
_MAX_SHORT_TRIPS = 12
_MAX_SMALL_SEGMENT_BYTES = 700
_MIN_QUEUE_RTT_RATIO = 4.0
"""Ratio of the mean to the smallest round-trip time from which on a queue delays the path."""
_MIN_LATE_DATA_RTT_RATIO = 1.75
"""The ratio if late data fill the receive window."""
_MIN_LATE_DATA_WINDOW_SHARE = 0.2
"""Share of time without room in the receive window from which on late data may fill it."""
_MIN_AMPLE_WINDOW_RATIO = 1.5
"""Ratio of the receive window to the data of the longest round trip from which on the window suffices."""
_DELAYED_ACK_S = 0.045
"""Time by which delayed acknowledgements lengthen round-trip times."""
_MIN_FLAT_RATIO = 0.9
"""Ratio of the mean to the largest number of bytes in flight from which on a limit keeps the number constant."""
_MAX_VARYING_RATIO = 0.5
"""The ratio up to which the number varies so much that no buffer is full."""
_MAX_UNUSED_SHARE = 0.02
_MIN_PACKETS_PER_ACK = 4.0
"""Data packets per acknowledgement from which on acknowledgements are lost or wait in a queue of the return path."""
_MIN_FEW_PACKETS_PER_ACK = 2.5
"""The number of packets if all subflows are late, too."""
_MIN_LATE_ACK_RTT_RATIO = 3.0
"""Ratio of the mean to the smallest round-trip time from which on acknowledgements wait on the return path."""
_MIN_ALL_LATE_RTT_RATIO = 5.0
"""The ratio from which on late subflows share their return path, if losses of whole bursts occur."""
_MIN_BURST_LOSS = 0.05
"""Share of repeated bytes from which on whole bursts are lost: rare acknowledgements release long ones."""
_MIN_REPEATED_SHARE = 0.01
"""Share of the data that arrives a second time from which on acknowledgements are late or lost."""
_MIN_REINJECTED_SHARE = 0.05
"""Share of reinjected bytes from which on a buffer limits the connection."""
_MIN_DUPLICATED_SHARE = 0.97
"""Share of a subflow's data that other subflows carry too from which on the scheduler duplicates all data."""
_MIN_EQUAL_BYTES_RATIO = 0.75
"""Ratio of the bytes of two subflows from which on both carry equal amounts."""
_MAX_SERVED_LOSS = 0.02
"""Share of repeated bytes up to which the scheduler, and not losses, can keep the rate of a subflow low."""
_MAX_SERVED_RECOVERY = 0.05
"""Share of time in recovery up to which the same holds for more repeated bytes."""
_MIN_RECOVERY_TRIPS = 8.0
"""Round trips in recovery up to which losses are those of one slow start."""
_MIN_MISSED_SHARE = 0.35
"""Missed share of the rate from which on a limit of bursts is a cause."""
_MIN_STEADY_RATE_RATIO = 0.8
"""Ratio of the goodput to the largest rate from which on the rate is constant."""
_MIN_FULL_PAYLOAD_RATIO = 0.9
"""Ratio of the mean to the largest payload below which packets are sent before they are full."""
_REINJECTION_WEIGHT = 0.6
"""Part of the reinjected share that counts: reinjections follow from full buffers more often than they cause them."""
_ASSUMED_MISSED_SHARE = 0.3
"""Estimated missed share of the rate of a subflow whose largest rate is unknown."""
_EXPLAINED_BY_FULL_LINKS = ("receive-buffer", "send-buffer", "application", "random-loss", "timeouts")
"""Kinds whose remedy gains nothing if a queue stands before each link: windows and losses then follow from it."""


def findings(connection: Observed) -> tuple[Finding, ...]:
    """At most three findings, the one that costs most first; one of kind "capacity" or "unknown" if no rule applies."""
    if not connection.data["bytes"]:
        return (_nothing_sent(connection),)
    if answer_bytes(connection):
        return waits_for_requests(connection)
    ranked = sorted((each for rule in RULES for each in rule(connection)), key=lambda each: -each.confidence)
    by_kind: dict[str, Finding] = {}
    for finding in ranked:
        by_kind.setdefault(finding.kind, finding)
    likely = [
        each for each in by_kind.values() if each.confidence >= _MIN_CONFIDENCE and not _is_excluded(connection, each)
    ]
    # The most likely of the other causes follow, in case that the evidence misleads.
    weak = [_weakened(each) for each in by_kind.values() if each.confidence >= WEAK_CONFIDENCE]
    further: dict[str, Finding] = {}
    for finding in (*weak_findings(connection), *weak):
        if all(each.kind != finding.kind for each in likely):
            further.setdefault(finding.kind, finding)
    if not likely:
        return (_nothing_found(connection), *further.values())[:MAX_FINDINGS]
    return _likely_first(connection, likely, further)


def _likely_first(
    connection: Observed, likely: Sequence[Finding], further: Mapping[str, Finding]
) -> tuple[Finding, ...]:
    """The likely causes, then a pair of them, further ones, or nothing to mend."""
    pair = _pair(likely, further)
    is_doubtful = likely[0].confidence < _MIN_FIRM_CONFIDENCE
    if _may_gain_nothing(connection, likely[0]) and (is_doubtful or not pair):
        named = [likely[0], *pair, *likely[1:], *further.values()]
        return (*named[: MAX_FINDINGS - 1], _perhaps_nothing(connection))
    return (*likely[: MAX_FINDINGS - len(pair)], *pair, *further.values())[:MAX_FINDINGS]


def _is_excluded(connection: Observed, finding: Finding) -> bool:
    """Whether a remedy gains nothing because all links are full."""
    return connection.is_full and finding.kind in _EXPLAINED_BY_FULL_LINKS


def _weakened(finding: Finding) -> Finding:
    """A finding with less confidence than any that is likely."""
    return replace(finding, confidence=min(finding.confidence, WEAK_CONFIDENCE))


def _pair(likely: Sequence[Finding], further: Mapping[str, Finding]) -> list[Finding]:
    """A small receive buffer and losses together: alone, neither remedy may help."""
    named = {each.kind: each for each in likely}
    loss, buffer = named.get("random-loss"), named.get("receive-buffer") or further.get("receive-buffer")
    if loss is None or buffer is None:
        return []
    text = f"The receive window and the losses of the subflow {loss.subject} may limit the rate together."
    confidence = min(buffer.confidence, loss.confidence)
    kind = "receive-buffer + random-loss"
    return [Finding(kind, loss.subject, text, f"{buffer.remedy} {loss.remedy}", False, confidence)]


def _may_gain_nothing(connection: Observed, first: Finding) -> bool:
    """Whether the most likely cause may cost nothing: it is uncertain, or the links are as good as full."""
    is_near_full = connection.goodput_bps >= _MIN_NEAR_FULL_RATIO * (_largest_bps(connection) or float("inf"))
    return is_near_full or connection.is_full or (first.confidence < _MIN_SURE_CONFIDENCE and not first.is_measured)


def _perhaps_nothing(connection: Observed) -> Finding:
    largest_bps = _largest_bps(connection)
    known = f", and the sum of the largest rates of the subflows is {mbps(largest_bps)}" if largest_bps else ""
    text = f"Perhaps nothing is to mend: the rate is {mbps(connection.goodput_bps)}{known}."
    return Finding("capacity" if connection.is_full else "unknown", "", text, "", False, 0.0)


def _largest_bps(connection: Observed) -> float:
    return sum(part.way["largest_rate_bps"] or 0.0 for part in connection.used)


def _nothing_sent(connection: Observed) -> Finding:
    opened = any(part.subflow["is_open"] for part in connection.parts)
    text = "The connection carries no data" if opened else "The connection never opens"
    reasons = connection.oddities("no-answer", "refused", "reset", "abort")
    because = f": {reasons[0]['text']}" if reasons else ""
    return Finding("handshake" if not opened else "application", "", f"{text}{because}.", "", True, 1.0)


def _nothing_found(connection: Observed) -> Finding:
    rate = f"The rate is {mbps(connection.goodput_bps)}."
    if connection.is_full:
        trips = ", ".join(f"{ms(part.mean_rtt_s)} against {ms(part.rtt_s)}" for part in connection.used)
        text = f"Nothing to mend: each link is full (mean round-trip time against the smallest one: {trips}). {rate}"
        window = connection.share(connection.data["waits"]["window_s"])
        if window >= _MIN_CONFIDENCE:
            text += (
                f" The receive window has no room during {percent(window)} of the time; a larger one helps only if "
                "round trips are long without a queue."
            )
        return Finding("capacity", "", text, "", False, 0.0)
    sending = percent(connection.share(connection.data["waits"]["sending_s"]))
    text = f"No rule applies, although not every link is full: data is in flight for {sending} of the time. {rate}"
    return Finding("unknown", "", text, "", False, 0.0)


def _receive_buffer(connection: Observed) -> Iterator[Finding]:
    data = connection.data
    waited, window = data["waits"]["window_s"], data["window_bytes"]
    if waited is None:
        longest = max((part.way["flight_bytes"] for part in connection.parts), default=0)
        mean = data["flight_mean_bytes"] or 0.0
        if longest and mean > _MIN_FLAT_RATIO * data["flight_bytes"] and not connection.retransmitted_share:
            text = (
                f"Never more than {kb(data['flight_bytes'])} are in flight. The scale of the receive window is "
                "unknown, so the window or the send buffer limits it."
            )
            remedy = "Enlarge the receive and send buffers (Linux: net.ipv4.tcp_rmem, net.ipv4.tcp_wmem)."
            yield Finding("receive-buffer", "", text, remedy, False, 0.5)
        return
    share = connection.share(waited)
    text = (
        f"The sender waits for the receive window during {percent(share)} of the time; the window is at most "
        f"{kb(window or 0)}, and up to {kb(data['flight_bytes'])} are unacknowledged."
    )
    remedy = "Enlarge the receive buffer (Linux: net.ipv4.tcp_rmem), or let the application read faster."
    # A larger buffer gains nothing on full links, unless duplicates fill them.
    gaining = 2.0 * connection.reinjected_share if connection.reinjected_share >= DUPLICATES else 0.0
    gaining += sum(
        max(part.weight, 1.0 / len(connection.parts)) * (_LOSSY_WEIGHT if part.loss >= _MIN_LIMITING_LOSS else 1.0)
        for part in connection.parts
        if not part.is_full
    )
    weight = _LATE_DATA_WEIGHT if _bloated(connection) else 1.0
    is_near = data["flight_bytes"] >= _MIN_NEAR_WINDOW_RATIO * (window or float("inf"))
    if is_near and (data["flight_mean_bytes"] or 0.0) >= _MIN_FLAT_RATIO * data["flight_bytes"]:
        share = max(share, 0.5)
    yield Finding("receive-buffer", "", text, remedy, True, weight * share * min(1.0, gaining))


def _application(connection: Observed) -> Iterator[Finding]:
    share = connection.share(connection.data["waits"]["idle_s"])
    text = f"During {percent(share)} of the time all data is acknowledged and nothing new is sent."
    remedy = "The application has to write more, or earlier."
    if not connection.is_beside_receiver:
        yield Finding("application", "", text, remedy, True, share)
    packets = sum(part.way["data_packets"] for part in connection.used)
    longest = max((part.way["longest"] for part in connection.used), default=0)
    mean = sum(part.bytes for part in connection.used) / max(1, packets)
    rate = connection.goodput_bps
    rates = [(rate, connection.data["largest_rate_bps"])]
    rates += [
        (part.goodput_bps, part.way["largest_rate_bps"])
        for part in sorted(connection.used, key=lambda each: -each.bytes)[:1]
    ]
    is_steady = any(mean_bps >= _MIN_STEADY_RATE_RATIO * (largest or float("inf")) for mean_bps, largest in rates)
    # With segmentation offload, packets differ in length even if the application writes enough.
    is_offloaded = any(part.way["longest"] > (part.way["mss"] or part.way["longest"]) for part in connection.used)
    is_filled = mean >= _MIN_FULL_PAYLOAD_RATIO * longest
    if is_steady and not (connection.retransmitted_share >= MIN_LOSS or is_filled or is_offloaded):
        text = (
            f"The rate is steady at {mbps(rate)} without losses, and packets leave before they are full "
            f"({mean:.0f} of {longest} bytes): the application writes at this rate."
        )
        yield Finding("application", "", text, remedy, False, 1.0)


def _is_flat(connection: Observed) -> bool:
    """Whether the bytes in flight stay at their maximum, below the receive window."""
    data = connection.data
    is_near_window = data["window_bytes"] is not None and data["flight_bytes"] > 0.7 * data["window_bytes"]
    return not is_near_window and (data["flight_mean_bytes"] or 0.0) >= _MIN_FLAT_RATIO * max(1, data["flight_bytes"])


def _has_room(connection: Observed) -> bool:
    """Whether neither the receive window nor the send buffer limits the connection."""
    return connection.share(connection.data["waits"]["window_s"]) < _MIN_CONFIDENCE and not _is_flat(connection)


def _send_buffer(connection: Observed) -> Iterator[Finding]:
    data = connection.data
    if not _is_flat(connection):
        return
    text = (
        f"The bytes in flight stay at {kb(data['flight_mean_bytes'])}, with a receive window of "
        f"{kb(data['window_bytes'] or 0)}: the send buffer or the application limits them."
    )
    remedy = "Enlarge the send buffer (Linux: net.ipv4.tcp_wmem, SO_SNDBUF)."
    yield Finding("send-buffer", "", text, remedy, False, 0.6)


def _bloated(connection: Observed) -> list[Part]:
    """The subflows with a long queue, or with one whose late data fill the receive window."""
    ratio, queued_s = _MIN_QUEUE_RTT_RATIO, 2.0 * _DELAYED_ACK_S
    if _late_data_fill_window(connection):
        ratio, queued_s = _MIN_LATE_DATA_RTT_RATIO, _DELAYED_ACK_S
    return [
        part
        for part in connection.used
        if part.rtt_s and part.mean_rtt_s >= ratio * part.rtt_s and part.mean_rtt_s - part.rtt_s >= queued_s
    ]


def _late_data_fill_window(connection: Observed) -> bool:
    """Whether the window would suffice for the rate without queues, but is full, so that data are reinjected."""
    longest_s = max((part.rtt_s for part in connection.used), default=0.0)
    needed_bytes = _MIN_AMPLE_WINDOW_RATIO * connection.goodput_bps / 8.0 * longest_s
    is_full = connection.share(connection.data["waits"]["window_s"]) >= _MIN_LATE_DATA_WINDOW_SHARE
    is_ample = (connection.data["window_bytes"] or 0.0) >= needed_bytes
    return is_full and is_ample and connection.reinjected_share >= DUPLICATES and len(connection.used) > 1


def _reinjecting_buffer(connection: Observed) -> Iterator[Finding]:
    """Data is reinjected only while a buffer is full: the send buffer, if the receive window has room."""
    share = connection.reinjected_share
    if len(connection.used) < 2 or share < _MIN_REINJECTED_SHARE or _bloated(connection):  # noqa: PLR2004
        return
    # After a timeout, data is reinjected without a full buffer.
    is_late = any(part.way["timeouts"] for part in connection.used)
    if is_late or _is_redundant(connection) or not _has_room(connection):
        return
    text = (
        f"{percent(share)} of the sent bytes were reinjected on another subflow, although the receive window has "
        "room: the send buffer is full of unacknowledged data."
    )
    remedy = "Enlarge the send buffer (Linux: net.ipv4.tcp_wmem, SO_SNDBUF)."
    yield Finding("send-buffer", "", text, remedy, False, 0.5)


def _middlebox(connection: Observed) -> Iterator[Finding]:
    for oddity in connection.oddities("fall-back", "fail"):
        text = f"Multipath TCP falls back to TCP: {oddity['text']}."
        remedy = "Check both ends for Multipath TCP, and the network for middleboxes that remove the option."
        yield Finding("middlebox", "", text, remedy, True, 0.9)


def _path_not_used(connection: Observed) -> Iterator[Finding]:
    if connection.protocol not in MULTIPATH:
        return
    for oddity in connection.oddities("no-answer", "refused"):
        text = f"A subflow never opens: {oddity['text']}."
        remedy = "Check the link, routes, firewalls and address translators of this path."
        kind = "path-down" if oddity["kind"] == "no-answer" else "path-not-used"
        yield Finding(kind, "", text, remedy, True, 0.45)
    unused = connection.entry["unused_addresses"]
    if len(connection.parts) == 1 and connection.protocol == "mptcp":
        known = f" although {', '.join(unused)} is advertised" if unused else ""
        text = f"The connection has a single subflow{known}."
        remedy = "Add endpoints and raise the limit of subflows (Linux: ip mptcp endpoint add, ip mptcp limits set)."
        yield Finding("path-not-used", "", text, remedy, bool(unused), 0.45)
        text = "A link that is down from the beginning also leaves a single subflow: a capture shows no difference."
        if unused:
            text = (
                f"No packet goes to {', '.join(unused)}, which the other end advertises: a link of this end is down, "
                "or its limit of subflows forbids one."
            )
        yield Finding("path-down", "", text, "Check that all links are up.", False, 0.46 if unused else 0.15)
    if connection.protocol == "sctp":
        idle = [part for part in connection.parts if not part.bytes]
        if idle and len(connection.used) == 1:
            text = f"Of {len(connection.parts)} paths of the association only one carries data: the others are standby."
            yield Finding("path-not-used", "", text, "Use concurrent multipath transfer.", False, 0.6)


def _backup(connection: Observed) -> Iterator[Finding]:
    for part in connection.parts:
        if part.subflow["is_backup"] and part.bytes <= _MAX_UNUSED_SHARE * connection.data["bytes"]:
            text = f"The subflow {part.name} is a backup, and carries {kb(part.bytes)}."
            remedy = "Remove the flag (Linux: ip mptcp endpoint change id N nobackup)."
            yield Finding("backup", part.name, text, remedy, True, 0.6)


def _path_down(connection: Observed) -> Iterator[Finding]:
    end = connection.data["end_s"]
    for part in connection.used:
        silent = connection.share(max(0.0, end - part.way["end_s"]))
        unanswered = part.way["acknowledged_bytes"]
        is_lost = unanswered is not None and unanswered < part.way["new_bytes"]
        if silent > _MIN_CONFIDENCE and len(connection.used) > 1 and is_lost:
            text = (
                f"The subflow {part.name} is silent during the last {percent(silent)} of the time, with "
                "unacknowledged data."
            )
            yield Finding("path-down", part.name, text, "Check this path.", True, silent * part.weight)


def _timeouts(connection: Observed) -> Iterator[Finding]:
    for part in connection.used:
        share = part.waits("timeout") * part.weight
        count = part.way["timeouts"]
        if count:
            text = (
                f"The subflow {part.name} waits for {counted(count, 'retransmission timeout')} during "
                f"{percent(part.waits('timeout'))} of the time."
            )
            yield Finding("timeouts", part.name, text, "Use RACK-TLP, and a smaller lowest timeout.", True, share)


def _loss(connection: Observed) -> Iterator[Finding]:
    """Losses at a link that is not full: a lossy link, or a queue that is too short."""
    if _sign_of_slow_way_back(connection):
        return
    for part in connection.used:
        if part.loss < MIN_LOSS or not part.rtt_s or part.is_full or _exceeds_losses(part):
            continue
        text = (
            f"The subflow {part.name} repeats {100 * part.loss:.2g} % of its bytes, although its link is mostly not "
            f"full (mean round-trip time {ms(part.mean_rtt_s)}, smallest one {ms(part.rtt_s)}): packets are lost at "
            "random, or in a queue shorter than a round trip."
        )
        remedy = "Use a control that does not take each loss for congestion (BBR), or a longer queue."
        yield Finding("random-loss", part.name, text, remedy, False, _missed(part))


def _exceeds_losses(part: Part) -> bool:
    """Whether a path of SCTP is much faster than random losses of its packets permit: a full queue lost them.

    SCTP's largest rate does not show this, since one acknowledgement covers several paths. The permitted rate is that
    of Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997).
    """
    if part.connection.protocol != "sctp":
        return False
    permitted_bps = 8.0 * _MATHIS_FACTOR * part.segment / (part.mean_rtt_s * math.sqrt(part.loss))
    return part.goodput_bps > _MIN_EXCESS * permitted_bps


def _missed(part: Part) -> float:
    """Share of its largest rate that a subflow misses on average, weighted by its part in the whole."""
    largest = part.way["largest_rate_bps"] or 0.0
    missed = max(0.0, 1.0 - part.goodput_bps / largest) if largest else _ASSUMED_MISSED_SHARE
    # A cause that keeps the rate of a subflow low also lowers its weight: assume at least an equal weight.
    return missed * max(part.weight, 1.0 / len(part.connection.used))


def _sign_of_slow_way_back(connection: Observed) -> str:
    """Beginning of a sentence if acknowledgements are late or lost; otherwise empty."""
    used = connection.used
    is_late = [part.rtt_s and part.mean_rtt_s >= _MIN_LATE_ACK_RTT_RATIO * part.rtt_s for part in used]
    if not any(is_late):
        return ""
    each = sum(part.way["data_packets"] for part in used) / max(1, sum(part.back["packets"] for part in used))
    if each >= _MIN_PACKETS_PER_ACK:
        return f"There is one acknowledgement for {each:.1f} data packets"
    # A long queue of one link delays its subflow only.
    if not all(is_late):
        return ""
    # Data that passes the interface twice behind the lossy link had arrived the first time.
    again = sum(part.way["retransmitted_bytes"] for part in used) / sum(part.bytes for part in used)
    is_after_losses = any(part.way["lost_before_bytes"] for part in used)
    if is_after_losses and again >= _MIN_REPEATED_SHARE:
        return f"{100 * again:.2g} % of the data arrive a second time"
    # The interface of the sender shows that acknowledgements are few; others may be before the slow link.
    is_everywhere = len(used) > 1 and all(part.mean_rtt_s >= _MIN_ALL_LATE_RTT_RATIO * part.rtt_s for part in used)
    largest = max(part.loss for part in used)
    is_shown = each >= _MIN_FEW_PACKETS_PER_ACK or all(part.way["position"] != "sender" for part in used)
    if connection.protocol != "sctp" and is_everywhere and is_shown and largest >= _MIN_BURST_LOSS:
        return f"All subflows are late, and one repeats {percent(largest)} of its bytes"
    return ""


def _reverse_path(connection: Observed) -> Iterator[Finding]:
    cause = _sign_of_slow_way_back(connection)
    if not cause:
        return
    trips = ", ".join(f"{ms(part.mean_rtt_s)} instead of {ms(part.rtt_s)}" for part in connection.used)
    text = f"{cause}, and round trips take {trips}: acknowledgements wait on the return path, or are lost there."
    remedy = "Give acknowledgements priority on the return path, or raise its rate."
    yield Finding("reverse-path", "", text, remedy, False, 0.6)


def _bufferbloat(connection: Observed) -> Iterator[Finding]:
    if _sign_of_slow_way_back(connection):
        return
    for part in _bloated(connection):
        text = (
            f"The round-trip time of the subflow {part.name} is {ms(part.mean_rtt_s)} on average, "
            f"{part.mean_rtt_s / part.rtt_s:.1f} times the smallest ({ms(part.rtt_s)}): a long queue is full."
        )
        remedy = "Use fq_codel or CAKE at the bottleneck, or limit its queue to about a round trip."
        if len(connection.used) == 1:
            yield Finding("bufferbloat", part.name, text, remedy, False, 0.12)
            continue
        yield Finding("bufferbloat", part.name, text, remedy, False, 0.35)
        # The sender can choose another congestion control, but cannot change every queue.
        text = (
            f"The congestion control fills the queue of the subflow {part.name} (round-trip time "
            f"{ms(part.mean_rtt_s)} on average), and its late data delay the others."
        )
        yield Finding("control", part.name, text, "Use a control that keeps queues short (BBR).", False, 0.36)
        if connection.data["flight_bytes"] >= _MIN_FLAT_RATIO * (connection.data["window_bytes"] or float("inf")):
            text = (
                f"Data that wait for the late subflow {part.name} fill the receive window: up to "
                f"{kb(connection.data['flight_bytes'])} of {kb(connection.data['window_bytes'])}."
            )
            remedy = "Use a scheduler that avoids subflows whose data would arrive late."
            yield Finding("scheduler", part.name, text, remedy, False, 0.34)


def _is_redundant(connection: Observed) -> bool:
    """Whether other subflows carry all data of a subflow, too, and no full buffer is the reason."""
    repeated = connection.reinjected_share * sum(part.bytes for part in connection.parts)
    least = min((part.way["new_bytes"] for part in connection.used), default=0)
    is_all = len(connection.used) > 1 and repeated >= _MIN_DUPLICATED_SHARE * least
    mean, largest = connection.data["flight_mean_bytes"] or 0.0, connection.data["flight_bytes"]
    return is_all and (all(part.is_full for part in connection.used) or mean <= _MAX_VARYING_RATIO * largest)


def _reinjection(connection: Observed) -> Iterator[Finding]:
    share = connection.reinjected_share
    text = f"{percent(share)} of the sent bytes had been sent on another subflow before."
    remedy = "Enlarge the receive buffer, or use a scheduler that does not duplicate data."
    if _is_redundant(connection) and _has_room(connection):
        text = f"The scheduler duplicates all data of a subflow: {text}"
        yield Finding("scheduler", "", text, "Use a scheduler that does not duplicate data.", True, share)
    else:
        yield Finding("reinjection", "", text, remedy, True, _REINJECTION_WEIGHT * share)


def _scheduler(connection: Observed) -> Iterator[Finding]:
    whole = connection.share(connection.data["waits"]["idle_s"])
    for part in connection.parts if not connection.is_beside_receiver else ():
        idle = max(0.0, part.waits("idle") - whole)
        if len(connection.parts) < 2 or part.subflow["is_backup"] or not part.bytes:  # noqa: PLR2004
            continue
        text = f"The subflow {part.name} has nothing in flight during {percent(idle)} of the time, while others send."
        remedy = "Use a scheduler that fills all subflows, and larger buffers."
        yield Finding("scheduler", part.name, text, remedy, True, idle * part.weight)


def _equal_shares(connection: Observed) -> Iterator[Finding]:
    """A scheduler that serves the subflows in turn: the slowest one determines the rate of all."""
    if connection.protocol != "mptcp" or not _has_room(connection):
        return
    full = [part for part in connection.used if part.is_full]
    for part in connection.used:
        for slow in full:
            alike = sorted((part.way["new_bytes"], slow.way["new_bytes"]))
            # Losses throughout keep a subflow's rate low, too; those of one slow start do not.
            is_lossy = (
                part.loss >= _MAX_SERVED_LOSS
                and part.waits("recovery") >= _MAX_SERVED_RECOVERY
                and _recovery_trips(part) >= _MIN_RECOVERY_TRIPS
            )
            is_alike = alike[0] >= _MIN_EQUAL_BYTES_RATIO * alike[1]
            if part.is_full or part.way["timeouts"] or is_lossy or not is_alike:
                continue
            text = (
                f"The subflow {part.name} carries as much as {slow.name} ({kb(part.way['new_bytes'])} and "
                f"{kb(slow.way['new_bytes'])}), although only the latter fills its link: the scheduler serves them in "
                "turn."
            )
            remedy = "Use a scheduler that fills all subflows."
            yield Finding("scheduler", part.name, text, remedy, False, _missed(part))


def _recovery_trips(part: Part) -> float:
    """Time in recovery, in round trips of a subflow."""
    return float(part.way["waits"]["recovery_s"] or 0.0) / part.mean_rtt_s if part.mean_rtt_s else 0.0


def _slow_start(connection: Observed) -> Iterator[Finding]:
    trip = min((part.rtt_s for part in connection.used if part.rtt_s), default=0.0)
    if not trip or connection.lasts_s > _MAX_SHORT_TRIPS * trip:
        return
    text = (
        f"The transfer of {kb(connection.data['bytes'])} lasts {connection.lasts_s / trip:.1f} round trips of "
        f"{ms(trip)}: it ends in slow start."
    )
    remedy = "Use a larger initial window, or one connection for several transfers."
    yield Finding("slow-start", "", text, remedy, True, 0.7)


def _burst_limit(connection: Observed) -> Iterator[Finding]:
    """A path of SCTP that misses its rate without losses: the sender limits bursts, or divides its buffers."""
    if connection.protocol != "sctp" or not _has_room(connection):
        return
    for part in connection.used:
        is_held_back = _missed(part) >= _MIN_MISSED_SHARE and part.waits("idle") <= _MIN_CONFIDENCE
        if part.is_full or part.loss >= MIN_LOSS or not is_held_back:
            continue
        text = (
            f"The path {part.name} carries {mbps(part.goodput_bps)} of at most "
            f"{mbps(part.way['largest_rate_bps'] or 0.0)} without losses or a queue: the sender limits its bursts, or "
            "divides its buffers among the paths."
        )
        yield Finding("association", part.name, text, "Permit longer bursts, and larger buffers.", False, _missed(part))


def _small_segments(connection: Observed) -> Iterator[Finding]:
    longest = max((part.way["longest"] for part in connection.parts), default=0)
    mss = min((part.way["mss"] or 0 for part in connection.used), default=0)
    if 0 < longest < _MAX_SMALL_SEGMENT_BYTES:
        known = f" The other end accepts {mss} bytes." if mss else ""
        text = f"No packet has more than {longest} bytes of data.{known}"
        yield Finding("mtu", "", text, "Check the MTU of the interfaces, and path MTU discovery.", True, 0.4)


def _single_path(connection: Observed) -> Iterator[Finding]:
    if connection.protocol == "tcp" and connection.data["bytes"]:
        text = "The connection is plain TCP over a single path."
        yield Finding("path-not-used", "", text, "Use Multipath TCP (Linux: mptcpize run).", False, 0.11)


RULES: tuple[Callable[[Observed], Iterator[Finding]], ...] = (
    _receive_buffer, _application, _send_buffer, _reinjecting_buffer, _middlebox, _path_not_used, _backup, _path_down,
    _timeouts, _equal_shares, _loss, _reverse_path, _bufferbloat, _reinjection, _scheduler, _slow_start, _burst_limit,
    _small_segments, _single_path,
)  # fmt: skip
"""All rules; of equal confidence the earlier one ranks first."""
