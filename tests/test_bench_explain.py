"""Cases of `anabranch bench explain`: they are valid, repeat for a seed, and are scored by their labels."""

from __future__ import annotations

import json
import math

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


def test_no_remedy_is_right_without_a_gain() -> None:
    assert scored(0.0, 0.09).is_right
    assert not scored(0.0, 0.3).is_right


def test_command_scores_cases() -> None:
    done = anabranch("bench", "explain", "--cases", "2", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [case["fault"] for case in document["cases"]] == list(FAULTS)[:2]
    assert [case["right"] for case in document["cases"]] == [True, True]
