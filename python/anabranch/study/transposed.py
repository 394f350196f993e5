"""Parts of many result documents as columns: one sequence of values per key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from anabranch.study.layout import parts
from anabranch.study.typed import FixedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.study.layout import Key
    from anabranch.study.typed import Part

_TABLE = "BTreeMap<"


@dataclass(frozen=True)
class FixedTables:
    """Tables that all have the same keys."""

    keys: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    """Values of each table, in the order of the keys."""

    @cached_property
    def columns(self) -> dict[str, Sequence[Any]]:
        """Values by key."""
        return dict(zip(self.keys, zip(*self.rows, strict=True), strict=True))


def is_table(kind: str) -> bool:
    """Whether values of a type in Rust are tables with keys of their own, such as counters."""
    return kind.startswith(_TABLE)


class Transposed:
    """Parts of one kind, in rows; a row may lack its part.

    A value is `None` where the row lacks its part or the part lacks the key. An absent table is empty instead.
    """

    def __init__(self, part: str, rows: Sequence[Part | None]) -> None:
        """Store the columns of the keys.

        Args:
            part: Name of the part, as `anabranch.study.layout.parts` has it.
            rows: Values of its class.

        """
        self.keys = list(parts()[part].values())
        self.rows = rows
        present = [row for row in rows if row is not None]
        # A class may have more fields than the layout has keys; they are the last ones.
        columns = zip(*map(astuple, present), strict=True) if present else iter([()] * len(self.keys))
        self._columns: dict[str, Sequence[Any]] = {}
        self._fixed: dict[str, FixedTables] = {}
        for key, column in zip(self.keys, columns, strict=False):
            if is_table(key.type) and len(present) == len(rows) and (fixed := _fixed(column)) is not None:
                self._fixed[key.name] = fixed
            else:
                self._columns[key.name] = self._whole(_dictionaries(key, column), len(present))
        self._nested: dict[str, Transposed] = {}

    def _whole(self, column: Sequence[Any], present: int) -> Sequence[Any]:
        """Values of all rows from those of the rows with a part."""
        if present == len(self.rows):
            return column
        values = iter(column)
        return [None if row is None else next(values) for row in self.rows]

    def column(self, name: str) -> Sequence[Any]:
        """The values of a key."""
        return self._columns[name]

    def tables(self, name: str) -> Sequence[dict[str, Any] | None] | FixedTables:
        """The values of a key that are tables."""
        return self._fixed.get(name) or self._columns[name]

    def nested(self, key: Key) -> Transposed:
        """The parts that are values of a key."""
        if key.name not in self._nested:
            self._nested[key.name] = Transposed(key.type, self._columns[key.name])
        return self._nested[key.name]

    def values(self, field: str) -> Sequence[Any]:
        """The values of a key; a dot separates it from a key of the table or part within."""
        name, _, rest = field.partition(".")
        if not rest:
            return self._columns[name]
        key = next(key for key in self.keys if key.name == name)
        if is_table(key.type):
            tables = self.tables(name)
            if isinstance(tables, FixedTables):
                return tables.columns.get(rest) or [None] * len(self.rows)
            return [None if table is None else table.get(rest) for table in tables]
        return self.nested(key).values(rest)


def _fixed(column: Sequence[Any]) -> FixedTables | None:
    """Tables with the same keys; `None` if some are absent or have other keys."""
    (kind, *others) = set(map(type, column)) or {dict}
    if others or not issubclass(kind, FixedTable):
        return None
    return FixedTables(kind.keys(), [*map(astuple, column)])


def _dictionaries(key: Key, column: Sequence[Any]) -> Sequence[Any]:
    """Tables as dictionaries, absent ones as empty dictionaries; other values as they are."""
    if not is_table(key.type) or set(map(type, column)) <= {dict}:
        return column
    return [each.table() if isinstance(each, FixedTable) else {} if each is None else each for each in column]
