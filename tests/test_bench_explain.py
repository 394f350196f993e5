"""Cases of `anabranch bench explain`: they are valid, repeat for a seed, and are scored by their labels."""

from __future__ import annotations

import json
import math
from itertools import islice

import pytest

from anabranch.bench.captures import CaptureScore
from anabranch.bench.explain import FAULTS, Score, cases
from command import anabranch


def scored(gain: float, best: float) -> Score:
    return Score("fault", "kind", gain, best, "other", 1)


def test_cases_cover_all_faults_and_repeat() -> None:
    first, second = (list(cases(len(FAULTS), 3)) for _ in range(2))
    assert [case.fault for case in first] == list(FAULTS)
    assert first == second
    assert len(FAULTS) >= 20


def test_first_remedy_near_the_best_is_right() -> None:
    assert scored(0.95, 1.0).is_right
    assert not scored(0.8, 1.0).is_right
    assert scored(math.inf, math.inf).is_right
    assert not scored(0.0, math.inf).is_right


def test_no_remedy_counts_as_right_without_a_gain() -> None:
    assert scored(0.0, 0.09).is_right
    assert not scored(0.0, 0.3).is_right


def test_command_scores_cases() -> None:
    done = anabranch("bench", "explain", "--cases", "2", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [case["fault"] for case in document["cases"]] == list(FAULTS)[:2]
    assert [case["right"] for case in document["cases"]] == [True, True]


@pytest.mark.parametrize(
    ("named", "gains", "is_right"),
    [
        ("backup", {"backup": 1.0, "control": 0.2}, True),
        ("control", {"backup": 1.0, "control": 0.2}, False),
        ("random-loss", {"random-loss": 0.1, "control": 0.5}, True),
        ("capacity", {"control": 0.05}, True),
        ("control", {"control": 0.05}, False),
        ("capacity", {"control": 0.5}, False),
        ("path-down", {"path-down": math.inf}, True),
        ("backup", {"path-down": math.inf}, False),
        ("unknown", {}, True),
    ],
)
def test_findings_of_captures_are_scored(named: str, gains: dict[str, float], is_right: bool) -> None:
    assert CaptureScore("fault", (named,), gains).is_right == is_right
    assert CaptureScore("fault", ("mtu", named), gains).is_among == is_right


def test_cases_with_a_middle_have_the_same_faults() -> None:
    plain, split = (list(islice(cases(4, 3, with_middle=middle), 4)) for middle in (False, True))
    assert [case.fault for case in plain] == [case.fault for case in split]
    assert all(case.scenario.text.count("[[link]]") == 4 for case in split)


@pytest.mark.parametrize("place", ["sender", "middle", "receiver"])
def test_command_scores_captures(place: str) -> None:
    done = anabranch("bench", "explain", "--captures", place, "--cases", "2", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["place"], [case["fault"] for case in document["cases"]]) == (place, list(FAULTS)[:2])
    assert all(1 <= len(case["named"]) <= 3 for case in document["cases"])


def test_unknown_capture_position_is_refused() -> None:
    done = anabranch("bench", "explain", "--captures", "cloud")
    assert done.returncode == 2
    assert "sender" in done.stderr
