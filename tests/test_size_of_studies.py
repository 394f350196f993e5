"""Large grids: counted before any point is made, bounded, and loaded without making all points."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import small_study
from anabranch.cli.study import study as command
from anabranch.errors import InputError
from anabranch.study import definition, model
from anabranch.study.definition import load
from anabranch.sweep import cross

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anabranch.sweep import Point


def grid(folder: Path, parameters: int, **changes: str) -> Path:
    """A study of parameters with ten values each."""
    names = [f"p{i}" for i in range(parameters)]
    tables = "".join(f"[parameter.{name}]\nvalues = {list(range(10))}\n" for name in names)
    text = small_study.STUDY.replace("[experiment.pair]", f"{tables}[experiment.pair]")
    text = text.replace(
        '["capacity", "congestion"]', f'["capacity", "congestion", {str(names)[1:-1]}]'.replace("'", '"')
    )
    text = text[: text.index("[[figure]]")]
    return small_study.write(folder, study=text.replace("values = [10, 20]", "values = [10]"), claims="", **changes)


def test_huge_grid_is_refused_with_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "cross", lambda *_: pytest.fail("a point was made"))
    with pytest.raises(InputError) as caught:
        load(grid(tmp_path / "study", 9))
    assert re.search(r"study.toml:\d+: the full form has 2,000,000,000 points", str(caught.value))
    assert "at most 1,000,000 are possible" in str(caught.value)


def test_too_many_runs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "MAX_RUNS", 10)
    with pytest.raises(InputError, match="the full form has 12 runs; at most 10 are possible"):
        load(small_study.write(tmp_path / "study"))


def test_large_grid_loads_without_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Point] = []

    def counted(*arguments: object) -> Iterator[Point]:
        for point in cross(*arguments):  # type: ignore[arg-type]
            made.append(point)
            yield point

    monkeypatch.setattr(model, "cross", counted)
    study = load(grid(tmp_path / "study", 5))
    assert (study.count(study.full), study.count(study.quick)) == (600_000, 400_000)
    assert len(made) < 1000


def test_count_covers_points_that_are_repeated_more_often(tmp_path: Path) -> None:
    more = '[[quick.more]]\nexperiment = "pair"\nwhere = { congestion = "cubic" }\nrepetitions = 7\n'
    text = small_study.STUDY.replace("[parameter.capacity]", f"{more}[parameter.capacity]")
    study = load(small_study.write(tmp_path / "study", study=text))
    assert study.count(study.quick) == len(study.runs(study.quick)) == 2 + 7


def test_counts_and_time_are_printed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = grid(tmp_path / "study", 5)

    def execute(*_: object, **__: object) -> None:
        raise InputError("nothing is to run here")

    monkeypatch.setattr("anabranch.study.engine.execute", execute)
    printed = CliRunner().invoke(command, ["run", str(folder), "--jobs", "2", "--results", str(tmp_path)]).output
    assert printed.splitlines() == [
        "study (full): 200,000 points, 600,000 runs",
        "about 10 h with 2 workers, by the rates of its links",
    ]
