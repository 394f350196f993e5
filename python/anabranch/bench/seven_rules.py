"""Baseline: seven rules of a tool for single-path TCP, which vote for each round trip of each path.

The rules get the exact windows, bytes in flight and round-trip times of the traces of a run, which is more than such a
tool sees in packets. A round trip has one vote: that of the first rule that applies to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch._core.document import Document

KINDS: dict[str, tuple[str, ...]] = {
    "slow-start": ("slow-start",),
    "receiver": ("receive-buffer", "buffers"),
    "application": ("application",),
    "sender": ("send-buffer", "buffers"),
    "bandwidth": (),
    "congestion": ("random-loss", "control", "queue-too-short", "bufferbloat", "coupling"),
}
"""The kinds of remedies that count as right, by the cause that the rules name, in their order; a cause without kinds
means that the capacity is used."""
NO_RULE = "none"
_COLUMNS = {
    "paths": ("cwnd_bytes", "ssthresh_bytes", "srtt_us", "outstanding_bytes"),
    "buffers": ("peer_window_bytes",),
    "decisions": ("length_bytes",),
}
"""The columns with numbers of each trace; one without any value is read as text."""
_MIN_TRIP_S = 1e-3
_MIN_GROWTH = 1.5
"""Growth of the bytes in flight in a round trip from which on the path is in slow start."""
_MIN_WINDOW_SHARE = 0.9
"""Bytes in flight as a share of the receive window from which on the receiver limits."""
_MIN_PRODUCT_SHARE = 0.8
"""Bytes in flight as a share of the bandwidth-delay product below which the sender's host limits."""
_MIN_RATE_SHARE = 0.8
"""Delivery rate as a share of its maximum from which on the bandwidth limits."""
_FASTEST_QUANTILE = 0.9
_MAX_RTT_RATIO = 1.2
"""Round-trip time in multiples of its minimum from which on there is congestion."""


@dataclass(frozen=True)
class _Course:
    """A column of a trace: values with their times; each holds until the next one."""

    times_s: Sequence[float]
    values: Sequence[Any]

    def at(self, time_s: float) -> Any:
        """The value at a time; the first one before it."""
        return self.values[max(0, bisect_right(self.times_s, time_s) - 1)]


@dataclass(frozen=True)
class _Trip:
    """A round trip of a path with data in flight."""

    begin_s: float
    lasts_s: float
    before_bytes: int
    """Bytes in flight at the start."""
    after_bytes: int
    """Bytes in flight at the end."""
    rate: float
    """Bytes that left the flight, per second."""
    shortest: int | None
    """Smallest payload that was sent."""


@dataclass(frozen=True)
class _PathCourse:
    """The states of a path, and the lengths of the data packets that were sent on it."""

    states: _Course
    """Rows of the trace of paths."""
    lengths: _Course

    def trips(self) -> Iterator[_Trip]:
        """The round trips with data in flight."""
        known = [time_s for time_s, row in zip(self.states.times_s, self.states.values, strict=True) if row["srtt_us"]]
        time_s = known[0] if known else 0.0
        while known and time_s <= known[-1]:
            row = self.states.at(time_s)
            # A path that opens again has no time before its first sample.
            end_s = time_s + max(_MIN_TRIP_S, 1e-6 * (row["srtt_us"] or 0))
            first, last = (bisect_right(self.lengths.times_s, each) for each in (time_s, end_s))
            sent = self.lengths.values[first:last]
            before, after = row["outstanding_bytes"], self.states.at(end_s)["outstanding_bytes"] or 0
            if before:
                rate = max(0.0, before + sum(sent) - after) / (end_s - time_s)
                yield _Trip(time_s, end_s - time_s, before, after, rate, min(sent, default=None))
            time_s = end_s


def votes(traces: Path, document: Document) -> dict[str, int]:
    """Count the round trips of the first flow by the cause that the rules name.

    Args:
        traces: Folder with the traces of the run.
        document: Its result.

    """
    import polars as pl

    flow = document["flows"][0]["name"]
    states, buffers, sent = (
        pl.read_csv(traces / f"{name}.csv", infer_schema_length=None)
        .filter(pl.col("flow") == flow)
        .with_columns(pl.col(columns).cast(pl.Int64))
        for name, columns in _COLUMNS.items()
    )
    sent = sent.filter(pl.col("path").is_not_null() & (pl.col("length_bytes") > 0))
    windows = _Course(buffers["time_s"].to_list(), buffers["peer_window_bytes"].to_list())
    paths = []
    for name in states["path"].unique(maintain_order=True):
        own, packets = states.filter(pl.col("path") == name), sent.filter(pl.col("path") == name)
        lengths = _Course(packets["time_s"].to_list(), packets["length_bytes"].to_list())
        paths.append(_PathCourse(_Course(own["time_s"].to_list(), own.to_dicts()), lengths))
    longest = max((length for path in paths for length in path.lengths.values), default=0)
    found: Counter[str] = Counter()
    for path in paths:
        found.update(_of_path(path, paths, windows, longest))
    return dict(found)


def _of_path(path: _PathCourse, paths: Sequence[_PathCourse], windows: _Course, longest: int) -> Iterator[str]:
    """The vote of each round trip of a path."""
    trips = list(path.trips())
    shortest_s = min((trip.lasts_s for trip in trips), default=0.0)
    # The largest rate of all would be that of a burst between two samples of the trace.
    rates = sorted(trip.rate for trip in trips)
    fastest = rates[int(_FASTEST_QUANTILE * len(rates))] if rates else 0.0
    for trip in trips:
        in_flight = sum(each.states.at(trip.begin_s)["outstanding_bytes"] or 0 for each in paths)
        if trip.after_bytes >= _MIN_GROWTH * trip.before_bytes:
            yield "slow-start"
        elif in_flight > _MIN_WINDOW_SHARE * (windows.at(trip.begin_s) or 0):
            yield "receiver"
        elif trip.shortest is not None and trip.shortest < longest:
            yield "application"
        elif trip.before_bytes < _MIN_PRODUCT_SHARE * fastest * shortest_s:
            yield "sender"
        elif trip.rate >= _MIN_RATE_SHARE * fastest:
            yield "bandwidth"
        elif trip.lasts_s > _MAX_RTT_RATIO * shortest_s:
            yield "congestion"
        else:
            yield NO_RULE


def named(counted: Mapping[str, int]) -> str:
    """The cause with the most votes; of equal ones the earlier rule's."""
    return max((*KINDS, NO_RULE), key=lambda cause: counted.get(cause, 0))
