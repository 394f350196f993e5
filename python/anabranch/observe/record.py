"""What was seen, as JSON lines: a header, and an observation a line. docs/how-to/observe.md lists the fields."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from anabranch.errors import InputError, not_written

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

FORMAT = "anabranch observe"
VERSION = 1
"""Changes when a reader of the version before would misunderstand a file."""


class Header(msgspec.Struct, tag_field="kind", tag="header", forbid_unknown_fields=True):
    """The first line of a file."""

    format: str
    version: int
    began: str
    """UTC, as ISO 8601 has it."""


class Route(msgspec.Struct, forbid_unknown_fields=True):
    """The routers on the way, by packets whose time to live ends at each."""

    by: Literal["udp", "tcp"]
    hops: list[str | None]
    """Addresses from the first router to the remote address itself if `reached`; null where nobody answered."""
    reached: bool


class RoundTrip(msgspec.Struct, forbid_unknown_fields=True):
    """Round-trip times of some probes, seconds."""

    by: Literal["icmp", "tcp-connect"]
    probes: int
    lost: int
    min_s: float
    median_s: float
    max_s: float


class Rates(msgspec.Struct, forbid_unknown_fields=True):
    """Goodput of one saturated TCP flow each way, one after the other, bit/s."""

    forward_bps: float
    """From here to there."""
    reverse_bps: float
    seconds: float
    """How long each was measured, after a start that does not count."""


class Observation(msgspec.Struct, tag_field="kind", tag="observation", forbid_unknown_fields=True):
    """What was seen of a pair of addresses once."""

    round: int
    """From 1 on; in each round all pairs are looked at."""
    at: str
    """When it began: UTC, as ISO 8601 has it."""
    interface: str
    local: str
    remote: str
    name: str
    """The remote address or name as it was asked for."""
    reachable: bool
    """Whether a probe was answered."""
    reason: str | None
    """Why not, if it was not."""
    rtt: RoundTrip | None
    route: Route | None
    route_after: Route | None
    """The route once more, after everything else."""
    route_changed: bool
    """These two differ in a hop that is known in both, or in length: what was measured between belongs to neither."""
    mtu: int | None
    """Path MTU, bytes, as the kernel knows it after probing."""
    mtu_confirmed: bool
    """Whether the remote end answered a packet of that size."""
    throughput: Rates | None
    throughput_reason: str | None
    """Why there is none, if it was asked for."""

    @property
    def pair(self) -> tuple[str, str]:
        """The two addresses."""
        return (self.local, self.remote)


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Header | Observation] = msgspec.json.Decoder(Header | Observation)


def line(record: Header | Observation) -> str:
    """A record as a line of a file."""
    return _ENCODER.encode(record).decode() + "\n"


def different(before: Route | None, after: Route | None) -> bool:
    """Whether two routes are surely not the same; a hop that nobody answered at may be any."""
    if before is None or after is None:
        return False
    if before.reached and after.reached and len(before.hops) != len(after.hops):
        return True
    pairs = zip(before.hops, after.hops, strict=False)
    return any(one is not None and other is not None and one != other for one, other in pairs)


def read(file: str) -> list[Observation]:
    """The observations of a file.

    Raises:
        InputError: If it cannot be read, or is of another format.

    """
    found, torn = _parse(file, _text(file))
    if torn:
        raise InputError("the last line is cut off; observe -o with this file goes on after the one before", file)
    return found


def _text(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", file) from None


def _parse(file: str, text: bytes) -> tuple[list[Observation], int]:
    """The observations of a text, and how many bytes at its end are a line that was not finished."""
    *lines, rest = text.split(b"\n")
    found: list[Observation] = []
    for number, content in enumerate(lines, 1):
        try:
            record = _DECODER.decode(content)
        except msgspec.MsgspecError as error:
            if number == 1:
                break
            raise InputError(f"it is no observation: {error}", file, number) from None
        if isinstance(record, Header) != (number == 1):
            raise InputError("a header is the first line, and there is one", file, number)
        if isinstance(record, Observation):
            found.append(record)
            continue
        if record.format != FORMAT:
            break
        if record.version != VERSION:
            raise InputError(f"it is of version {record.version}; this is read: {VERSION}", file, number)
    else:
        if lines:
            return found, len(rest)
    raise InputError("it is no file of anabranch observe", file)


class Journal:
    """A file that observations are added to, each of which is whole as soon as it is there."""

    def __init__(self, file: str | None, stream: TextIO, began: str) -> None:
        """Open a file, or write to a stream where none is named.

        Raises:
            InputError: If it cannot be written, another process writes it, or it holds something else.

        """
        self.seen: list[Observation] = []
        """What the file held already."""
        self.cut = 0
        """Bytes of an unfinished line that were taken off its end."""
        self._stream = stream
        self._own = False
        if file is not None:
            self._open(file)
        if file is None or not self._size:
            self._write(line(Header(FORMAT, VERSION, began)))

    def add(self, observation: Observation) -> None:
        """Add an observation."""
        self._write(line(observation))

    def close(self) -> None:
        """Nothing follows."""
        if self._own:
            self._stream.close()

    def _open(self, file: str) -> None:
        try:
            self._stream = Path(file).open("a+", encoding="utf-8")  # noqa: SIM115  it stays open
            self._own = True
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._size = os.fstat(self._stream.fileno()).st_size
            if self._size:
                self.seen, self.cut = _parse(file, Path(file).read_bytes())
                self._stream.truncate(self._size - self.cut)
        except BlockingIOError:
            raise InputError(
                "another observation writes there; wait for it to end, or name another file", file
            ) from None
        except OSError as error:
            raise not_written(f"it cannot be written: {error.strerror}", error, file) from None

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def kept(observations: Iterable[Observation]) -> list[Observation]:
    """Those during which the route did not change."""
    return [observation for observation in observations if not observation.route_changed]
