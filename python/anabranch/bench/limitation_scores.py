"""Baseline: limitation scores (Siekkinen et al., "A root cause analysis toolkit for TCP", Computer Networks, 2008).

Each subflow that carries data is classified like a separate TCP connection, from a capture at the sender; the class
with the most bytes is the answer. The scores are those of the whole subflow, where the authors cut connections into
bulk transfers first; time without data in flight stands for the parts that the application limits.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.explain.observed import Observed, Part

KINDS: dict[str, tuple[str, ...]] = {
    "application": ("application",),
    "receiver": ("receive-buffer", "buffers"),
    "unshared bottleneck": (),
    "shared bottleneck": ("random-loss", "control", "queue-too-short", "bufferbloat", "coupling"),
    "transport": ("send-buffer", "buffers", "slow-start"),
}
"""The kinds of remedies that count as right, by class; a class without kinds means that the capacity is used."""
_MIN_IDLE_SHARE = 0.5
_MIN_WINDOW_SCORE = 0.5
"""Share of time with a full receive window from which on the receiver limits."""
_MAX_DISPERSION_SCORE = 0.2
"""1 − rate over capacity up to which the subflow has the bottleneck to itself."""
_MIN_RETRANSMISSION_SCORE = 0.01
"""Share of retransmitted bytes from which on the bottleneck is shared."""


def named(connection: Observed) -> str:
    """The class of a connection; "transport" without data."""
    found: Counter[str] = Counter({"transport": 0})
    for part in connection.used:
        found[_of_part(connection, part)] += part.bytes
    return max(found, key=lambda each: found[each])


def _of_part(connection: Observed, part: Part) -> str:
    """The class of a subflow."""
    capacity = part.way["largest_rate_bps"] or 0.0
    window = max(part.waits("window"), connection.share(connection.data["waits"]["window_s"]))
    if part.waits("idle") >= _MIN_IDLE_SHARE:
        return "application"
    if window >= _MIN_WINDOW_SCORE:
        return "receiver"
    if capacity and 1.0 - part.goodput_bps / capacity <= _MAX_DISPERSION_SCORE:
        return "unshared bottleneck"
    return "shared bottleneck" if part.loss >= _MIN_RETRANSMISSION_SCORE else "transport"
