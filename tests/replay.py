"""An independent reader of captures and traces; it shares no code with their writers.

It knows pcapng, IP, UDP, TCP and SCTP from their specifications. It replays every link as a queue with one server,
from the packets that entered the link, and integrates traces as step functions.

"""

from __future__ import annotations

import csv
import ipaddress
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NANOS = 10**9


@dataclass(frozen=True)
class Packet:
    """A packet at an interface."""

    at: int
    """Nanoseconds."""
    data: bytes
    """The IP packet."""
    cause: str = ""
    """Cause of the drop, on an interface of dropped packets."""

    @property
    def ends(self) -> tuple[str, str]:
        """Source and destination as address:port."""
        source, destination = (ipaddress.ip_address(self.data[at : at + 4]) for at in (12, 16))
        ports = struct.unpack_from("!HH", self.data, 20)
        return f"{source}:{ports[0]}", f"{destination}:{ports[1]}"

    @property
    def congestion_experienced(self) -> bool:
        return self.data[1] & 3 == 3

    @property
    def of_nobody(self) -> bool:
        """Whether a host without the connection sent it: a bare RST (RFC 9293 §3.10.7.1), or SHUTDOWN COMPLETE or
        ABORT with the tag reflected (RFC 9260 §8.5.1 C, §8.4).

        """
        if self.data[9] == 6:
            return self.data[32:34] == b"\x50\x04"
        return self.data[9] == 132 and self.data[32] in (6, 14) and self.data[33] & 1 == 1

    def payload(self) -> int:
        """Bytes of application data."""
        return sum(len_ for _, len_ in self.pieces())

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Data within the packet: TCP's sequence number, or SCTP's TSN, and the length in bytes."""
        protocol, data = self.data[9], self.data[20:]
        if protocol == 17:
            yield 0, len(data) - 8
        elif protocol == 6:
            header = (data[12] >> 4) * 4
            if len(data) > header:
                yield int.from_bytes(data[4:8]), len(data) - header
        elif protocol == 132:
            at = 12
            while at + 4 <= len(data):
                kind, length = data[at], int.from_bytes(data[at + 2 : at + 4])
                before = {0: 16, 64: 20}.get(kind)
                if before is not None:
                    yield int.from_bytes(data[at + 4 : at + 8]), length - before
                at += (length + 3) // 4 * 4


def capture(file: Path, *, is_whole: bool = True) -> dict[str, list[Packet]]:
    """The packets of a pcapng file by the names of its interfaces; with `is_whole`, each one is complete."""
    data, at = file.read_bytes(), 0
    names: list[str] = []
    packets: dict[str, list[Packet]] = {}
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        block = data[at + 8 : at + length - 4]
        if kind == 1:
            options = dict(_options(block[8:]))
            names.append(options[2].decode())
            packets[names[-1]] = []
        elif kind == 6:
            interface, high, low, kept, original = struct.unpack_from("<IIIII", block)
            assert kept == original or (not is_whole and kept < original)
            options = dict(_options(block[20 + (kept + 3) // 4 * 4 :]))
            cause = options.get(1, b"").decode()
            packets[names[interface]].append(Packet(high << 32 | low, block[20 : 20 + kept], cause))
        at += length
    return packets


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


@dataclass
class Replay:
    """One direction of a link, served as a queue with one server."""

    starts: list[tuple[float, int]] = field(default_factory=list)
    """Times at which the transmission of packets began, nanoseconds, and lengths of the packets."""
    waits: list[tuple[float, float, int]] = field(default_factory=list)
    """Times of arrival and of the start of the transmission, for packets that had to wait."""
    ends: list[float] = field(default_factory=list)
    """Times at which the transmission of packets ended."""


def serve(offered: Iterable[Packet], dropped: Iterable[Packet], rate: float) -> Replay:
    """Replays the accepted packets over a link with a constant rate in bit/s."""
    refused = Counter((p.at, p.data) for p in dropped if p.cause != "loss")
    replay, free = Replay(), 0.0
    for packet in offered:
        if refused[packet.at, packet.data]:
            refused[packet.at, packet.data] -= 1
            continue
        start = max(float(packet.at), free)
        free = start + len(packet.data) * 8e9 / rate
        replay.starts.append((start, len(packet.data)))
        replay.ends.append(free)
        if start > packet.at:
            replay.waits.append((float(packet.at), start, len(packet.data)))
    return replay


def mean_max(steps: Iterable[tuple[float, float | None]], since: float, until: float) -> tuple[float, float]:
    """Mean and maximum of a step function between two times; the mean covers only the time in which it has a value."""
    rows = list(steps)
    total = span = largest = 0.0
    for (begin, value), end in zip(rows, [*(row[0] for row in rows[1:]), until], strict=True):
        length = min(end, until) - max(begin, since)
        if value is not None and length > 0.0:
            total += value * length
            span += length
            largest = max(largest, value)
    return (total / span if span else float("nan")), largest


def occupancy(waits: Iterable[tuple[float, float, int]], *, in_bytes: bool) -> list[tuple[float, float | None]]:
    """Queued packets or bytes over time, as steps; times differ if they are a picosecond apart."""
    changes: Counter[float] = Counter()
    for begin, end, length in waits:
        changes[round(begin, 3)] += length if in_bytes else 1
        changes[round(end, 3)] -= length if in_bytes else 1
    level, steps = 0.0, [(0.0, 0.0)]
    for moment in sorted(changes):
        level += changes[moment]
        steps.append((moment, level))
    return list(steps)


def quantile(weights: list[tuple[float, int]], share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    target, total = share * sum(weight for _, weight in weights), 0
    for value, weight in sorted(weights):
        total += weight
        if total >= target:
            return value
    raise ValueError("nothing was delivered")


class Traces:
    """The CSV files of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def column(self, file: str, name: str, *subject: str) -> list[tuple[float, float | None]]:
        """A column over time, from the rows with these values in the key columns."""
        keys = ("flow", "path") if file == "paths.csv" else ("flow",)
        return [
            (float(row["time_s"]), float(row[name]) if row[name] else None)
            for row in self._rows(file)
            if tuple(row[key] for key in keys) == subject
        ]

    def delays(self, flow: str, since: float, *, by_byte: bool) -> list[tuple[float, int]]:
        """Ages of the data that were read after a time, each with its weight in bytes."""
        written: list[tuple[int, int, float]] = []
        delays: list[tuple[float, int]] = []
        at = 0
        for row in self._rows("transfers.csv"):
            if row["flow"] != flow:
                continue
            begin = int(row["offset_bytes"])
            end, time = begin + int(row["length_bytes"]), float(row["time_s"])
            if row["event"] == "write":
                written.append((begin, end, time))
                continue
            first = at if by_byte else next(i for i, w in enumerate(written) if w[0] <= begin < w[1])
            for start, stop, born in written[first:]:
                share = min(end, stop) - max(begin, start)
                if share <= 0 and start >= end:
                    break
                if share > 0 and time > since:
                    delays.append((time - born, share if by_byte else 1))
            while by_byte and at < len(written) and written[at][1] <= end:
                at += 1
        return delays

    def total(self, flow: str, event: str, since: float = -1.0) -> int:
        """Number of bytes that were written or read after a time."""
        rows = (row for row in self._rows("transfers.csv") if row["flow"] == flow and row["event"] == event)
        return sum(int(row["length_bytes"]) for row in rows if float(row["time_s"]) > since)

    def _rows(self, file: str) -> list[dict[str, Any]]:
        if file not in self.__dict__:
            with (self.folder / file).open(encoding="utf-8") as text:
                self.__dict__[file] = list(csv.DictReader(text))
        rows: list[dict[str, Any]] = self.__dict__[file]
        return rows


class Received:
    """The bytes of a TCP stream that were seen, from the sequence number `first` on."""

    def __init__(self, first: int) -> None:
        self._origin = first - (1 << 31)
        self._ranges: list[tuple[int, int]] = []

    def add(self, number: int, length: int) -> int:
        """The number of new bytes from a sequence number on."""
        begin = (number - self._origin) % (1 << 32)
        end = low = high = begin + length
        low, known = begin, 0
        apart = []
        for first, last in self._ranges:
            if last < begin or first > end:
                apart.append((first, last))
            else:
                known += max(0, min(last, end) - max(first, begin))
                low, high = min(low, first), max(high, last)
        self._ranges = sorted([*apart, (low, high)])
        return length - known

    def in_order(self) -> int:
        """Contiguous bytes from the first one on."""
        first = 1 << 31
        return next((end - first for begin, end in self._ranges if begin <= first), 0)
