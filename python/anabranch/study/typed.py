"""Stored records as typed values, whose classes follow from the layout of results.

The decoder checks the layout while it reads. It is several times as fast as a dictionary that is checked afterwards.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from anabranch.study.layout import NOT_STORED, ROOT, SCHEMA, inner, parts

if TYPE_CHECKING:
    from anabranch.study.store import StoredRun

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


@cache
def class_of(part: str) -> type[Part]:
    """The class of a part of the result."""
    keys = [_field(key.name, key.kind, key.may_be_absent) for key in parts()[part].values()]
    if part == ROOT:
        keys.append((NOT_STORED, Any, None))
    made = msgspec.defstruct(part, keys, bases=(Part,), kw_only=True, frozen=True, gc=False, forbid_unknown_fields=True)
    return cast("type[Part]", made)


def _field(name: str, kind: str, may_be_absent: bool) -> tuple[Any, ...]:
    return (name, _type_of(kind), None) if may_be_absent else (name, _type_of(kind))


def _type_of(kind: str) -> Any:
    """The Python type of values of a type in Rust."""
    if optional := inner(kind, "Option"):
        return _type_of(optional) | None
    if item := inner(kind, "Vec") or kind[1:].partition(";")[0] * kind.startswith("["):
        return list[_type_of(item)]  # type: ignore[misc]
    if entry := inner(kind, "BTreeMap"):
        return dict[str, _type_of(entry.partition(",")[2])]  # type: ignore[misc]
    return _SIMPLE.get(kind) or class_of(kind)


@cache
def _record_class() -> type[TypedRecord]:
    made = msgspec.defstruct(
        "StoredRecord", [("document", class_of(ROOT))], bases=(TypedRecord,), frozen=True, gc=False,
        kw_only=True, forbid_unknown_fields=True,
    )  # fmt: skip
    return cast("type[TypedRecord]", made)


@cache
def _decoder() -> msgspec.json.Decoder[TypedRecord]:
    return msgspec.json.Decoder(_record_class())


def read(stored: StoredRun) -> TypedRecord:
    """A stored record of the present or an earlier layout.

    Raises:
        InputError: If another process changed the file.
        UnreadableRecord: If record or document have another layout.

    """
    try:
        record = _decoder().decode(stored.text())
    except ValueError:
        pass
    else:
        if record.schema == SCHEMA:
            return record
    # The slower check names the difference, and supports earlier layouts.
    checked = stored.checked()
    return msgspec.convert({**vars(checked), "schema": SCHEMA}, _record_class())
