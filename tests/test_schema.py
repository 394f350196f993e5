"""The schemas of scenarios and studies: shipped files fit them, and mistakes do not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import small_study
import study_reference
from anabranch.errors import InputError
from anabranch.plot.kinds import KINDS
from anabranch.study.definition import load
from anabranch.study.library import shipped
from anabranch.study.schema import claims_schema, schema
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_claims_file_fits_the_schema(name: str) -> None:
    folder = shipped()[name]
    for file in folder.glob("claims*.toml"):
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        assert errors(content, claims_schema()) == []
        content["claim"][0]["kind"] = "valeu"
        assert len(errors(content, claims_schema())) == 1


def test_every_kind_of_figure_fits_the_schema(tmp_path: Path) -> None:
    figures = [
        FIGURE.format(kind=kind.name, more="\n".join(f'{k} = "capacity"' for k in kind.required))
        for kind in KINDS.values()
    ]
    text = small_study.STUDY + "".join(figures)
    load(small_study.write(tmp_path / "study", study=text))
    assert errors(tomllib.loads(text), schema()) == []
    wrong = text.replace('kind = "heat"', 'kind = "heat"\nlog_colour = "yes"')
    assert errors(tomllib.loads(wrong), schema()) == ["'yes' is not of type 'boolean'"]


def test_reader_and_schema_refuse_the_same_values(tmp_path: Path) -> None:
    for right, wrong in (
        ('centre = "mean"', 'centre = "mean"\nassumptions = "one"'),
        ("repetitions = 3", "repetitions = 100_001"),
        ("values = { capacity = [10] }", "values = { capacity = 10 }"),
        ('name = "goodput"', 'name = "good put"'),
        ('name = "goodput"', 'name = "goodput\\n"'),
        ('x = "capacity"', 'x = "capacity"\nx_range = [0, 1, 2]'),
        ('x = "capacity"', 'x = "capacity"\nseries = []'),
        ('value_column = "mbps"', 'value_column = "mbps"\nprinted = "round"'),
    ):
        text = small_study.STUDY.replace(right, wrong, 1)
        assert text != small_study.STUDY
        assert errors(tomllib.loads(text), schema())
        with pytest.raises(InputError, match=r"study\.toml:\d+: "):
            load(small_study.write(tmp_path / "study", study=text))


@pytest.mark.parametrize(("kind", "wanted"), [("study", schema), ("claims", claims_schema)])
def test_documented_schema_is_current(kind: str, wanted: Callable[[], Any]) -> None:
    printed = anabranch("schema", kind).stdout
    assert json.loads(printed) == wanted()
    kept = (ROOT / f"docs/reference/{kind}.schema.json").read_text(encoding="utf-8")
    assert kept == printed, "run make generate"


def test_documented_keys_are_current() -> None:
    kept = study_reference.DOCUMENT.read_text(encoding="utf-8")
    assert kept == study_reference.with_section(kept), "run make generate"
