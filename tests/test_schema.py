"""The schemas of scenarios and studies: shipped files fit them, mistakes do not, and the reader has the same keys."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import small_study
from anabranch.plot.kinds import KINDS
from anabranch.study.definition import load
from anabranch.study.document import Table
from anabranch.study.library import shipped
from anabranch.study.schema import schema
from command import anabranch

ROOT = Path(__file__).parent.parent
FIGURE = """
[[figure]]
name = "{kind}"
kind = "{kind}"
columns = "congestion"
{more}
"""


def errors(value: Any, wanted: Any) -> list[str]:
    """The errors of a value by a JSON schema, which has to be one itself."""
    jsonschema.Draft202012Validator.check_schema(wanted)
    return [error.message for error in jsonschema.Draft202012Validator(wanted).iter_errors(value)]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_study_fits_the_schema(name: str) -> None:
    content = tomllib.loads((shipped()[name] / "study.toml").read_text(encoding="utf-8"))
    assert errors(content, schema()) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [('centre = "mean"', 'centre = "meen"'), ("over = [", "ovre = ["), ("repetitions = 3", 'repetitions = "3"'),
     ("values = [10, 20]", "values = []"), ('name = "goodput"', 'name = "good put"')],
)  # fmt: skip
def test_mistakes_do_not_fit_the_schema(right: str, wrong: str) -> None:
    assert errors(tomllib.loads(small_study.STUDY), schema()) == []
    assert right in small_study.STUDY
    assert errors(tomllib.loads(small_study.STUDY.replace(right, wrong, 1)), schema())


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda file: file.name)
def test_every_example_fits_the_scenario_schema(file: Path) -> None:
    wanted = json.loads((ROOT / "docs/reference/scenario.schema.json").read_text(encoding="utf-8"))
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    assert errors(content, wanted) == []
    content["link"][0]["delay"] = "10"
    assert len(errors(content, wanted)) == 1


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
    figures = [
        FIGURE.format(kind=kind.name, more="\n".join(f'{k} = "capacity"' for k in kind.required))
        for kind in KINDS.values()
    ]
    load(small_study.write(tmp_path / "study", study=text + "".join(figures)))
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
