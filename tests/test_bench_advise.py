"""The regret of advice: hand-made values, and the whole comparison over few settings."""

from __future__ import annotations

import json

import pytest

from anabranch.advise.choices import Choice, Dimension
from anabranch.advise.search import Options
from anabranch.bench.advise import AIMS, MAX_REGRETS, Outcome, Verdict, compare, draw, quantiles
from command import anabranch

CONTROL = Dimension("congestion", ("cubic", "olia", "bbr"))
BBR, OLIA = (Choice((("congestion", name),)) for name in ("bbr", "olia"))


def outcome(values: dict[Choice, float], value: float, *, is_time: bool = False) -> Outcome:
    best = (min if is_time else max)(values.values())
    return Outcome(draw(1, 1), "goodput", is_time, BBR, value, BBR, best, values, 1, 1.0, True)


def test_pairs_repeat_and_are_valid() -> None:
    assert draw(1, 7) == draw(1, 7) != draw(2, 7)
    for number in range(1, 20):
        draw(3, number).scenario.validate()


@pytest.mark.parametrize(
    ("value", "is_time", "regret"), [(9.0, False, 0.1), (10.0, False, 0.0), (11.0, True, 0.1), (10.0, True, 0.0)]
)
def test_regret_is_relative_to_the_best(value: float, is_time: bool, regret: float) -> None:
    assert outcome({Choice(): 10.0}, value, is_time=is_time).regret == pytest.approx(regret)


def test_constant_choice_is_taken_from_the_other_pairs() -> None:
    first = outcome({Choice(): 8.0, BBR: 10.0, OLIA: 5.0}, 10.0)
    second = outcome({Choice(): 8.0, BBR: 4.0, OLIA: 10.0}, 9.0)
    regrets = Verdict("goodput", (first, second)).regrets()
    assert regrets["advise"] == pytest.approx([0.0, 0.1])
    assert regrets["defaults"] == pytest.approx([0.2, 0.2])
    # The best choice of the second pair is OLIA, which loses half in the first one; and BBR loses 60 % in the second.
    assert regrets["constant"] == pytest.approx([0.5, 0.6])


def test_quantiles_are_values_of_the_list() -> None:
    assert quantiles([0.1]) == (0.1, 0.1)
    assert quantiles([float(number) for number in range(1, 21)]) == (10.5, 19.0)


def test_advice_is_compared_with_all_combinations() -> None:
    options = Options(reps=2, time_limit_s=600.0, only=(CONTROL,))
    (fair, delay) = compare([draw(1, 1)], ("fair", "delay"), options)
    assert [len(each.outcomes[0].values) for each in (fair, delay)] == [1, 4]
    for verdict in (fair, delay):
        assert verdict.outcomes[0].regret <= MAX_REGRETS[verdict.aim][1]
        assert verdict.document()["pairs"] == 1
    assert json.dumps(delay.document())


def test_unknown_aim_is_refused() -> None:
    done = anabranch("bench", "advise", "--aim", "speed")
    assert done.returncode == 2
    assert AIMS[0] in done.stderr
