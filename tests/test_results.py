"""Results in files, equality of results, and how objects appear in a session and in a notebook."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import anabranch
import result_classes
import small_study
from anabranch._core.document import Document, FlowResult, LinkResult, PathResult
from anabranch.documents import FORMAT


@pytest.fixture(scope="module")
def scenario() -> anabranch.Scenario:
    return anabranch.Scenario.from_toml(small_study.SCENARIO).set("duration", "2 s").set("warmup", "1 s")


@pytest.fixture(scope="module")
def result(scenario: anabranch.Scenario) -> anabranch.Result:
    return anabranch.run(scenario, seed=1)


def test_saved_result_is_read_again(result: anabranch.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r.json")
    again = anabranch.Result.load(tmp_path / "r.json")
    assert again.document == result.document
    assert again == result
    with pytest.raises(anabranch.InputError, match="wrote no traces"):
        _ = again.traces


def test_format_is_that_of_the_simulator(result: anabranch.Result) -> None:
    assert result.document["format"] == FORMAT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "r.json: is empty; write a result there"),
        ("[link]\n", "r.json:1: is not a result; write one with"),
        ('{"a": 1}', "r.json: is JSON, but not a result"),
        ("[1, 2]", "r.json: is JSON, but not a result"),
        ('{"format": 7, "version": "3.1"}',
         f"format 7, but this version reads format {FORMAT}; use the version .* that wrote it .3.1."),
        (f'{{"format": {FORMAT}, "world": "sim"}}', 'is not a whole result: "seed" is missing'),
        ("[" * 100_000, "is not a result"),
    ],
    ids=["empty", "toml", "other JSON", "list", "later format", "incomplete", "nested"],
)  # fmt: skip
def test_foreign_file_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(anabranch.InputError, match=says):
        anabranch.Result.load(tmp_path / "r.json")


def test_file_with_several_results_is_refused(result: anabranch.Result, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(2 * json.dumps(result.document), encoding="utf-8")
    with pytest.raises(anabranch.InputError, match="contains 2 results, not one"):
        anabranch.Result.load(tmp_path / "r.json")


def test_unusable_paths_are_refused(result: anabranch.Result, tmp_path: Path) -> None:
    with pytest.raises(anabranch.InputError, match="cannot be read: Is a directory"):
        anabranch.Result.load(tmp_path)
    with pytest.raises(anabranch.InputError, match="cannot be written: No such file or directory"):
        result.save(tmp_path / "nowhere" / "r.json")
    with pytest.raises(anabranch.InputError, match="path must be the name of a file, not 5"):
        result.save(5)  # type: ignore[arg-type]


def test_results_with_equal_digests_are_equal(scenario: anabranch.Scenario, result: anabranch.Result) -> None:
    again, other = anabranch.run(scenario, seed=1, check_wire=True), anabranch.run(scenario, seed=2)
    assert again == result
    assert other != result
    assert len({result, again, other}) == 2
    assert result != "a result"


def test_kernel_results_are_equal_by_their_numbers(result: anabranch.Result) -> None:
    first, second = (anabranch.Result({**result.document, "digest": None, "jain": jain}) for jain in (0.5, 0.6))
    assert first == anabranch.Result(first.document.copy())
    assert first not in (second, result)


def test_objects_have_short_names(scenario: anabranch.Scenario, result: anabranch.Result) -> None:
    assert repr(result) == f"Result('Two flows', seed=1, digest='{result.digest}')"
    assert repr(scenario) == "Scenario('scenario', 2 settings)"
    assert repr(anabranch.Scenario.from_toml(small_study.SCENARIO)) == "Scenario('scenario')"
    assert repr(anabranch.fair(scenario)) == "Fairness('Two flows', 2 flows, possible_bps=1e+07)"


def test_notebooks_show_escaped_html(scenario: anabranch.Scenario) -> None:
    odd = scenario.set("title", "<b>&")
    shown = anabranch.run(odd, seed=1)._repr_html_()
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 3
    assert "title=&quot;&lt;b&gt;&amp;&quot;" in odd._repr_html_()
    assert anabranch.fair(odd)._repr_html_().count("<tr>") == 3


def test_grid_runs_in_parallel(scenario: anabranch.Scenario) -> None:
    rates = anabranch.Parameter("rate", (5, 10), {"link.bottleneck.rate": "{rate} Mbit/s"})
    grid = [scenario.with_settings(point.overrides) for point in anabranch.cross("rates", "s.toml", [rates], {})]
    alone, together = (anabranch.run_all(grid, reps=2, jobs=jobs) for jobs in (1, 2))
    assert alone == together
    assert [[result.seed for result in results] for results in alone] == [[1, 2], [1, 2]]
    assert [results[0].document["scenario"]["link"][0]["rate"] for results in alone] == ["5 Mbit/s", "10 Mbit/s"]
    assert anabranch.run_all([]) == []
    with pytest.raises(anabranch.InputError, match="scenarios must be a list of scenarios, but contains 's'"):
        anabranch.run_all("s")  # type: ignore[arg-type]


def test_all_errors_have_one_base() -> None:
    with pytest.raises(anabranch.AnabranchError):
        anabranch.Scenario.from_file("nothing.toml")
    assert issubclass(anabranch.InputError, ValueError)
    assert issubclass(anabranch.RunFailed, anabranch.AnabranchError)


def test_types_of_documents_are_current() -> None:
    assert result_classes.FILE.read_text(encoding="utf-8") == result_classes.text(), "run make generate"


def test_documents_have_the_keys_of_their_types(result: anabranch.Result) -> None:
    document = result.document
    parts: list[tuple[Any, Any]] = [(Document, document), *((FlowResult, flow) for flow in document["flows"])]
    parts += [(PathResult, path) for flow in document["flows"] for path in flow["paths"]]
    parts += [(LinkResult, link) for link in document["links"]]
    for kind, part in parts:
        assert kind.__required_keys__ <= set(part) <= kind.__required_keys__ | kind.__optional_keys__
    assert msgspec.convert(document, Document) == document


def test_every_error_class_has_one_base() -> None:
    outside = {
        found.name
        for file in Path(anabranch.__file__).parent.rglob("*.py")
        for found in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(found, ast.ClassDef)
        and any(base.id.endswith(("Error", "Exception")) for base in found.bases if isinstance(base, ast.Name))
        and not any(isinstance(base, ast.Name) and base.id == "AnabranchError" for base in found.bases)
    }
    assert outside == {"AnabranchError"}
