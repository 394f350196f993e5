"""The traces of a run as polars frames."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    import polars as pl


class Traces:
    """Traces of a run over time, read from its folder; docs/reference/results.md lists the columns.

    Rows of `paths`, `buffers` and `queues` say what has changed since the row before; `decisions` has every decision of
    the schedulers.
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
        """Whether the run's world looks into buffers; the kernel's does not."""
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
        """What schedulers gave to which path and why, or why data had to wait."""
        return self._read("decisions.csv")

    def _read(self, name: str) -> pl.DataFrame:
        import polars as pl

        try:
            # A value that is not known at first leaves its column empty for a while: look at all rows for its type.
            return pl.read_csv(self.folder / name, infer_schema_length=None)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", str(self.folder / name)) from None
