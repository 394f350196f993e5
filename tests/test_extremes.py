"""Intervals that hold together, by a bootstrap of the largest deviation."""

from __future__ import annotations

import math
import random

import pytest

from anabranch.extremes import Samples, simultaneous_intervals
from anabranch.stats import Bounds, Centre

HALVES = [0.0] * 5 + [1.0] * 5


def test_deviation_of_ones_and_zeros_is_binomial() -> None:
    """The number j of ones in a resample is binomial, B(10, 1/2). Deviation: t(j) = 30 (j/10 - 1/2) / sqrt(j (10 - j)).

    The standard error is 1/6. P(j <= 7) = 94.5 % and P(j <= 8) = 98.9 %, so that the 97.5 % quantile is t(8) = 2.25.
    Of four such resamples all have j <= 8 with 0.989 ** 4 = 95.8 % and j <= 9 with 99.6 %: the quantile is t(9) = 4.
    """
    one = simultaneous_intervals([Samples(HALVES)], "mean")
    four = simultaneous_intervals([Samples(HALVES)] * 4, "mean")
    assert one is not None
    assert four is not None
    assert (one.single[0].low, one.single[0].high) == pytest.approx((0.5 - 2.25 / 6, 0.5 + 2.25 / 6))
    assert one.joint == one.single
    assert four.single == [*one.single, *four.single[1:]]
    for ends in four.joint:
        assert (ends.low, ends.high) == pytest.approx((0.5 - 4 / 6, 0.5 + 4 / 6))


def test_few_or_equal_values_have_no_bootstrap() -> None:
    assert simultaneous_intervals([], "mean") is None
    assert simultaneous_intervals([Samples(HALVES), Samples(HALVES[:9])], "mean") is None
    assert simultaneous_intervals([Samples(HALVES, HALVES[:9])], "mean") is None
    assert simultaneous_intervals([Samples([3.0] * 10)], "mean") is None
    assert simultaneous_intervals([Samples(HALVES, [-1.0] * 10, is_ratio=True)], "mean") is None
    found = simultaneous_intervals([Samples(HALVES), Samples([3.0] * 10)], "mean")
    assert found is not None
    assert found.single[1] == found.joint[1] == Bounds(3.0, 3.0, math.nan)


def test_rare_values_leave_one_bound_of_interval_open() -> None:
    """A third of the resamples lack the one value that differs: their deviation has no spread."""
    found = simultaneous_intervals([Samples([0.0] * 9 + [1.0])], "mean")
    assert found is not None
    assert (found.single[0].low > -math.inf, found.single[0].high) == (True, math.inf)


@pytest.mark.parametrize("centre", ["mean", "median"])
def test_intervals_follow_shift_and_scale(centre: Centre) -> None:
    draw = random.Random(1)
    values = [draw.gauss(5.0, 1.0) for _ in range(12)]
    plain = simultaneous_intervals([Samples(values)], centre)
    changed = simultaneous_intervals([Samples([3.0 * value - 7.0 for value in values])], centre)
    assert plain is not None
    assert changed is not None
    moved = [3.0 * end - 7.0 for end in (plain.joint[0].low, plain.joint[0].high)]
    assert (changed.joint[0].low, changed.joint[0].high) == pytest.approx(moved)


def test_paired_values_equal_their_differences() -> None:
    draw = random.Random(2)
    first, second = ([draw.gauss(mean, 1.0) for _ in range(15)] for mean in (5.0, 4.0))
    paired = simultaneous_intervals([Samples(first, second, is_paired=True)], "mean")
    differences = simultaneous_intervals([Samples([a - b for a, b in zip(first, second, strict=True)])], "mean")
    assert paired is not None
    assert differences is not None
    ends, expected = paired.single[0], differences.single[0]
    assert (ends.low, ends.high) == pytest.approx((expected.low, expected.high))


def test_ratio_interval_surrounds_the_ratio() -> None:
    draw = random.Random(3)
    first, second = ([draw.gauss(mean, 1.0) for _ in range(15)] for mean in (12.0, 8.0))
    found = simultaneous_intervals([Samples(first, second, is_ratio=True)], "mean")
    assert found is not None
    ends = found.single[0]
    assert 1.3 < ends.low < sum(first) / sum(second) < ends.high < 1.8


@pytest.mark.parametrize("centre", ["mean", "median"])
def test_largest_lower_end_is_rarely_above_the_truth(centre: Centre) -> None:
    """For log-normal values of one distribution, the worst case; the truth is the mean exp(1/8) or the median 1."""
    draw, above = random.Random(4), 0
    truth = math.exp(0.125) if centre == "mean" else 1.0
    for _ in range(100):
        points = [Samples([math.exp(draw.gauss(0.0, 0.5)) for _ in range(10)]) for _ in range(4)]
        found = simultaneous_intervals(points, centre)
        assert found is not None
        above += max(ends.low for ends in found.joint) > truth
    # 2.5 % and three standard errors of 100 draws.
    assert above / 100 < 0.025 + 0.047
