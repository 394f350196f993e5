"""Signs of causes in a capture that are too weak to rank: they fill the answer up to three names.

A sign may contradict a likely cause: a full window names the receive buffer, even if a queue stands on every link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.explain.observed import MIN_LOSS, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.explain.observed import Observed, Part

WEAK_CONFIDENCE = 0.02
"""Confidence of all these findings."""
_MIN_WINDOW_SHARE = 0.2
"""Share of time without room in the receive window from which on a larger one may help."""
_MIN_QUEUE_RTT_RATIO = 1.75
"""Ratio of the mean to the smallest round-trip time from which on a queue may delay the data of other subflows."""
_MAX_EMPTY_RTT_RATIO = 1.25
"""The ratio up to which there is no queue."""
_MIN_REPEATED_SHARE = 0.15
"""Share of reinjected bytes from which on a buffer may be full."""
_MIN_DUPLICATED_SHARE = 0.4
"""Share of reinjected bytes from which on the scheduler may duplicate all data."""
_MIN_EQUAL_BYTES_RATIO = 0.7
"""Ratio of the bytes of two subflows from which on the scheduler may serve them in turn."""
_MAX_RATE_RATIO = 0.75
"""Ratio of the goodput to the largest rate up to which a subflow may carry more."""


def weak_findings(connection: Observed) -> list[Finding]:
    """The causes with weak signs, the most general one last."""
    return [finding for rule in _RULES for finding in rule(connection)]


def _finding(kind: str, part: Part | None, sentence: str, remedy: str) -> Finding:
    return Finding(kind, part.name if part else "", sentence, remedy, False, WEAK_CONFIDENCE)


def _may_carry_more(part: Part) -> bool:
    return part.goodput_bps <= _MAX_RATE_RATIO * (part.way["largest_rate_bps"] or 0.0)


def _waits_for_window(connection: Observed) -> bool:
    return connection.share(connection.data["waits"]["window_s"]) >= _MIN_WINDOW_SHARE


def _unlimited(connection: Observed) -> Iterator[Finding]:
    is_free = all(_is_without_queue(part) and part.loss < MIN_LOSS for part in connection.used)
    if is_free and connection.data["waits"]["window_s"] == 0.0:
        text = "There are no losses, queues or full windows: the application may limit the rate."
        yield _finding("application", None, text, "The application has to write more, or earlier.")


def _is_without_queue(part: Part) -> bool:
    return part.rtt_s > 0.0 and part.mean_rtt_s <= _MAX_EMPTY_RTT_RATIO * part.rtt_s


def _window(connection: Observed) -> Iterator[Finding]:
    if _waits_for_window(connection):
        share = connection.share(connection.data["waits"]["window_s"])
        text = f"The receive window has no room during {100 * share:.0f} % of the time, and may limit the rate."
        yield _finding("receive-buffer", None, text, "Enlarge the receive buffer (Linux: net.ipv4.tcp_rmem).")


def _late_path(connection: Observed) -> Iterator[Finding]:
    if len(connection.used) < 2 or not _waits_for_window(connection):  # noqa: PLR2004  nothing waits for another path
        return
    for part in connection.used:
        if part.rtt_s and part.mean_rtt_s >= _MIN_QUEUE_RTT_RATIO * part.rtt_s:
            text = f"A queue delays the subflow {part.name}, and data that wait for it may fill the receive window."
            yield _finding("control", part, text, "Use a control that keeps queues short (BBR).")


def _duplicates(connection: Observed) -> Iterator[Finding]:
    share = connection.reinjected_share
    text = f"{100 * share:.0f} % of the sent bytes had been sent on another subflow before"
    if share >= _MIN_DUPLICATED_SHARE:
        remedy = "Use a scheduler that does not duplicate data."
        yield _finding("scheduler", None, f"{text}: the scheduler may duplicate data.", remedy)
    if share >= _MIN_REPEATED_SHARE:
        remedy = "Enlarge the send buffer (Linux: net.ipv4.tcp_wmem, SO_SNDBUF)."
        yield _finding("send-buffer", None, f"{text}: the send buffer may be full.", remedy)


def _served_in_turn(connection: Observed) -> Iterator[Finding]:
    if connection.protocol != "mptcp":
        return
    for part in connection.used:
        for other in connection.used:
            few, many = sorted((part.way["new_bytes"], other.way["new_bytes"]))
            is_alike = part is not other and few >= _MIN_EQUAL_BYTES_RATIO * many
            if is_alike and _may_carry_more(part) and not part.way["timeouts"]:
                names = f"The subflows {part.name} and {other.name}"
                text = f"{names} carry about the same: the scheduler may serve them in turn."
                yield _finding("scheduler", part, text, "Use a scheduler that fills all subflows.")


def _losses(connection: Observed) -> Iterator[Finding]:
    for part in connection.used:
        if part.loss >= MIN_LOSS and _may_carry_more(part):
            text = f"The subflow {part.name} repeats {100 * part.loss:.2g} % of its bytes: losses may limit it."
            remedy = "Use a control that does not take each loss for congestion (BBR)."
            yield _finding("random-loss", part, text, remedy)


def _bursts(connection: Observed) -> Iterator[Finding]:
    for part in connection.used if connection.protocol == "sctp" else ():
        if part.loss < MIN_LOSS and _may_carry_more(part):
            text = f"The path {part.name} has been faster than on average, without losses: bursts may be limited."
            yield _finding("association", part, text, "Permit longer bursts, and larger buffers.")


_RULES: tuple[Callable[[Observed], Iterator[Finding]], ...] = (
    _unlimited, _window, _late_path, _duplicates, _served_in_turn, _bursts, _losses,
)  # fmt: skip
