"""Files of observations, as JSON lines: a header, then one observation per line.

docs/how-to/observe.md lists the fields.
"""

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
"""Version of the format; it changes if readers of the previous version would misread a file."""


class Header(msgspec.Struct, tag_field="kind", tag="header", forbid_unknown_fields=True):
    """The first line of a file."""

    format: str
    version: int
    began: str
    """Time of the start of the file, UTC, ISO 8601."""


class Route(msgspec.Struct, forbid_unknown_fields=True):
    """The routers on a path, from probes with increasing time to live."""

    by: Literal["udp", "tcp"]
    hops: list[str | None]
    """Addresses from the first router on, with the remote address at the end if `reached`; null without an answer."""
    reached: bool


class RoundTrip(msgspec.Struct, forbid_unknown_fields=True):
    """Round-trip times of several probes, seconds."""

    by: Literal["icmp", "tcp-connect"]
    probes: int
    lost: int
    min_s: float
    median_s: float
    max_s: float


class Rates(msgspec.Struct, forbid_unknown_fields=True):
    """Goodput of one saturated TCP flow in each direction, one after the other, bit/s."""

    forward_bps: float
    """Goodput from this machine to the remote one."""
    reverse_bps: float
    seconds: float
    """Measured duration of each flow, without its start."""


class Observation(msgspec.Struct, tag_field="kind", tag="observation", forbid_unknown_fields=True):
    """One observation of a pair of addresses."""

    round: int
    """Number of the round, from 1 on; each round observes all pairs."""
    at: str
    """Time of the start of the observation, UTC, ISO 8601."""
    interface: str
    local: str
    remote: str
    name: str
    """The remote address or name from the command line."""
    reachable: bool
    """Whether a probe had an answer."""
    reason: str | None
    """Reason for which the pair was not reachable."""
    rtt: RoundTrip | None
    route: Route | None
    route_after: Route | None
    """The route at the end of the observation."""
    route_changed: bool
    """Whether `route` and `route_after` differ in a known hop or in length, a change during the measurements."""
    mtu: int | None
    """Path MTU in the kernel after probes, bytes."""
    mtu_confirmed: bool
    """Whether the remote end answered a packet of this size."""
    throughput: Rates | None
    throughput_reason: str | None
    """Reason for which a requested throughput is missing."""

    @property
    def pair(self) -> tuple[str, str]:
        """The two addresses."""
        return (self.local, self.remote)


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Header | Observation] = msgspec.json.Decoder(Header | Observation)


def line(record: Header | Observation) -> str:
    """A record as a line of a file."""
    return _ENCODER.encode(record).decode() + "\n"


def routes_differ(before: Route | None, after: Route | None) -> bool:
    """Whether two routes differ in length or in a known hop; hops without an answer do not count."""
    if before is None or after is None:
        return False
    if before.reached and after.reached and len(before.hops) != len(after.hops):
        return True
    pairs = zip(before.hops, after.hops, strict=False)
    return any(one is not None and other is not None and one != other for one, other in pairs)


def read(file: str) -> list[Observation]:
    """Read the observations of a file.

    Raises:
        InputError: If the file cannot be read or has another format.

    """
    found, torn = _parse(file, _text(file))
    if torn:
        raise InputError("the last line is incomplete; observe -o with this file removes it and continues", file)
    return found


def _text(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", file) from None


def _parse(file: str, text: bytes) -> tuple[list[Observation], int]:
    """The observations of a text, and the number of bytes of an incomplete line at its end."""
    *lines, rest = text.split(b"\n")
    found: list[Observation] = []
    for number, content in enumerate(lines, 1):
        try:
            record = _DECODER.decode(content)
        except msgspec.MsgspecError as error:
            if number == 1:
                break
            raise InputError(f"not an observation: {error}", file, number) from None
        if isinstance(record, Header) != (number == 1):
            raise InputError("the first line must be the only header", file, number)
        if isinstance(record, Observation):
            found.append(record)
            continue
        if record.format != FORMAT:
            break
        if record.version != VERSION:
            raise InputError(
                f"version {record.version} of the format is not supported; this build reads version {VERSION}",
                file,
                number,
            )
    else:
        if lines:
            return found, len(rest)
    raise InputError("not a file of anabranch observe", file)


class Journal:
    """A file to which observations are appended; each is written at once."""

    def __init__(self, file: str | None, stream: TextIO, began: str) -> None:
        """Open a file, or use a stream.

        Args:
            file: The file; `None` to write to `stream`.
            stream: Output without a file.
            began: Start of the observations, for the header of a new file.

        Raises:
            InputError: If the file cannot be written, another process writes it, or it has another format.
            RunFailed: If the disk is full.

        """
        self.seen: list[Observation] = []
        """Observations that the file had before."""
        self.cut = 0
        """Bytes of an incomplete line that were removed from the end of the file."""
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
        """Close the file; a stream stays open."""
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
                "another observation writes this file; wait for its end, or name another file", file
            ) from None
        except OSError as error:
            raise not_written(f"it cannot be written: {error.strerror}", error, file) from None

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def with_stable_route(observations: Iterable[Observation]) -> list[Observation]:
    """The observations during which the route did not change."""
    return [observation for observation in observations if not observation.route_changed]
