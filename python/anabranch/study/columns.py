"""Columns of tables from parts of result documents, and tables that are written in several frames.

Polars makes a list with tables value by value in Python. Here the keys and values of all rows become two columns,
which are then cut into lists.
"""

from __future__ import annotations

import io
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from anabranch.study.layout import parts
from anabranch.study.transposed import FixedTables, is_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Sized
    from pathlib import Path

    from anabranch.study.transposed import Transposed

    Schema = Mapping[str, pl.DataType]
    """The type of each column, in their order."""


def series(rows: Transposed, prefix: str, schema: Schema) -> Iterator[pl.Series]:
    """The columns of some parts, as far as a schema has them; nested parts are flattened.

    Args:
        rows: The parts.
        prefix: Prefix of the names of columns.
        schema: Types of columns by name.

    """
    for key in rows.keys:
        name = f"{prefix}{key.name}"
        if key.type in parts():
            yield from series(rows.nested(key), f"{name}_", schema)
        elif (kind := schema.get(name)) is not None:
            if is_table(key.type):
                yield table_series(name, rows.tables(key.name), kind)
            else:
                yield _series(name, rows.column(key.name), kind)


def _series(name: str, values: Sequence[Any], kind: pl.DataType) -> pl.Series:
    if isinstance(kind, pl.List):
        return _cut(name, values, pl.Series([*chain.from_iterable(filter(None, values))], dtype=kind.inner), kind)
    return pl.Series(name, values, kind, strict=False)


def table_series(name: str, tables: Sequence[Mapping[str, Any] | None] | FixedTables, kind: pl.DataType) -> pl.Series:
    """A column of tables, as lists of keys and values; `None` is null.

    Args:
        name: Name of the column.
        tables: The tables.
        kind: Type of the column: lists of structures of key and value.

    """
    key, value = kind.inner.fields  # type: ignore[attr-defined]
    if isinstance(tables, FixedTables):
        count = len(tables.keys)
        keys = pl.Series(key.name, tables.keys, key.dtype).gather(np.tile(np.arange(count), len(tables.rows)))
        values = pl.Series(value.name, [*chain.from_iterable(tables.rows)], value.dtype, strict=False)
        return pl.DataFrame([keys, values]).to_struct(name).reshape((-1, count)).arr.to_list().cast(kind)
    filled = [table for table in tables if table]
    entries = pl.DataFrame([
        pl.Series(key.name, [*chain.from_iterable(filled)], key.dtype),
        pl.Series(value.name, [*chain.from_iterable(table.values() for table in filled)], value.dtype, strict=False),
    ])  # fmt: skip
    return _cut(name, tables, entries.to_struct(), kind)


def _cut(name: str, sized: Sequence[Sized | None], entries: pl.Series, kind: pl.DataType) -> pl.Series:
    """A column of lists: `entries` cut to the sizes of the values of a sequence; `None` is null."""
    lengths = np.array([-1 if each is None else len(each) for each in sized], dtype=np.int64)
    begins = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    found, rows = [], []
    for length in np.unique(lengths).tolist():
        (alike,) = np.nonzero(lengths == length)
        rows.append(alike)
        if length > 0:
            places = (begins[alike][:, np.newaxis] + np.arange(length)).reshape(-1)
            own = entries if len(alike) == len(sized) else entries.gather(places)
            found.append(own.reshape((-1, length)).arr.to_list())
        else:
            found.append(pl.Series([None if length < 0 else []], dtype=kind).new_from_index(0, len(alike)))
    if not found:
        return pl.Series(name, [], kind)
    lists = pl.concat([each.cast(kind) for each in found])
    return (lists if len(found) == 1 else lists.gather(np.argsort(np.concatenate(rows)))).alias(name)


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
        frame.write_ipc(content, compression="lz4")
        file = self._folder / f"{self._name}-{len(self._files)}.arrow"
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
            frames = [pl.scan_ipc(part) for part in self._files]
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
