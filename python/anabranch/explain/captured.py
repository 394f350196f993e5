"""Connections in captures of real traffic, and the causes that slow them down, as far as packets show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _native
from anabranch._core.simulator import translated
from anabranch.errors import InputError
from anabranch.explain.capture_rules import findings
from anabranch.explain.observed import Observed
from anabranch.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl
    from matplotlib.figure import Figure

    from anabranch.explain.observed import Finding

_MAGICS = (
    b"\x0a\x0d\x0d\x0a", b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1",
    b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zX",
)  # fmt: skip
"""First bytes of captures in pcapng and pcap, and of compressed files, which the reader refuses with a remedy."""
_SUFFIXES = (".pcap", ".pcapng", ".cap")


def is_capture(file: str | Path) -> bool:
    """Whether a file is a capture by its name or its first bytes.

    Args:
        file: Path of the file.

    """
    path = Path(file)
    if path.suffix.lower() in _SUFFIXES:
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as opened:
            return opened.read(4).startswith(_MAGICS)
    except OSError:
        return False


@dataclass(frozen=True)
class Captures:
    """One or several captures that were read together."""

    document: Mapping[str, Any]
    """All connections and events of the captures; docs/reference/captures.md lists the keys."""

    @property
    def duration_s(self) -> float:
        """Time from the first to the last packet, seconds."""
        return float(self.document["duration_s"])

    @cached_property
    def connections(self) -> tuple[Observed, ...]:
        """The connections, those with the most data first."""
        return tuple(Observed(number, entry) for number, entry in enumerate(self.document["connections"], 1))

    def connection(self, number: int | None = None) -> Observed:
        """A connection by its number; by default the first with several subflows or paths, or else the first.

        Args:
            number: Number of the connection, from 1; `None` for the default.

        Raises:
            InputError: If there is no such connection.

        """
        if number is None:
            several = [each for each in self.connections if len(each.used) > 1]
            return (several or self.connections)[0]
        if not 1 <= number <= len(self.connections):
            raise InputError(f"there is no connection {number}; the captures contain {len(self.connections)}")
        return self.connections[number - 1]

    def explain(self, number: int | None = None) -> tuple[Finding, ...]:
        """The causes that slow a connection down, at most three, the most costly first.

        Args:
            number: Number of the connection, as for `connection`.

        Raises:
            InputError: If there is no such connection.

        """
        return findings(self.connection(number))

    def plot(self, file: str | Path | None = None, number: int | None = None) -> Figure:
        """Draw the sequence numbers of a connection's data over time, with one colour per subflow.

        Args:
            file: File for the figure; its ending selects PNG, SVG or PDF.
            number: Number of the connection, as for `connection`.

        Raises:
            InputError: If there is no such connection, it has no data, or the file cannot be written.
            RunFailed: If the disk is full.

        """
        require("plot", "a figure of a capture")
        import polars as pl

        from anabranch.plot import sequences, style

        chosen = self.connection(number)
        given = chosen.pieces()
        if given.is_empty():
            raise InputError(f"connection {chosen.number} carries no data to draw")
        read = pl.DataFrame(schema={"flow": pl.String, "time_s": pl.Float64, "delivered_bytes": pl.Int64})
        label = "Chunks of {} [thousands]" if chosen.protocol == "sctp" else "Data of {} [kB]"
        figure = sequences.draw(" – ".join(chosen.entry["ends"]), "page", sequences.Pieces(given, read, label))
        if file is not None:
            style.save_as(figure, Path(file))
        return figure

    def subflows(self) -> pl.DataFrame:
        """One row for each direction of each subflow or path, with the keys of `directions` in the document."""
        require("frames", "a frame of subflows")
        import polars as pl

        rows = []
        for connection in self.connections:
            for at, subflow in enumerate(connection.entry["subflows"], 1):
                for to, direction in zip(("server", "client"), subflow["directions"], strict=True):
                    rows.append({
                        "connection": connection.number, "protocol": connection.protocol, "subflow": at,
                        "client": subflow["ends"][0], "server": subflow["ends"][1], "to": to,
                        **{key: value for key, value in direction.items() if key != "waits"},
                        **direction["waits"],
                    })  # fmt: skip
        return pl.DataFrame(rows, infer_schema_length=None)


def read_captures(
    files: Sequence[str | Path] | str | Path, progress: Callable[[float], None] | None = None
) -> Captures:
    """Read captures of Multipath TCP, TCP and SCTP.

    Several files are read as one: one for each interface of a host, or from the hosts at both ends, if their clocks
    agree.

    Args:
        files: Files in pcap or pcapng.
        progress: Called regularly with the share that was read, 0 to 1.

    Raises:
        InputError: If a file cannot be read or is no capture, or the files contain no packet of TCP or SCTP.

    """
    names = [files] if isinstance(files, str | Path) else list(files)
    try:
        return Captures(json.loads(_native.read_captures([str(name) for name in names], progress)))
    except _native.InputError as error:
        raise translated(error) from None
