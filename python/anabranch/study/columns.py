"""Columns of tables from parts of result documents, and tables that are written in several frames.

The keys and values of tables in all rows become two columns, which are then cut into lists.
"""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from anabranch.study.layout import inner, parts
from anabranch.study.part_columns import floats, is_absent, is_table, sizes_of, texts_of, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from anabranch import _native
    from anabranch.study.part_columns import Numbers, PartColumns, Tables, Texts

    Schema = Mapping[str, pl.DataType]
    """The type of each column, in their order."""

_INDEX_BYTES = 8
"""Size of the index of a row without a value."""


def series(rows: PartColumns, prefix: str, schema: Schema) -> Iterator[pl.Series]:
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
            elif isinstance(kind, pl.List):
                yield _list_series(name, key.type, rows.column(key.name), kind)
            else:
                yield value_series(name, key.type, rows.column(key.name), kind)


def value_series(name: str, kind: str, column: _native.Column, dtype: pl.DataType) -> pl.Series:
    """A column of simple values.

    Args:
        name: Name of the column.
        kind: Type of the values in Rust, without `Option`.
        column: The values.
        dtype: Type of the column.

    """
    if kind == "String":
        return text_series(name, texts_of(column))
    if len(column.absent) == column.rows * _INDEX_BYTES:
        return pl.Series(name, [None], dtype).new_from_index(0, column.rows)
    if kind == "f64":
        return pl.Series(name, floats(kind, column), dtype, nan_to_null=bool(column.absent))
    if kind == "bool":
        values, lacking = pl.Series(name, np.frombuffer(column.values, np.bool_)), is_absent(column)
    else:
        numbers, lacking = whole_numbers(column), is_absent(column)
        if dtype == pl.Int64():
            lacking |= numbers > np.iinfo(np.int64).max
            numbers = numbers.view(np.int64)
        values = pl.Series(name, numbers)
    if not np.any(lacking):
        return values
    nulls = pl.Series(name, [None], dtype).new_from_index(0, column.rows)
    return values.zip_with(pl.Series(~lacking), nulls)


def text_series(name: str, texts: Texts) -> pl.Series:
    """A column of texts."""
    return pl.Series(name, texts.distinct, pl.String)[pl.Series(texts.codes)]


def table_series(name: str, tables: Tables, dtype: pl.DataType) -> pl.Series:
    """A column of tables, as lists of keys and values; an absent table is an empty list.

    Args:
        name: Name of the column.
        tables: The tables.
        dtype: Type of the column: lists of structures of key and value.

    """
    key, value = dtype.inner.fields  # type: ignore[attr-defined]
    kind = inner(tables.kind, "Option") or tables.kind
    entries = pl.DataFrame([
        text_series(key.name, tables.keys), value_series(value.name, kind, tables.values, value.dtype)
    ])  # fmt: skip
    return _cut(name, tables.sizes, entries.to_struct(), dtype)


def _list_series(name: str, kind: str, column: _native.Column, dtype: pl.DataType) -> pl.Series:
    """A column of lists of simple values."""
    assert column.items is not None
    items = value_series(name, inner(kind, "Vec"), column.items, dtype.inner)  # type: ignore[attr-defined]
    return _cut(name, np.where(is_absent(column), -1, sizes_of(column)), items, dtype)


def _cut(name: str, sizes: Numbers, entries: pl.Series, kind: pl.DataType) -> pl.Series:
    """A column of lists: `entries` cut to some sizes; a size of -1 is null."""
    begins = np.cumsum(np.maximum(sizes, 0)) - np.maximum(sizes, 0)
    found, rows = [], []
    for size in np.unique(sizes).tolist():
        (alike,) = np.nonzero(sizes == size)
        rows.append(alike)
        if size > 0:
            places = (begins[alike][:, np.newaxis] + np.arange(size)).reshape(-1)
            own = entries if len(alike) == len(sizes) else entries[pl.Series(places, dtype=pl.UInt32)]
            found.append(own.reshape((-1, size)).cast(kind))
        else:
            found.append(pl.Series([None if size < 0 else []], dtype=kind).new_from_index(0, len(alike)))
    if not found:
        return pl.Series(name, [], kind)
    if len(found) == 1:
        return found[0].alias(name)
    return pl.concat(found)[pl.Series(np.argsort(np.concatenate(rows)), dtype=pl.UInt32)].alias(name)


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
