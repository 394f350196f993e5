"""Parts of many result documents as columns: one array of values per key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.study.layout import inner, parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from anabranch import _native
    from anabranch.study.layout import Key

    Values = NDArray[np.float64]
    Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Texts, of which most occur often."""

    distinct: Sequence[str | None]
    codes: NDArray[np.integer[Any]]
    """For each row the index of its text."""

    def by(self, other: Texts) -> Texts:
        """The texts of both, joined by a slash."""
        pairs = self.codes.astype(np.int64) * len(other.distinct) + other.codes
        found, codes = np.unique(pairs, return_inverse=True)
        places = (divmod(pair, len(other.distinct)) for pair in found.tolist())
        return Texts([f"{self.distinct[own]}/{other.distinct[theirs]}" for own, theirs in places], codes)

    def at(self, rows: Numbers) -> Texts:
        """The texts of some rows."""
        return Texts(self.distinct, self.codes[rows])


def is_table(kind: str) -> bool:
    """Whether values of a type in Rust are tables with keys of their own, such as counters."""
    return kind.startswith("BTreeMap<")


def is_absent(column: _native.Column) -> NDArray[np.bool_]:
    """Whether a row has no value."""
    found = np.zeros(column.rows, dtype=bool)
    found[np.frombuffer(column.absent, np.uint64)] = True
    return found


def whole_numbers(column: _native.Column) -> NDArray[np.uint64]:
    """Values of whole numbers; 0 where a row has none."""
    return np.frombuffer(column.values, np.uint64)


def floats(kind: str, column: _native.Column) -> Values:
    """Values of numbers; NaN where a row has none.

    Args:
        kind: Type of the values in Rust.
        column: The column.

    """
    values = np.frombuffer(column.values, np.float64 if kind == "f64" else np.uint64).astype(np.float64)
    if column.absent:
        values[np.frombuffer(column.absent, np.uint64)] = math.nan
    return values


def texts_of(column: _native.Column) -> Texts:
    """Values that are texts; `None` where a row has none."""
    codes = np.frombuffer(column.values, np.uint32)
    if not column.absent:
        return Texts(column.texts, codes)
    return Texts([*column.texts, None], np.where(is_absent(column), np.uint32(len(column.texts)), codes))


def ends_of(column: _native.Column) -> Numbers:
    """For each row the end of its list or table in the items."""
    return np.frombuffer(column.values, np.int64)


def sizes_of(column: _native.Column) -> Numbers:
    """Number of items of each list or entries of each table."""
    return np.diff(ends_of(column), prepend=0)


class Tables:
    """The tables of a key, one in each row."""

    def __init__(self, kind: str, column: _native.Column) -> None:
        """Take the column of values of a type in Rust."""
        assert column.keys is not None
        assert column.items is not None
        self.kind = inner(kind, "BTreeMap").partition(",")[2]
        """The type of the values in Rust."""
        self.keys = texts_of(column.keys)
        self.values = column.items
        self.sizes = sizes_of(column)

    @cached_property
    def _common(self) -> list[str | None]:
        """The keys that all tables have in the same order; none if some differ."""
        rows = len(self.sizes)
        width = len(self.keys.codes) // max(rows, 1)
        if not width or np.any(self.sizes != width):
            return []
        codes = self.keys.codes.reshape((rows, width))
        return [] if np.any(codes != codes[0]) else [self.keys.distinct[code] for code in codes[0].tolist()]

    @cached_property
    def _floats(self) -> Values:
        return floats(inner(self.kind, "Option") or self.kind, self.values)

    def places(self, key: str) -> tuple[Numbers, Numbers]:
        """The rows whose table has a key, and the places of their values."""
        if key in self._common:
            rows = np.arange(len(self.sizes))
            return rows, rows * len(self._common) + self._common.index(key)
        code = self.keys.distinct.index(key) if key in self.keys.distinct else -1
        (places,) = np.nonzero(self.keys.codes == code)
        return np.searchsorted(np.cumsum(self.sizes), places, side="right"), places

    def numbers(self, key: str) -> Values:
        """The values of a key; NaN where a table has none."""
        if key in self._common:
            return self._floats[self._common.index(key) :: len(self._common)]
        found = np.full(len(self.sizes), math.nan)
        rows, places = self.places(key)
        found[rows] = self._floats[places]
        return found

    def texts(self, key: str) -> Texts:
        """The values of a key that are texts; empty where a table has none."""
        own = texts_of(self.values)
        codes = np.full(len(self.sizes), len(own.distinct), dtype=np.uint32)
        rows, places = self.places(key)
        codes[rows] = own.codes[places]
        return Texts([*own.distinct, ""], codes)


class PartColumns:
    """Parts of one kind, in rows.

    A value is NaN or `None` where a row lacks its part or the part lacks the key. An absent table is empty instead.
    """

    def __init__(self, part: str, column: _native.Column) -> None:
        """Take the columns of the keys.

        Args:
            part: Name of the part, as `anabranch.study.layout.parts` has it.
            column: The parts.

        """
        self.keys = list(parts()[part].values())
        self.height = column.rows
        self._kinds = {key.name: key for key in self.keys}
        self._columns = column.parts
        self._tables: dict[str, Tables] = {}
        self._nested: dict[str, PartColumns] = {}

    def column(self, name: str) -> _native.Column:
        """The values of a key."""
        return self._columns[name]

    def texts(self, name: str) -> Texts:
        """The values of a key that are texts."""
        return texts_of(self._columns[name])

    def tables(self, name: str) -> Tables:
        """The values of a key that are tables."""
        if name not in self._tables:
            self._tables[name] = Tables(self._kinds[name].type, self._columns[name])
        return self._tables[name]

    def nested(self, key: Key) -> PartColumns:
        """The parts that are values of a key."""
        if key.name not in self._nested:
            self._nested[key.name] = PartColumns(key.type, self._columns[key.name])
        return self._nested[key.name]

    def items(self, name: str) -> PartColumns:
        """The parts in all lists of a key, one after the other."""
        if name not in self._nested:
            items = self._columns[name].items
            assert items is not None
            self._nested[name] = PartColumns(inner(self._kinds[name].type, "Vec"), items)
        return self._nested[name]

    def ends(self, name: str) -> Numbers:
        """For each row the end of its list of a key in the items."""
        return ends_of(self._columns[name])

    def owners(self, name: str) -> Numbers:
        """For each item of the lists of a key the index of its row."""
        return np.repeat(np.arange(self.height), sizes_of(self._columns[name]))

    def flags(self, field: str) -> NDArray[np.bool_]:
        """The values of a key that are true or false, false where a row has none; a dot as for numbers."""
        name, _, rest = field.partition(".")
        if rest:
            return self.nested(self._kinds[name]).flags(rest)
        return np.frombuffer(self._columns[name].values, np.bool_)

    def numbers(self, field: str) -> Values:
        """The values of a key that are numbers; a dot separates it from a key of the table or part within."""
        name, _, rest = field.partition(".")
        key = self._kinds[name]
        if not rest:
            return floats(key.type, self._columns[name])
        return self.tables(name).numbers(rest) if is_table(key.type) else self.nested(key).numbers(rest)
