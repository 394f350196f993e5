"""Messages on values of study files that do not fit a class of `anabranch.study.keys`."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, UnsetType

from anabranch.errors import InputError, nearest
from anabranch.sweep import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Where = tuple[str | int, ...]
"""Names of tables from the outside in, arrays by name and index, and a key last."""

_MAX_SHOWN = 40
"""Characters of a wrong value that a message shows."""
_FORMS: dict[Any, tuple[str, str]] = {
    str: ("text in quotes", "texts in quotes"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "booleans"),
    dict: ("a table", "tables"),
    frozenset((str, int, float, bool)): ("a number, a text or a boolean", "numbers, texts or booleans"),
}
"""Description of one and of several values of a type."""


def first_mistake(value: Any, kind: Any, where: Where) -> tuple[Where, str]:
    """Place and message of the first mistake, the innermost one, in a value that does not fit a type.

    Args:
        value: The value, as read from TOML.
        kind: The type, annotated by `msgspec.Meta`; its bounds and its `extra["form"]` are part of messages.
        where: Place of the value.

    """
    kinds = _alternatives(kind)
    struct = next((k for k in kinds if isinstance(k, type) and issubclass(k, Struct)), None)
    if struct is not None and isinstance(value, dict):
        hints = get_type_hints(struct, include_extras=True)
        for key in value:
            if key not in hints:
                return (*where, key), f'"{key}" is not known here ({nearest(key, list(hints))})'
        parts = [(key, inner, hints[key]) for key, inner in value.items()]
    else:
        parts = [(key, inner, get_args(k)[-1]) for k in kinds for key, inner in _parts(value, k)]
    for key, inner, inner_kind in parts:
        if not _fits(inner, inner_kind):
            return first_mistake(inner, inner_kind, (*where, key))
    if struct is not None and isinstance(value, dict):
        required = (f.name for f in msgspec.structs.fields(struct) if f.required)
        return where, missing(next(name for name in required if name not in value), where)
    return where, _unfit(str(where[-1]), value, kind)


def _parts(value: Any, kind: Any) -> list[tuple[Any, Any]]:
    """The values in a table, or the tables in an array of tables, if the value and the type are both."""
    if get_origin(kind) is dict and isinstance(value, dict):
        return list(value.items())
    if _holds_tables(kind) and isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return list(enumerate(value))
    return []


def _holds_tables(kind: Any) -> bool:
    """Whether a type is an array of tables."""
    parts = _alternatives(get_args(kind)[0]) if get_origin(kind) is list else []
    return len(parts) == 1 and parts[0] not in _FORMS


def missing(key: str, where: Where) -> str:
    """A message that a key is missing in a table."""
    return f'"{key}" is missing in {".".join(map(str, where)) or "the file"}'


def not_among(key: str, value: Any, allowed: Sequence[str]) -> str:
    """A message that a value is not one of a few texts."""
    return f'"{key}" cannot be {_shown(value)} ({nearest(str(value), list(allowed))})'


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _alternatives(kind: Any) -> list[Any]:
    """The types of a union, without their annotations."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [inner for part in get_args(kind) for inner in _alternatives(part)]
    return [] if kind is UnsetType else [kind]


def _notes(kind: Any) -> list[Meta]:
    """The annotations of a type, also those within a union."""
    if get_origin(kind) in (Union, UnionType):
        return [note for part in get_args(kind) for note in _notes(part)]
    inner, *notes = get_args(kind) if get_origin(kind) is Annotated else (None,)
    return [*(note for note in notes if isinstance(note, Meta)), *(_notes(inner) if notes else [])]


def _unfit(key: str, value: Any, kind: Any) -> str:
    """A message that a value does not fit a type."""
    kinds = _alternatives(kind)
    words = [word for k in kinds if get_origin(k) is Literal for word in get_args(k)]
    if words and (len(kinds) == 1 or isinstance(value, str)):
        return not_among(key, value, words)
    shown = _shown(value)
    return f'"{key}" has to be {_form(kind, key)}' + (f", not {shown}" if len(shown) <= _MAX_SHOWN else "")


def _shown(value: Any) -> str:
    """A value as in TOML."""
    try:
        return literal(value).replace("{  }", "{}")
    except InputError:
        return str(value)


def _form(kind: Any, key: str) -> str:
    """The values of a type in words; `key` is the name of an array of tables."""
    notes, kinds = _notes(kind), _alternatives(kind)
    written = next((note.extra["form"] for note in notes if note.extra and "form" in note.extra), None)
    if written is None:
        forms = [_FORMS[frozenset(kinds)][0]] if frozenset(kinds) in _FORMS else [_form_of(k, key) for k in kinds]
        written = " or ".join(forms) + "".join(map(_bounds, notes))
    return str(written)


def _form_of(kind: Any, key: str) -> str:
    """The values of one type in words."""
    if _holds_tables(kind):
        return f"written as [[{key}]]"
    if get_origin(kind) is list:
        parts = _alternatives(get_args(kind)[0])
        return f"a list of {_FORMS[parts[0] if len(parts) == 1 else frozenset(parts)][1]}"
    if get_origin(kind) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(kind))
    return _FORMS.get(kind, _FORMS[dict])[0]


def _bounds(note: Meta) -> str:
    """The limits of a number or of the length of a list, in words."""
    if note.min_length is not None:
        return f" (at least {note.min_length})"
    if note.ge is not None and note.le is not None:
        return f" from {note.ge:,} to {note.le:,}"
    return "" if note.ge is None else f" of at least {note.ge:,}"
