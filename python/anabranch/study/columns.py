"""Collects rows of result documents as columns: some thousands of rows in memory, more on disk.

A document's tables have few shapes: which keys they have and where tables lie within tables. The names of columns are
made once for each shape, and a row then costs a walk through its values.
"""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, cast

import polars as pl

from anabranch.results import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Schema = Mapping[str, pl.DataType]
    """The type of each column, in their order."""


class _Shape:
    """Rows that have the same columns."""

    def __init__(self, names: Sequence[str]) -> None:
        self.width = len(names)
        self.places = {name: place for place, name in enumerate(names)}
        """Index of a column's value within a row, by the name of the column."""
        self.numbers: list[int] = []
        """The number of each row among all rows."""
        self.values: list[Any] = []
        """The values of all rows, one row after the other; a list for each would be a lot of objects."""


class Columns:
    """Rows made of tables, as a frame of a given schema; a column that a row lacks is null there."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._shapes: dict[tuple[Any, ...], _Shape] = {}
        self._height = 0

    def add(self, *parts: tuple[str, Mapping[str, Any]]) -> None:
        """Add a row of several tables, each with a prefix for its keys, flattened as `anabranch.results.flatten` does.

        Of columns with the same name the last one counts.
        """
        keys: list[Any] = []
        values: list[Any] = []
        for prefix, table in parts:
            keys.append(prefix)
            _walk(table, keys, values)
        shape = self._shapes.get(tuple(keys))
        if shape is None:
            names = [name for prefix, table in parts for name in _names(table, prefix)]
            shape = self._shapes[tuple(keys)] = _Shape(names)
        shape.numbers.append(self._height)
        shape.values += values
        self._height += 1

    def frame(self) -> pl.DataFrame:
        """All rows in the order in which they were added, with all columns of the schema."""
        found: dict[str, Any] = {}
        for shape in self._shapes.values():
            for name, place in shape.places.items():
                values = shape.values[place :: shape.width]
                if len(self._shapes) == 1:
                    found[name] = values
                    continue
                column = found.setdefault(name, [None] * self._height)
                for number, value in zip(shape.numbers, values, strict=True):
                    column[number] = value
        if unknown := found.keys() - self._schema.keys():
            raise KeyError(f"columns outside the schema: {', '.join(sorted(unknown))}")
        empty = [None] * self._height
        return pl.DataFrame(
            [pl.Series(name, found.get(name, empty), kind, strict=False) for name, kind in self._schema.items()]
        )


def _walk(table: Mapping[str, Any], keys: list[Any], values: list[Any]) -> None:
    """Collect the values of a table and of the tables within it, and the keys that make its shape."""
    keys.append(tuple(table))
    for key, value in table.items():
        if isinstance(value, dict):
            keys.append(key)
            _walk(value, keys, values)
        else:
            values.append(value)
    keys.append(None)


def _names(table: Mapping[str, Any], prefix: str) -> list[str]:
    """Names of columns for the values of a table, one for each, in their order."""
    names: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            names += _names(value, f"{prefix}{key}_")
        else:
            names += flatten({key: None}, prefix)
    return names


class Parts:
    """Frames of one schema that are to be one file; of more than one, none is kept in memory."""

    def __init__(self, folder: Path, name: str, schema: Schema) -> None:
        """Store the folder and the name for frames that are not kept in memory."""
        self._folder = folder
        self._name = name
        self._schema = schema
        self._only: pl.DataFrame | None = None
        self._files: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add a frame."""
        if self._only is None and not self._files:
            self._only = frame
            return
        if self._only is not None:
            self._put(self._only)
            self._only = None
        self._put(frame)

    def _put(self, frame: pl.DataFrame) -> None:
        content = io.BytesIO()
        frame.write_parquet(content, compression="lz4")
        file = self._folder / f"{self._name}-{len(self._files)}.parquet"
        file.write_bytes(content.getbuffer())
        self._files.append(file)

    def write(self, target: Path) -> None:
        """Write all frames into a Parquet file, one below the other.

        Raises:
            OSError: If the file cannot be written.

        """
        with target.open("wb") as file:
            if not self._files:
                # Polars writes into memory and this code to disk, so that a full disk is an OSError.
                content = io.BytesIO()
                (pl.DataFrame(schema=self._schema) if self._only is None else self._only).write_parquet(content)
                file.write(content.getbuffer())
                return
            sink = _Sink(file)
            frames = [pl.scan_parquet(part) for part in self._files]
            try:
                pl.concat(frames).sink_parquet(cast("IO[bytes]", sink))
            except pl.exceptions.PolarsError:
                # The exception of Polars hides the error of the system.
                if sink.error is not None:
                    raise sink.error from None
                raise


class _Sink(io.RawIOBase):
    """A file that keeps its last error."""

    def __init__(self, file: io.BufferedWriter) -> None:
        super().__init__()
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            self.error = error
            raise
