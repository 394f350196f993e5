"""Stored records as typed values, whose classes follow from the layout of results.

The decoder checks the layout while it reads. It is several times as fast as a dictionary that is checked afterwards.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import astuple

from anabranch.study.layout import NOT_STORED, ROOT, SCHEMA, inner, parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.study.layout import Key
    from anabranch.study.store import StoredRun

    FixedKeys = Mapping[tuple[str, str], tuple[str, ...]]
    """Keys of tables with the same keys in all documents, by the names of the part and of its key."""

_SIMPLE: dict[str, type] = {"f64": float, "u64": int, "u32": int, "u16": int, "String": str, "bool": bool}


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a result. Its keys are attributes and, as in a document, subscripts; an absent key is `None`."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str) -> Any:
        """The value of a key; `None` if the part does not have it."""
        return getattr(self, key, None)


class TypedRecord(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A finished run, like `anabranch.study.store.Record`."""

    key: str
    title: str
    repetition: int
    seed: int
    build: str
    host: dict[str, Any]
    document: Any
    schema: int = 1


class FixedTable(msgspec.Struct, frozen=True, gc=False):
    """A table such as counters, with a field for each of its keys."""

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys, in the order of the fields."""
        return cls.__struct_encode_fields__

    def table(self) -> dict[str, Any]:
        """The table as a dictionary."""
        return dict(zip(self.keys(), astuple(self), strict=True))


class Classes:
    """Classes of the parts of a result."""

    def __init__(self, fixed: FixedKeys) -> None:
        """Store the tables that have fixed keys; all others are dictionaries."""
        self._fixed = fixed
        self._found: dict[str, type[Part]] = {}

    def of(self, part: str) -> type[Part]:
        """The class of a part."""
        if part not in self._found:
            keys = [self._field(part, key) for key in parts()[part].values()]
            if part == ROOT:
                keys.append((NOT_STORED, Any, None))
            made = msgspec.defstruct(
                part, keys, bases=(Part,), kw_only=True, frozen=True, gc=False, forbid_unknown_fields=True
            )
            self._found[part] = cast("type[Part]", made)
        return self._found[part]

    def record(self) -> type[TypedRecord]:
        """The class of a stored record."""
        made = msgspec.defstruct(
            "StoredRecord", [("document", self.of(ROOT))], bases=(TypedRecord,), frozen=True, gc=False,
            kw_only=True, forbid_unknown_fields=True,
        )  # fmt: skip
        return cast("type[TypedRecord]", made)

    def _field(self, part: str, key: Key) -> tuple[Any, ...]:
        fixed = self._fixed.get((part, key.name))
        kind = self._type_of(key.kind) if fixed is None else self._table(part, key, fixed)
        return (key.name, kind, None) if key.may_be_absent else (key.name, kind)

    def _table(self, part: str, key: Key, fixed: tuple[str, ...]) -> Any:
        value = self._type_of(_value_kind(key))
        names = {f"field_{number}": name for number, name in enumerate(fixed)}
        made = msgspec.defstruct(
            f"{part}_{key.name}", [(name, value) for name in names], bases=(FixedTable,), rename=names, kw_only=True,
            frozen=True, gc=False, forbid_unknown_fields=True,
        )  # fmt: skip
        return made if key.type == key.kind else made | None

    def _type_of(self, kind: str) -> Any:
        """The Python type of values of a type in Rust."""
        if optional := inner(kind, "Option"):
            return self._type_of(optional) | None
        if item := _item(kind):
            return list[self._type_of(item)]  # type: ignore[misc]
        if entry := inner(kind, "BTreeMap"):
            return dict[str, self._type_of(entry.partition(",")[2])]  # type: ignore[misc]
        return _SIMPLE.get(kind) or self.of(kind)


def _item(kind: str) -> str:
    """The type of the items of a list; "" for another type."""
    return inner(kind, "Vec") or kind[1:].partition(";")[0] * kind.startswith("[")


def _value_kind(key: Key) -> str:
    """The type of the values of a table; "" for another type."""
    return inner(key.type, "BTreeMap").partition(",")[2]


@cache
def class_of(part: str) -> type[Part]:
    """The class of a part of the result, in which tables are dictionaries."""
    return Classes({}).of(part)


@cache
def _decoder() -> msgspec.json.Decoder[TypedRecord]:
    return msgspec.json.Decoder(Classes({}).record())


def read(stored: StoredRun) -> TypedRecord:
    """A stored record of the present or an earlier layout.

    Raises:
        InputError: If another process changed the file.
        UnreadableRecord: If record or document have another layout.

    """
    return _read(stored, stored.text())


def _read(stored: StoredRun, text: bytes) -> TypedRecord:
    if (record := _decoded(_decoder(), text)) is not None:
        return record
    # The slower check names the difference, and supports earlier layouts.
    checked = stored.checked()
    return msgspec.convert({**vars(checked), "schema": SCHEMA}, _decoder().type)


def _decoded(decoder: msgspec.json.Decoder[TypedRecord], text: bytes) -> TypedRecord | None:
    """A record of the present layout; `None` if it has another one."""
    try:
        record = decoder.decode(text)
    except ValueError:
        return None
    return record if record.schema == SCHEMA else None


class Reader:
    """Reads stored records of a study, most of which have tables with the same keys.

    Such tables are read into fields, which takes a fraction of the time and the memory of dictionaries. The first
    record determines the keys. If a later record has other keys in a table, this table is a dictionary from then on.
    """

    def __init__(self) -> None:
        """Read the first record into dictionaries."""
        self._fixed: FixedKeys | None = None
        self._decoder = _decoder()

    def read(self, stored: StoredRun) -> TypedRecord:
        """A stored record of the present or an earlier layout.

        Raises:
            InputError: If another process changed the file.
            UnreadableRecord: If record or document have another layout.

        """
        text = stored.text()
        record = None if self._fixed is None else _decoded(self._decoder, text)
        if record is None:
            record = _read(stored, text)
            self._learn(record.document)
        return record

    def _learn(self, document: Part) -> None:
        found: dict[tuple[str, str], set[tuple[str, ...]]] = {}
        _find_keys(ROOT, document, found)
        if self._fixed is None:
            single = {place: next(iter(keys)) for place, keys in found.items() if len(keys) == 1}
            # Documents have sorted keys; only then the order of the fields is that of all documents.
            fixed = {place: keys for place, keys in single.items() if keys and [*keys] == sorted(keys)}
        else:
            fixed = {place: keys for place, keys in self._fixed.items() if found.get(place, {keys}) == {keys}}
        if fixed != self._fixed:
            self._fixed = fixed
            self._decoder = msgspec.json.Decoder(Classes(fixed).record())


def _find_keys(name: str, part: Part, found: dict[tuple[str, str], set[tuple[str, ...]]]) -> None:
    """Add the keys of all tables with simple values in a part, by the names of the part and its key."""
    for key in parts()[name].values():
        value = part[key.name]
        if value is None:
            continue
        item = _item(key.type)
        if (inner(_value_kind(key), "Option") or _value_kind(key)) in _SIMPLE:
            found.setdefault((name, key.name), set()).add(tuple(value))
        elif key.type in parts():
            _find_keys(key.type, value, found)
        elif item in parts():
            for each in value:
                _find_keys(item, each, found)
