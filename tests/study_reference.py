"""Writes the tables of all keys in docs/reference/studies.md from the JSON schemas of study files.

`make generate` runs this file as a program. A test compares the document with the schemas.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.plot.kinds import KINDS
from anabranch.study.schema import Schema, claims_schema, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anabranch.study.figures import Kind

DOCUMENT = Path(__file__).parent.parent / "docs/reference/studies.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->"
_MAX_WORDS = 12
_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}


def section() -> str:
    """A table of keys for each table of a study."""
    places: dict[str, list[str]] = {}
    definitions: Schema = {}
    for found, outer in ((schema(), ""), (claims_schema(), "claims")):
        definitions |= found["$defs"]
        _collect(found["$ref"], outer, definitions, places)
    parts = []
    for name, at in places.items():
        definition = definitions[name]
        heading = ", ".join(dict.fromkeys(at))
        kinds = KINDS.values() if name == "FigureKeys" else ()
        rows = [_row(key, value, definition, kinds) for key, value in definition["properties"].items()]
        table = "\n".join(["| key | value | meaning |", "|---|---|---|", *rows])
        parts.append(f"**{heading}.** {definition['description']}\n\n{table}\n")
    return "\n".join(parts)


def _collect(reference: str, place: str, definitions: Schema, places: dict[str, list[str]]) -> None:
    """The TOML headers of a definition and of the definitions within it."""
    name = reference.removeprefix("#/$defs/")
    shown = {"": "`study.toml`", "claims": "The file of claims"}.get(place, f"`{place}`")
    places.setdefault(name, []).append(shown)
    inner = place.strip("[]") if place.startswith("[") else ""
    for key, value in definitions[name]["properties"].items():
        path = f"{inner}.{key}" if inner else key
        for kind, found in _references(value):
            header = {"": f"[{path}]", "named": f"[{path}.NAME]", "rows": f"[[{path}]]"}[kind]
            _collect(found, header, definitions, places)


def _references(value: Schema, kind: str = "") -> Iterator[tuple[str, str]]:
    """The definitions that a schema refers to: as a table, as one of several named ones, or as rows."""
    if "$ref" in value:
        yield kind, value["$ref"]
    for part in value.get("anyOf", []):
        yield from _references(part, kind)
    if isinstance(value.get("additionalProperties"), dict):
        yield from _references(value["additionalProperties"], "named")
    if isinstance(value.get("items"), dict):
        yield from _references(value["items"], "rows")


def _row(key: str, value: Schema, definition: Schema, kinds: Iterable[Kind]) -> str:
    having = [f"`{kind.name}`" for kind in kinds if key in _special(kind)]
    of = f" Figures of {', '.join(having)}." if having else ""
    usual = value.get("default")
    shown = "true" if usual is True else usual
    default = f" Default: `{shown}`." if usual and not isinstance(usual, dict) else ""
    needed = " Required." if key in definition.get("required", []) else ""
    text = f"{value.get('description', '')}{needed}{default}{of}"
    return f"| `{key}` | {_values(value)} | {text.replace('{name}', '`{name}`').strip()} |"


def _special(kind: Kind) -> set[str]:
    return {*kind.required, *kind.optional, *(key.name for key in kind.keys)}


def _values(value: Schema) -> str:
    """The values of a schema in a few words."""
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"][:_MAX_WORDS])
    if "anyOf" in value and value.get("type") != "string":
        found = dict.fromkeys(_values(part) for part in value["anyOf"])
        if {"text", "number", "`true`, `false`"} <= set(found):
            found = {"value": None, **{k: None for k in found if k.startswith("list")}}
        return " or ".join(found)
    if value.get("type") == "array":
        return "list" if "prefixItems" in value else f"list of {_plural(_values(value['items']))}"
    if "minimum" in value and "maximum" in value:
        return f"{_NAMES[value['type']]}, {value['minimum']:,} to {value['maximum']:,}"
    return _NAMES.get(value.get("type", "object"), "table")


def _plural(words: str) -> str:
    return f"{words}s"


def with_section(document: str) -> str:
    """The document with the present tables in place of the earlier ones."""
    before, _, rest = document.partition(BEGIN)
    return f"{before}{BEGIN}\n{section()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
