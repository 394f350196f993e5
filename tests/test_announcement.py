"""A long run begins with an estimate of its duration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import small_study
from anabranch import execution, forecast
from anabranch.cli.run import run
from anabranch.errors import RunFailed

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch import Scenario

LONG = "duration=100000 s"


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RunFailed("the run began")

    monkeypatch.setattr(execution, "run", broken)


def announced(folder: Path, *options: str) -> str:
    file = folder / "scenario.toml"
    file.write_text(small_study.SCENARIO, encoding="utf-8")
    outcome = CliRunner().invoke(run, [str(file), *options])
    assert isinstance(outcome.exception, RunFailed)
    assert outcome.stdout == ""
    return outcome.stderr


def test_long_run_prints_an_estimate(tmp_path: Path) -> None:
    assert announced(tmp_path, "--set", LONG) == ("anabranch: the run takes about 10 min, by the rates of its links\n")


def test_short_run_is_recognised_without_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(scenario: Scenario) -> float:
        raise AssertionError(scenario)

    monkeypatch.setattr(forecast, "run_s", unwanted)
    assert announced(tmp_path) == ""
    with pytest.raises(AssertionError):
        announced(tmp_path, "--set", LONG)


def test_short_run_prints_no_estimate(tmp_path: Path) -> None:
    assert announced(tmp_path) == ""


def test_json_prints_no_estimate(tmp_path: Path) -> None:
    assert announced(tmp_path, "--set", LONG, "--json") == ""
