"""A connection as a capture shows it: the direction with the data, and its subflows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

MULTIPATH = ("mptcp", "sctp")
MIN_LOSS = 0.0015
"""Share of repeated bytes below which losses do not matter."""
_MIN_QUEUED_RTT_RATIO = 1.2
"""Ratio of the mean to the smallest round-trip time from which on there is a standing queue at the bottleneck."""
_MIN_QUEUED_RTT_RATIO_SCTP = 1.15
"""The ratio for SCTP, whose smallest round-trip time is that of a full data packet, not of the handshake."""
_MIN_QUEUED_SEGMENTS = 2.5
"""Minimum mean length of a standing queue, segments."""
_MAX_EMPTY_QUEUE_SHARE = 0.2
"""Ratio of the mean to the largest queueing time below which the queue is mostly empty."""
_MIN_FULL_RATE_RATIO = 0.85
"""Ratio of the goodput to the largest rate from which on a subflow is never much slower than its link."""
_MAX_WAITING_SHARE = 0.05
"""Share of time in timeouts, or without data in flight, from which on a link is not full."""
DUPLICATES = 0.15
"""Share of reinjected bytes from which on a remedy can help although all links are full."""
_MIN_SENDING_SHARE = 0.5
"""Share of time with data in flight and an open window below which a link is not full; unknown for SCTP."""
_MAX_DELAY_BESIDE_S = 1e-4
"""Smallest time from data to its acknowledgement below which the capture is from the host that receives the data."""
_MIN_SEGMENTS = 4
"""Mean number of segments in flight, below which many wait for a delayed acknowledgement."""


@dataclass(frozen=True)
class Finding:
    """A cause that packets point to."""

    kind: str
    """A kind of remedy such as "receive-buffer"; "capacity" if all links are full, "unknown" if no rule applies."""
    subject: str
    """The subflow with this cause; empty for the whole connection."""
    sentence: str
    """Cause with its numbers."""
    remedy: str
    """The change that helps; empty if there is none."""
    is_measured: bool
    """Whether packets show the cause; otherwise it is inferred."""
    confidence: float
    """Estimate of the share of time or bytes that the cause costs, 0 to 1; findings are ranked by it."""

    @property
    def basis(self) -> str:
        """The word "measured" or "inferred"."""
        return "measured" if self.is_measured else "inferred"

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "kind": self.kind, "subject": self.subject or None, "sentence": self.sentence,
            "remedy": self.remedy or None, "basis": self.basis, "confidence": round(self.confidence, 3),
        }  # fmt: skip


@dataclass(frozen=True)
class Observed:
    """A connection of a capture."""

    number: int
    """Number of the connection; number 1 has the most data."""
    entry: Mapping[str, Any]
    """The connection's part of the document."""

    @property
    def protocol(self) -> str:
        """Multipath TCP ("mptcp"), "tcp" or "sctp"."""
        return str(self.entry["protocol"])

    @cached_property
    def way(self) -> int:
        """The direction with more data: 0 from client to server, 1 back."""
        first, second = (direction["bytes"] for direction in self.entry["directions"])
        return int(second > first)

    @property
    def data(self) -> Mapping[str, Any]:
        """The direction with more data."""
        return self.entry["directions"][self.way]  # type: ignore[no-any-return]

    @property
    def lasts_s(self) -> float:
        """Time from the first to the last data in this direction, seconds."""
        start, end = self.data["start_s"], self.data["end_s"]
        return 0.0 if start is None else float(end - start)

    @property
    def goodput_bps(self) -> float:
        """Rate of the data in this direction, each byte counted once, bit/s."""
        return float(self.data["goodput_bps"] or 0.0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The subflows or paths in this direction."""
        return tuple(
            Part(self, number, subflow, subflow["directions"][self.way])
            for number, subflow in enumerate(self.entry["subflows"], 1)
        )

    @property
    def used(self) -> list[Part]:
        """The subflows or paths that carried data in this direction."""
        return [part for part in self.parts if part.bytes]

    @property
    def other(self) -> Mapping[str, Any]:
        """The direction with less data."""
        return self.entry["directions"][1 - self.way]  # type: ignore[no-any-return]

    @property
    def is_full(self) -> bool:
        """Whether all subflows that could carry data fill their links: larger buffers do not make them faster."""
        idle = self.share(self.data["waits"]["idle_s"])
        # Data that is sent twice fills links, too, and larger buffers avoid such data.
        if self.reinjected_share >= DUPLICATES:
            return False
        able = [part for part in self.parts if part.bytes or (part.is_open and not part.subflow["is_backup"])]
        return bool(able) and idle < _MAX_WAITING_SHARE and all(part.is_full for part in able)

    @property
    def is_beside_receiver(self) -> bool:
        """Whether acknowledgements of SCTP follow the data at once, so that times without data show nothing."""
        times = [part.way["rtt_min_s"] for part in self.used]
        return self.protocol == "sctp" and all(time is not None and time < _MAX_DELAY_BESIDE_S for time in times)

    @property
    def reinjected_share(self) -> float:
        """Share of the sent bytes that another subflow had carried before."""
        sent = sum(part.bytes for part in self.parts)
        subflows = sum(part.way["reinjected_bytes"] for part in self.parts)
        return float(self.data["reinjected_bytes"] or subflows) / sent if sent else 0.0

    @property
    def retransmitted_share(self) -> float:
        """Share of the sent bytes that was sent again on the same subflow."""
        sent = sum(part.bytes for part in self.parts)
        return sum(part.repeated for part in self.parts) / sent if sent else 0.0

    def share(self, time_s: float | None) -> float:
        """A time as a share of the time from the first to the last data.

        Args:
            time_s: The time in seconds; `None` counts as 0.

        """
        return min(1.0, (time_s or 0.0) / self.lasts_s) if self.lasts_s else 0.0

    def pieces(self) -> pl.DataFrame:
        """Pieces of data over time, in the form of the decisions in traces of runs; offsets of SCTP count chunks."""
        require("frames", "a frame of pieces")
        import polars as pl

        names = [part.name for part in self.parts]
        is_chunk = self.protocol == "sctp"
        rows = [
            {
                "time_s": piece["at_s"], "flow": f"connection {self.number}", "path": names[piece["subflow"]],
                "reason": "retransmission" if piece["is_repeated"] else "new-data", "offset_bytes": piece["from"],
                "length_bytes": 1 if is_chunk else piece["len"],
            }
            for piece in self.data["pieces"]
        ]  # fmt: skip
        return pl.DataFrame(rows)

    def oddities(self, *kinds: str) -> list[Mapping[str, Any]]:
        """The oddities of some kinds.

        Args:
            kinds: Names of the kinds, such as "fall-back".

        """
        return [oddity for oddity in self.entry["oddities"] if oddity["kind"] in kinds]


@dataclass(frozen=True)
class Part:
    """A subflow or path in the direction with the data."""

    connection: Observed
    number: int
    subflow: Mapping[str, Any]
    way: Mapping[str, Any]
    """The values of the subflow in this direction."""

    @property
    def name(self) -> str:
        """Addresses and ports of both ends."""
        client, server = self.subflow["ends"]
        return f"{client} – {server}"

    @property
    def bytes(self) -> int:
        """Payload, retransmissions included."""
        return int(self.way["bytes"])

    @property
    def repeated(self) -> int:
        """Payload that was lost and sent again, as far as the interface shows it."""
        return int(self.way["retransmitted_bytes"] + self.way["lost_before_bytes"])

    @property
    def loss(self) -> float:
        """Share of the payload that was sent again."""
        return self.repeated / self.bytes if self.bytes else 0.0

    @property
    def goodput_bps(self) -> float:
        """Rate of the data of the subflow, each byte counted once, bit/s."""
        return float(self.way["goodput_bps"] or 0.0)

    @property
    def rtt_s(self) -> float:
        """Smallest round-trip time, seconds; 0 if unknown."""
        return float(self.way["rtt_min_s"] or 0.0)

    @property
    def mean_rtt_s(self) -> float:
        """Mean round-trip time, seconds; 0 if unknown."""
        return float(self.way["rtt_mean_s"] or 0.0)

    @property
    def lasts_s(self) -> float:
        """Time from the first to the last packet of the subflow, seconds."""
        return float(self.way["end_s"] - self.way["start_s"]) if self.way["start_s"] is not None else 0.0

    @property
    def is_open(self) -> bool:
        """Whether packets of both sides were seen."""
        return bool(self.subflow["is_open"])

    @property
    def back(self) -> Mapping[str, Any]:
        """The values of the subflow in the other direction, with the acknowledgements."""
        return self.subflow["directions"][1 - self.connection.way]  # type: ignore[no-any-return]

    @property
    def segment(self) -> float:
        """Payload of a full segment, bytes: the largest one, but that of segmentation offload is larger."""
        longest = float(self.way["longest"])
        return max(1.0, min(longest, self.way["mss"] or longest))

    @property
    def has_few_in_flight(self) -> bool:
        """Whether few segments are in flight, so that many of them wait for a delayed acknowledgement."""
        mean = float(self.way["flight_mean_bytes"] or 0.0)
        return 0.0 < mean < _MIN_SEGMENTS * self.segment

    @property
    def is_full(self) -> bool:
        """Whether the subflow fills its link: the link has a standing queue, or the rate stays near the largest one.

        The rate alone is no evidence: a window or the application can keep it constant. A queue of several segments, or
        losses, show that the subflow reached the rate of the link.
        """
        queued_s = self.mean_rtt_s - self.rtt_s
        is_busy = (
            self.waits("sending") + self.waits("recovery") > _MIN_SENDING_SHARE or self.connection.protocol == "sctp"
        )
        is_held_up = self.waits("timeout") > _MAX_WAITING_SHARE or self.has_few_in_flight
        if not self.bytes or not self.rtt_s or not is_busy or is_held_up:
            return False
        segments = queued_s * self.goodput_bps / 8.0 / self.segment
        largest_s = (self.way["rtt_max_s"] or 0.0) - self.rtt_s
        # Acknowledgements of SCTP for one path arrive over another one, so its largest time is no measure of a queue.
        is_sctp = self.connection.protocol == "sctp"
        is_any_queue = self.loss < MIN_LOSS or queued_s >= self.rtt_s or is_sctp
        is_mostly_queued = is_any_queue or queued_s >= _MAX_EMPTY_QUEUE_SHARE * largest_s
        longer = _MIN_QUEUED_RTT_RATIO_SCTP if is_sctp else _MIN_QUEUED_RTT_RATIO
        is_standing = self.mean_rtt_s >= longer * self.rtt_s and segments >= _MIN_QUEUED_SEGMENTS
        if is_standing and is_mostly_queued:
            return True
        is_steady = self.goodput_bps >= _MIN_FULL_RATE_RATIO * (self.way["largest_rate_bps"] or float("inf"))
        is_held_back = self.connection.share(self.connection.data["waits"]["window_s"]) > _MAX_WAITING_SHARE
        is_reached = self.loss >= MIN_LOSS or (segments >= _MIN_QUEUED_SEGMENTS and not is_held_back)
        return bool(is_steady and is_reached)

    def waits(self, cause: str) -> float:
        """Time by cause as a share of the connection's time.

        Args:
            cause: Name of the cause, as in the keys of `waits` without `_s`.

        """
        return self.connection.share(self.way["waits"][f"{cause}_s"])

    @property
    def weight(self) -> float:
        """Largest rate of the subflow as a share of the sum of the largest rates of all subflows."""
        rates = [part.way["largest_rate_bps"] or 0.0 for part in self.connection.parts]
        total = sum(rates)
        return float((self.way["largest_rate_bps"] or 0.0) / total) if total else 1.0 / max(1, len(rates))
