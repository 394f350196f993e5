"""The schema of study.toml and the reader of study.toml have the same keys."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import small_study
from anabranch.study.definition import load
from anabranch.study.document import Table
from anabranch.study.library import shipped
from anabranch.study.schema import schema
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
TYPES: dict[str, Any] = {
    "string": str, "number": (int, float), "integer": int, "boolean": bool, "object": dict, "array": list,
}  # fmt: skip


def faults(value: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """Errors in a value, by the keywords of JSON schema that the study schema uses."""
    names = wanted.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(isinstance(value, TYPES[n]) and (n == "boolean") >= isinstance(value, bool) for n in names):
        yield f"{place}: {value!r} is no {names}"
    if "enum" in wanted and value not in wanted["enum"]:
        yield f"{place}: {value!r}"
    if "anyOf" in wanted and all(list(faults(value, w)) for w in wanted["anyOf"]):
        yield f"{place}: {value!r}"
    if "pattern" in wanted and not re.search(wanted["pattern"], value):
        yield f"{place}: {value!r}"
    yield from within(value, wanted, place)


def within(value: Any, wanted: Any, place: str) -> Iterator[str]:
    """The errors in the members of a list or a table."""
    if isinstance(value, list):
        if not wanted.get("minItems", 0) <= len(value) <= wanted.get("maxItems", len(value)):
            yield f"{place}: {len(value)} items"
        for i, item in enumerate(value):
            yield from faults(item, wanted.get("items", {}), f"{place}.{i}")
    if isinstance(value, dict):
        yield from (f"{place}: lacks {key}" for key in wanted.get("required", []) if key not in value)
        more = wanted.get("additionalProperties", {})
        for key, inner in value.items():
            known = wanted.get("properties", {}).get(key, more)
            if known is False:
                yield f"{place}: {key} is not known"
            else:
                yield from faults(inner, known, f"{place}.{key}")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_study_fits_the_schema(name: str) -> None:
    content = tomllib.loads((shipped()[name] / "study.toml").read_text(encoding="utf-8"))
    assert list(faults(content, schema())) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [('centre = "mean"', 'centre = "meen"'), ("over = [", "ovre = ["), ("repetitions = 3", 'repetitions = "3"'),
     ("values = [10, 20]", "values = []"), ('name = "goodput"', 'name = "good put"')],
)  # fmt: skip
def test_mistakes_do_not_fit_the_schema(right: str, wrong: str) -> None:
    assert list(faults(tomllib.loads(small_study.STUDY), schema())) == []
    assert right in small_study.STUDY
    assert list(faults(tomllib.loads(small_study.STUDY.replace(right, wrong, 1)), schema()))


def test_reader_and_schema_have_the_same_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, set[str]] = {}
    finish = Table.finish

    def remember(table: Table) -> None:
        if not table._file.endswith("study.toml"):
            return finish(table)
        where = ".".join(w for w in table._where if isinstance(w, str))
        read.setdefault(where, set()).update(table._read)
        return finish(table)

    monkeypatch.setattr(Table, "finish", remember)
    more = '\n[[published.group]]\nname = "all"\nexperiment = "pair"\n'
    text = small_study.STUDY.replace("\n[[figure]]", f"{more}\n[[figure]]", 1)
    often = '\n[[full.more]]\nexperiment = "pair"\nrepetitions = 4\n'
    text = text.replace("\n[quick]", f"{often}\n[quick]", 1)
    load(small_study.write(tmp_path / "study", study=text))
    properties = schema()["properties"]
    published, figure = properties["published"]["properties"], properties["figure"]["items"]["properties"]
    wanted = {
        "": properties,
        "full": properties["full"]["properties"],
        "full.more": properties["full"]["properties"]["more"]["items"]["properties"],
        "quick": properties["quick"]["properties"],
        "parameter.capacity": properties["parameter"]["additionalProperties"]["properties"],
        "experiment.pair": properties["experiment"]["additionalProperties"]["properties"],
        "published": published,
        "published.group": published["group"]["items"]["properties"],
        "figure": figure,
        "figure.reference": figure["reference"]["items"]["properties"],
    }
    for where, keys in wanted.items():
        assert set(keys) == read[where], where


def test_documented_schema_is_current() -> None:
    printed = anabranch("schema", "study").stdout
    assert json.loads(printed) == schema()
    kept = (ROOT / "docs/reference/study.schema.json").read_text(encoding="utf-8")
    assert kept == printed, "run make generate"
