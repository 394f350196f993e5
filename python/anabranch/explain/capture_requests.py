"""The causes of slow answers in a capture, where each request follows the last answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.explain.observed import Finding
from anabranch.quantities import kb, mbps, ms

if TYPE_CHECKING:
    from anabranch.explain.observed import Observed

_MIN_ONE_ANSWER_RATIO = 0.9
"""Ratio of the largest number of bytes in flight to an answer from which on an answer is in flight as a whole."""
_MIN_QUEUED_RTT_RATIO = 3.0
"""Ratio of the mean to the smallest round-trip time from which on answers wait in a queue."""
_MAX_ONE_ANSWER_RATIO = 2.1
"""The ratio up to which this holds: between the hosts, the acknowledgement of one answer passes after the next one."""
_MIN_REQUESTS = 5
_MAX_IDLE_BYTES_RATIO = 0.05
"""Ratio of a subflow's bytes to those of the busiest subflow below which the subflow is idle."""
_DIVIDED_ANSWERS_WEIGHT = 0.1
"""Weight of remedies that spread responses over subflows, if responses hardly wait in a queue."""


def answer_bytes(connection: Observed) -> float:
    """Bytes for each request of the other end, if the sender never has two answers in flight; otherwise 0."""
    requests = sum(part.back["data_packets"] for part in connection.parts)
    if requests < _MIN_REQUESTS or not connection.other["bytes"]:
        return 0.0
    each = float(connection.data["bytes"]) / requests
    longest = max(part.way["longest"] for part in connection.parts)
    in_flight = connection.data["flight_bytes"]
    is_one = each > longest and _MIN_ONE_ANSWER_RATIO * each <= in_flight <= _MAX_ONE_ANSWER_RATIO * each
    return each if is_one else 0.0


def waits_for_requests(connection: Observed) -> tuple[Finding, ...]:
    """The causes if round trips limit the rate; first of all, nothing to mend if answers hardly wait in a queue."""
    text = (
        f"The other end sends a request for each {kb(answer_bytes(connection))}, and the next one after the answer: "
        f"round trips limit the rate of {mbps(connection.goodput_bps)}, and no rule names a setting that helps. "
        "Larger or parallel requests would."
    )
    nothing = Finding("unknown", "", text, "", True, 0.0)
    main = max(connection.parts, key=lambda part: part.bytes)
    others = [part for part in connection.parts if part is not main and not part.subflow["is_backup"]]
    if not others or any(part.bytes > _MAX_IDLE_BYTES_RATIO * main.bytes for part in others):
        return (nothing,)
    text = (
        f"Answers of {kb(answer_bytes(connection))} wait in the queue of {main.name}, and others carry "
        f"next to nothing (round-trip time {ms(main.mean_rtt_s)} on average, {ms(main.rtt_s)} without a queue)."
    )
    is_queued = bool(main.rtt_s) and main.mean_rtt_s >= _MIN_QUEUED_RTT_RATIO * main.rtt_s
    weight = 1.0 if is_queued else _DIVIDED_ANSWERS_WEIGHT
    divided = (
        Finding("control", main.name, text, "Use a control that keeps queues short (BBR).", False, 0.3 * weight),
        Finding("scheduler", main.name, text, "Use a scheduler that splits each response.", False, 0.25 * weight),
    )
    return (*divided, nothing) if is_queued else (nothing, *divided)
