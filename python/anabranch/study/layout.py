"""The layout of results: which keys a document has, and of which types; the columns of tables follow from it.

The native module lists the keys with their types in Rust, such as `Option<f64>` or `BTreeMap<String, u64>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from anabranch import _native
from anabranch._core.worlds import WORLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anabranch._core.document import Document

    Check = Callable[[Any], str]
    """Returns the path and the kind of the first mistake in a value, or "" if there is none."""

SCHEMA = 3
"""Number of the layout of stored records and of tables; records of layout 1 had no number."""
READABLE = (1, 2, SCHEMA)
_WITH_BLOCKED_PATHS = (1, 2)
"""Layouts in which each path also had its flow's times blocked by cause."""
ROOT = "RunResult"
NOT_STORED = "scenario"
"""The key that a document has and a record does not."""
_COUNTS = ("u64", "u32", "u16")
_MAX_COUNT = 2**64 - 1
_OTHERS: dict[str, type] = {"String": str, "bool": bool}


@dataclass(frozen=True)
class Key:
    """A key of a part of the result."""

    name: str
    kind: str
    """Its type in Rust, without blanks."""
    may_be_absent: bool

    @property
    def type(self) -> str:
        """The type without `Option`."""
        return inner(self.kind, "Option") or self.kind


@cache
def parts() -> dict[str, dict[str, Key]]:
    """The keys of each part of the result, by the name of the part."""
    return {
        part: {name: Key(name, kind.replace(" ", ""), absent) for name, kind, absent in keys}
        for part, keys in _native.result_parts()
    }


_SHARED = ("experiment", "repetition", "seed", "schema", "digest", "version", "build", "host_cpu", "host_system",
           "jain", "events", "wall_s")  # fmt: skip
_POINTS = ("subject", "metric", "unit", "ours", "mean", "median", "std", "n", "low", "high", "confidence", "interval",
           "published", "deviation")  # fmt: skip
_OF_A_WORLD = ("", "_low", "_high", "_confidence", "_runs", "_late")
_ROWS = {"flow_": "FlowResult", "path_": "PathResult", "link_": "LinkResult"}


@cache
def reserved() -> frozenset[str]:
    """The columns of all tables; a parameter cannot have such a name."""
    columns = {*_SHARED, *_POINTS, *(f"{world}{suffix}" for world in WORLDS for suffix in _OF_A_WORLD)}
    for prefix, part in _ROWS.items():
        columns |= {*_columns(prefix, part)}
    return frozenset(columns)


def _columns(prefix: str, part: str) -> Iterator[str]:
    for key in parts()[part].values():
        if key.type in parts():
            yield from _columns(f"{prefix}{key.name}_", key.type)
        else:
            yield f"{prefix}{key.name}"


def upgraded(document: Document, schema: int) -> Document:
    """A document of an earlier layout in the present one: without the keys that are no longer kept."""
    flows = document.get("flows")
    if schema not in _WITH_BLOCKED_PATHS or not isinstance(flows, list):
        return document
    return {**document, "flows": [_without_blocked_paths(flow) for flow in flows]}


def _without_blocked_paths(flow: Any) -> Any:
    if not isinstance(flow, dict) or not isinstance(flow.get("paths"), list):
        return flow
    return {**flow, "paths": [_without(path, "blocked_s") for path in flow["paths"]]}


def _without(table: Any, name: str) -> Any:
    return {key: value for key, value in table.items() if key != name} if isinstance(table, dict) else table


def fault(document: object) -> str:
    """The first difference between a document and the layout, for people; "" if there is none."""
    if isinstance(document, dict) and NOT_STORED in document:
        document = {key: value for key, value in document.items() if key != NOT_STORED}
    return _check_of(ROOT)(document)


def inner(kind: str, outer: str) -> str:
    """The type within a generic one, such as `f64` within `Option<f64>`; "" for another type."""
    return kind[len(outer) + 1 : -1] if kind.startswith(f"{outer}<") else ""


@cache
def _check_of(kind: str) -> Check:
    """The check of values of a type."""
    if optional := inner(kind, "Option"):
        check = _check_of(optional)
        return lambda value: "" if value is None else check(value)
    if item := inner(kind, "Vec") or kind[1:].partition(";")[0] * kind.startswith("["):
        return _list_of(_check_of(item))
    if entry := inner(kind, "BTreeMap"):
        return _table_of(_check_of(entry.partition(",")[2]))
    if kind == "f64" or kind in _COUNTS:
        return _number if kind == "f64" else _count
    if kind in _OTHERS:
        expected = _OTHERS[kind]
        return lambda value: "" if type(value) is expected else f" is {value!r}, not of type {expected.__name__}"
    return _part_of(parts()[kind])


def _number(value: Any) -> str:
    return "" if type(value) in (int, float) else f" is {value!r}, not a number"


def _count(value: Any) -> str:
    if type(value) is not int:
        return f" is {value!r}, not a whole number"
    return "" if 0 <= value <= _MAX_COUNT else f" is {value!r}, not a whole number from 0 to 2^64 - 1"


def _list_of(check: Check) -> Check:
    def found(value: Any) -> str:
        if type(value) is not list:
            return f" is {value!r}, not a list"
        return next((f"[{i}]{text}" for i, item in enumerate(value) if (text := check(item))), "")

    return found


def _table_of(check: Check) -> Check:
    def found(value: Any) -> str:
        if type(value) is not dict:
            return f" is {value!r}, not a table"
        return next((f".{key}{text}" for key, item in value.items() if (text := check(item))), "")

    return found


def _part_of(keys: Mapping[str, Key]) -> Check:
    checks = {name: _check_of(key.kind) for name, key in keys.items()}
    needed = {name for name, key in keys.items() if not key.may_be_absent}

    def found(value: Any) -> str:
        if type(value) is not dict:
            return f" is {value!r}, not a table"
        if not value.keys() >= needed:
            return f" lacks {min(needed - value.keys())}"
        for key, item in value.items():
            check = checks.get(key)
            if check is None:
                return f" has {key!r}, which is not known"
            if text := check(item):
                return f".{key}{text}"
        return ""

    return found
