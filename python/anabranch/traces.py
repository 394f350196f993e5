"""The traces of a run as polars frames."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.extras import require

if TYPE_CHECKING:
    import polars as pl


Window = tuple[float, float]
"""Begin and end in seconds; (0, 0) stands for a whole run."""


def span_of(window: Window, duration_s: float) -> Window:
    """The part of a window that is within a run.

    Args:
        window: Begin and end in seconds; (0, 0) for the whole run.
        duration_s: Duration of the run.

    Raises:
        InputError: If the window is not valid or begins after the end of the run.

    """
    numbers = [float(s) for s in window if isinstance(s, int | float) and not isinstance(s, bool)]
    if len(window) != 2 or len(numbers) != 2 or not all(map(math.isfinite, numbers)):  # noqa: PLR2004
        raise InputError(f"a window has to be two times in seconds, from when to when, not {window!r}")
    start, end = numbers
    if (start, end) == (0.0, 0.0):
        return (0.0, duration_s)
    if not 0.0 <= start < end:
        raise InputError(f"a window has to begin at 0 s or later and end after that, but is {start:g} s to {end:g} s")
    if start >= duration_s:
        raise InputError(f"the window begins at {start:g} s, but the run ends at {duration_s:g} s")
    return (start, min(end, duration_s))


class Traces:
    """Traces of a run over time, read from its folder; docs/reference/results.md lists the columns.

    A row of `paths`, `buffers` or `queues` is written when a value has changed. `decisions` has one row per decision of
    a scheduler.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Traces({str(self.folder)!r})"

    @cached_property
    def paths(self) -> pl.DataFrame:
        """Windows, thresholds, round-trip times and bytes in flight, by flow and path."""
        return self._read("paths.csv")

    @property
    def has_buffers(self) -> bool:
        """Whether the traces include buffers; those of the kernel's world do not."""
        return (self.folder / "buffers.csv").exists()

    @cached_property
    def buffers(self) -> pl.DataFrame:
        """Send, receive and reordering buffers, by flow."""
        return self._read("buffers.csv")

    @cached_property
    def queues(self) -> pl.DataFrame:
        """Lengths of the queues, by link and direction."""
        return self._read("queues.csv")

    @cached_property
    def decisions(self) -> pl.DataFrame:
        """Schedulers' decisions: data, path and reason, or the reason for which data had to wait."""
        return self._read("decisions.csv")

    @property
    def has_transfers(self) -> bool:
        """Whether the traces include reads and writes; those of the kernel's world do not."""
        return (self.folder / "transfers.csv").exists()

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """Writes and reads of the applications, by flow and direction."""
        return self._read("transfers.csv")

    def _read(self, name: str) -> pl.DataFrame:
        require("frames", "a frame of traces")
        import polars as pl

        try:
            # The first rows of a column may be empty: infer its type from all rows.
            return pl.read_csv(self.folder / name, infer_schema_length=None)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", str(self.folder / name)) from None
