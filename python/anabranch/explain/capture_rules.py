"""Rules that name the causes of a slow connection in a capture. Each is a function; `RULES` lists them.

A finding is measured if packets show the time or bytes that it costs, and inferred otherwise. Its confidence estimates
this share, so that findings can be ranked. Nothing is verified: a capture cannot be run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.explain.observed import MULTIPATH, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.explain.observed import Observed, Part

MAX_FINDINGS = 3
_MIN_CONFIDENCE = 0.1
_FEW_ROUND_TRIPS = 12
_SMALL_SEGMENT = 700
_STANDING_QUEUE = 4.0
"""Mean round-trip time over the smallest one, from which a queue holds the path up."""
_SHORT_QUEUE = 1.5
"""The same, below which losses are not due to a full queue of a round trip or more."""
_DELAYED_ACK_S = 0.045
"""Time by which delayed acknowledgements lengthen round trips."""
_FEW_SEGMENTS = 4
"""Mean number of segments in flight, below which many wait for a delayed acknowledgement."""
_MIN_LOSS = 0.0015
_FLAT = 0.8
"""Mean of the bytes in flight over their maximum, from which something holds them at it."""
_UNUSED = 0.01


def findings(connection: Observed) -> tuple[Finding, ...]:
    """At most three findings, the most costly first; one of kind "capacity" or "unknown" if no rule applies."""
    if not connection.data["bytes"]:
        return (_nothing_sent(connection),)
    found = [finding for rule in RULES for finding in rule(connection)]
    by_kind: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda each: -each.confidence):
        by_kind.setdefault(finding.kind, finding)
    likely = [each for each in by_kind.values() if each.confidence >= _MIN_CONFIDENCE][:MAX_FINDINGS]
    return tuple(likely) or (_nothing_found(connection),)


def _mbps(rate_bps: float) -> str:
    return f"{rate_bps * 1e-6:.3g} Mbit/s"


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:.3g} ms"


def _kb(size: float) -> str:
    return f"{size / 1e3:,.0f} kB"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _nothing_sent(connection: Observed) -> Finding:
    opened = any(part.subflow["is_open"] for part in connection.parts)
    text = "The connection carries no data" if opened else "The connection never opens"
    reasons = connection.oddities("no-answer", "refused", "reset", "abort")
    because = f": {reasons[0]['text']}" if reasons else ""
    return Finding("handshake" if not opened else "application", "", f"{text}{because}.", "", True, 1.0)


def _nothing_found(connection: Observed) -> Finding:
    sending = _percent(connection.share(connection.data["waits"]["sending_s"]))
    text = (
        f"Nothing to mend is visible: data is in flight for {sending} of the time, and neither windows, losses nor the "
        f"application hold it up. The rate is {_mbps(connection.goodput_bps)}."
    )
    return Finding("capacity", "", text, "", False, 0.0)


def _receive_buffer(connection: Observed) -> Iterator[Finding]:
    data = connection.data
    waited, window = data["waits"]["window_s"], data["window_bytes"]
    if waited is None:
        longest = max((part.way["flight_bytes"] for part in connection.parts), default=0)
        mean = data["flight_mean_bytes"] or 0.0
        if longest and mean > _FLAT * data["flight_bytes"] and not connection.retransmitted_share:
            text = (
                f"Never more than {_kb(data['flight_bytes'])} are in flight. The scale of the receive window is "
                "unknown, so the window or the send buffer limits it."
            )
            remedy = "Enlarge the receive and send buffers (Linux: net.ipv4.tcp_rmem, net.ipv4.tcp_wmem)."
            yield Finding("receive-buffer", "", text, remedy, False, 0.5)
        return
    share = connection.share(waited)
    text = (
        f"The sender waits for the receive window during {_percent(share)} of the time; the window is at most "
        f"{_kb(window or 0)}, and up to {_kb(data['flight_bytes'])} are unacknowledged."
    )
    remedy = "Enlarge the receive buffer (Linux: net.ipv4.tcp_rmem), or let the application read faster."
    yield Finding("receive-buffer", "", text, remedy, True, share)


def _application(connection: Observed) -> Iterator[Finding]:
    share = connection.share(connection.data["waits"]["idle_s"])
    text = f"During {_percent(share)} of the time all data is acknowledged and nothing new is sent."
    yield Finding("application", "", text, "The application has to write more, or earlier.", True, share)


def _send_buffer(connection: Observed) -> Iterator[Finding]:
    data = connection.data
    mean, largest = data["flight_mean_bytes"] or 0.0, data["flight_bytes"]
    is_near_window = data["window_bytes"] is not None and largest > 0.7 * data["window_bytes"]
    if not largest or mean < _FLAT * largest or is_near_window or connection.retransmitted_share > _MIN_LOSS:
        return
    text = (
        f"The bytes in flight stay at {_kb(mean)}, with no loss and a receive window of "
        f"{_kb(data['window_bytes'] or 0)}: the send buffer or the application limits them."
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
        remedy = "Check routes, firewalls and address translators of this path."
        yield Finding("path-not-used", "", text, remedy, True, 0.45)
    unused = connection.entry["unused_addresses"]
    if len(connection.parts) == 1 and connection.protocol == "mptcp":
        known = f" although {', '.join(unused)} is advertised" if unused else ""
        text = f"The connection has a single subflow{known}."
        remedy = "Add endpoints and raise the limit of subflows (Linux: ip mptcp endpoint add, ip mptcp limits set)."
        yield Finding("path-not-used", "", text, remedy, bool(unused), 0.45)
    if connection.protocol == "sctp":
        idle = [part for part in connection.parts if not part.bytes]
        if idle and len(connection.used) == 1:
            text = f"Of {len(connection.parts)} paths of the association only one carries data: the others are standby."
            yield Finding("path-not-used", "", text, "Use concurrent multipath transfer.", False, 0.45)


def _backup(connection: Observed) -> Iterator[Finding]:
    for part in connection.parts:
        if part.subflow["is_backup"] and part.bytes <= _UNUSED * connection.data["bytes"]:
            text = f"The subflow {part.name} is a backup, and carries {_kb(part.bytes)}."
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
                f"The subflow {part.name} is silent during the last {_percent(silent)} of the time, with "
                "unacknowledged data."
            )
            yield Finding("path-down", part.name, text, "Check this path.", True, silent * part.weight)


def _timeouts(connection: Observed) -> Iterator[Finding]:
    for part in connection.used:
        share = part.waits("timeout") * part.weight
        count = part.way["timeouts"]
        if count:
            text = (
                f"The subflow {part.name} waits for {count} retransmission timeouts during "
                f"{_percent(part.waits('timeout'))} of the time."
            )
            yield Finding("timeouts", part.name, text, "Use RACK-TLP, and a smaller lowest timeout.", True, share)


def _loss(connection: Observed) -> Iterator[Finding]:
    """Losses without a long queue: a lossy link, or a queue that is too short."""
    for part in connection.used:
        has_few = (part.way["flight_mean_bytes"] or 0.0) < _FEW_SEGMENTS * part.way["longest"]
        waits_s = max((_SHORT_QUEUE - 1.0) * part.rtt_s, _DELAYED_ACK_S if has_few else 0.0)
        if part.loss < _MIN_LOSS or not part.rtt_s or part.mean_rtt_s - part.rtt_s > waits_s:
            continue
        missed = _missed(part)
        text = (
            f"The subflow {part.name} repeats {100 * part.loss:.2g} % of its bytes, although its round-trip time stays "
            f"near the smallest one ({_ms(part.mean_rtt_s)} and {_ms(part.rtt_s)}): packets are lost at random, or in "
            "a queue shorter than a round trip."
        )
        remedy = "Use a control that does not take each loss for congestion (BBR), or a longer queue."
        # Losses keep the rate low, so it is no measure of the subflow's part in the whole.
        weight = max(part.weight, 1.0 / len(connection.used))
        yield Finding("random-loss", part.name, text, remedy, False, missed * weight)


def _missed(part: Part) -> float:
    """Share of its largest rate that a subflow misses on average, at least 0.3."""
    largest = part.way["largest_rate_bps"] or 0.0
    return max(0.3, 1.0 - part.goodput_bps / largest) if largest else 0.3


def _bufferbloat(connection: Observed) -> Iterator[Finding]:
    for part in connection.used:
        is_short = part.mean_rtt_s - part.rtt_s < 2.0 * _DELAYED_ACK_S
        if not part.rtt_s or part.mean_rtt_s < _STANDING_QUEUE * part.rtt_s or is_short:
            continue
        text = (
            f"The round-trip time of the subflow {part.name} is {_ms(part.mean_rtt_s)} on average, "
            f"{part.mean_rtt_s / part.rtt_s:.1f} times the smallest ({_ms(part.rtt_s)}): a long queue is full."
        )
        remedy = "Use fq_codel or CAKE at the bottleneck, or limit its queue to about a round trip."
        several = 0.35 if len(connection.used) > 1 else 0.12
        yield Finding("bufferbloat", part.name, text, remedy, False, several)


def _reinjection(connection: Observed) -> Iterator[Finding]:
    repeated = connection.data["reinjected_bytes"] or sum(part.way["reinjected_bytes"] for part in connection.parts)
    sent = sum(part.bytes for part in connection.parts)
    share = repeated / sent if sent else 0.0
    text = f"{_percent(share)} of the sent bytes had been sent on another subflow before."
    remedy = "Enlarge the receive buffer, or use a scheduler that does not duplicate data."
    yield Finding("reinjection", "", text, remedy, True, share)


def _scheduler(connection: Observed) -> Iterator[Finding]:
    whole = connection.share(connection.data["waits"]["idle_s"])
    for part in connection.parts:
        idle = max(0.0, part.waits("idle") - whole)
        if len(connection.parts) < 2 or part.subflow["is_backup"] or not part.bytes:  # noqa: PLR2004
            continue
        text = f"The subflow {part.name} has nothing in flight during {_percent(idle)} of the time, while others send."
        remedy = "Use a scheduler that fills all subflows, and larger buffers."
        yield Finding("scheduler", part.name, text, remedy, True, idle * part.weight)


def _slow_start(connection: Observed) -> Iterator[Finding]:
    trip = min((part.rtt_s for part in connection.used if part.rtt_s), default=0.0)
    if not trip or connection.lasts_s > _FEW_ROUND_TRIPS * trip or connection.retransmitted_share > _MIN_LOSS:
        return
    text = (
        f"The transfer of {_kb(connection.data['bytes'])} lasts {connection.lasts_s / trip:.1f} round trips of "
        f"{_ms(trip)}: it ends in slow start."
    )
    remedy = "Use a larger initial window, or one connection for several transfers."
    yield Finding("slow-start", "", text, remedy, True, 0.5)


def _small_segments(connection: Observed) -> Iterator[Finding]:
    longest = max((part.way["longest"] for part in connection.parts), default=0)
    mss = min((part.way["mss"] or 0 for part in connection.used), default=0)
    if 0 < longest < _SMALL_SEGMENT:
        known = f" The other end accepts {mss} bytes." if mss else ""
        text = f"No packet has more than {longest} bytes of data.{known}"
        yield Finding("mtu", "", text, "Check the MTU of the interfaces, and path MTU discovery.", True, 0.3)


def _single_path(connection: Observed) -> Iterator[Finding]:
    if connection.protocol == "tcp" and connection.data["bytes"]:
        text = "The connection is plain TCP over a single path."
        yield Finding("path-not-used", "", text, "Use Multipath TCP (Linux: mptcpize run).", False, 0.11)


RULES: tuple[Callable[[Observed], Iterator[Finding]], ...] = (
    _receive_buffer, _application, _send_buffer, _middlebox, _path_not_used, _backup, _path_down, _timeouts, _loss,
    _bufferbloat, _reinjection, _scheduler, _slow_start, _small_segments, _single_path,
)  # fmt: skip
"""All rules; of equal confidence the earlier one ranks first."""
