"""Arguments of other types than the annotations have: they work, or the error is one clear sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
import small_study
from anabranch.sweep import setting


@pytest.fixture
def scenario() -> anabranch.Scenario:
    return anabranch.Scenario.from_toml(small_study.SCENARIO).set("duration", "2 s").set("warmup", "1 s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.25), "0.25"),
        (np.float64(20), "20"),
        (np.int64(7), "7"),
        (np.bool_(True), "true"),
        (np.array([1, 2]), "[1, 2]"),
        (("a", 1), '["a", 1]'),
        ({"kind": "red", "max_p": np.float64(0.1)}, '{ kind="red", max_p=0.1 }'),
        ([{"x": np.int64(1)}], "[{ x=1 }]"),
    ],
)
def test_numpy_numbers_are_accepted(value: Any, text: str) -> None:
    assert setting("k", value) == f"k={text}"


def test_scenario_table_accepts_numpy_number(scenario: anabranch.Scenario) -> None:
    queue = {"kind": "red", "limit": "50 packets", "max_p": np.float64(0.2)}
    result = anabranch.run(scenario.set("link.bottleneck.queue", queue), seed=np.int64(3))  # type: ignore[arg-type]
    assert result.seed == 3
    assert result.document["scenario"]["link"][0]["queue"]["max_p"] == 0.2


@pytest.mark.parametrize("value", [None, b"x", object, Path("x")])
def test_invalid_setting_types_are_refused(scenario: anabranch.Scenario, value: Any) -> None:
    with pytest.raises(anabranch.InputError, match="cannot be a setting"):
        scenario.set("link.bottleneck.rate", value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seed": "1"}, "a seed is a whole number from 0 to .*, not '1'"),
        ({"seed": 1.0}, "a seed is a whole number from 0 to .*, not 1.0"),
        ({"seed": True}, "a seed is a whole number from 0 to .*, not True"),
        ({"trace": 5}, "trace must be the name of a folder, not 5"),
        ({"pcap": 5}, "pcap must be the name of a file, not 5"),
        ({"check_wire": "no"}, "check_wire is true or false, not 'no'"),
    ],
)
def test_argument_of_wrong_kind_is_refused(scenario: anabranch.Scenario, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(anabranch.InputError, match=says):
        anabranch.run(scenario, **arguments)


def test_scenario_of_wrong_kind_is_refused() -> None:
    with pytest.raises(anabranch.InputError, match="path must be the name of a scenario file, not 5"):
        anabranch.run(5)  # type: ignore[arg-type]


def test_names_are_loaded_on_first_use() -> None:
    assert anabranch.__version__ == anabranch.version()
    assert set(anabranch.__all__) <= set(dir(anabranch))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = anabranch.nothing
