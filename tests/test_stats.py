"""Statistics against numbers worked by hand, and the coverage of intervals."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.coverage import named
from anabranch.stats import describe, estimate, interval_of_difference
from laws import LAWS, drawn, true_value

if TYPE_CHECKING:
    from anabranch.stats import Centre, Interval

COUNTS, DRAWS = [3, 5, 10, 30], 4_000
samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def test_interval_of_three_samples_matches() -> None:
    # Mean 2, s = 1, t(0.975; 2) = 4.302653: half width 4.302653 / sqrt(3).
    found = estimate([1.0, 2.0, 3.0])
    reach = 4.302653 / math.sqrt(3.0)
    assert (found.low, found.high) == pytest.approx((2.0 - reach, 2.0 + reach), rel=1e-6)


def test_interval_of_five_samples_matches() -> None:
    # Mean 10, s = sqrt(10/4), t(0.975; 4) = 2.776445.
    found = estimate([8.0, 9.0, 10.0, 11.0, 12.0])
    assert found.high - found.centre == pytest.approx(2.776445 * math.sqrt(2.5 / 5.0), rel=1e-6)


def test_median_interval_comes_from_order_statistics() -> None:
    # The interval of the mean of these samples is from -34 to 76.
    found = estimate([1.3, 100.0, 1.2, 1.0, 1.1], "median")
    assert (found.centre, found.low, found.high) == (1.2, 1.0, 100.0)
    assert found.confidence == 1.0 - 2.0 / 2**5


def test_order_statistics_of_nine_samples_match() -> None:
    # P(at most one of nine below the median) = (1 + 9) / 2⁹: the second and the eighth enclose it with 1 - 20/512.
    found = estimate([float(i) for i in range(1, 10)], "median")
    assert (found.centre, found.low, found.high) == (5.0, 2.0, 8.0)
    assert found.confidence == pytest.approx(1.0 - 20.0 / 512.0)


def test_six_samples_are_the_minimum_for_95_percent() -> None:
    assert estimate([1.0, 2.0, 3.0, 4.0, 5.0], "median").confidence == pytest.approx(0.9375)
    assert estimate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "median").confidence == pytest.approx(0.96875)


@pytest.mark.parametrize(("count", "least"), [(5, 0.9375), (12, 0.95)])
def test_order_statistics_enclose_the_skewed_median(count: int, least: float) -> None:
    draw = random.Random(1)
    sets = [estimate([draw.lognormvariate(0.0, 1.0) for _ in range(count)], "median") for _ in range(1000)]
    enclosed = sum(e.low <= 1.0 <= e.high for e in sets) / len(sets)
    assert enclosed > least - 0.02


def test_bootstrap_is_reproducible_and_within_samples() -> None:
    skewed = [0.1, 0.2, 0.1, 0.3, 9.0, 0.2, 0.4, 0.3, 0.2, 0.1]
    assert estimate(skewed).low < 0.0
    found = estimate(skewed, "mean", "bootstrap")
    assert 0.1 <= found.low < found.centre < found.high <= 9.0
    assert found == estimate(skewed, "mean", "bootstrap")
    assert found.confidence == 0.8


@pytest.mark.parametrize(
    ("values", "centre", "interval"),
    [
        ([1.0, 2.0, 4.0, 8.0, 9.0], "mean", "t"),
        ([1.0, 2.0, 4.0, 8.0, 9.0], "median", "order-statistics"),
        ([1.0, 1.0, 9.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "median", "order-statistics"),
        ([float(i) for i in range(10)], "median", "bootstrap"),
        ([1.0, 1.0, 9.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "mean", "bootstrap"),
    ],
)
def test_bootstrap_gives_way_to_the_usual_interval(values: list[float], centre: Centre, interval: Interval) -> None:
    found = estimate(values, centre, "bootstrap")
    usual = estimate(values, centre, interval)
    assert found == usual
    assert found.interval == interval
    reason = "A bootstrap of fewer than 10 values"
    assert (reason in describe([found], centre, "bootstrap")) == (interval != "bootstrap")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("centre", "interval"), [("median", "order-statistics"), ("mean", "t")])
def test_intervals_keep_their_coverage(law: str, count: int, centre: Centre, interval: Interval) -> None:
    draw = random.Random(3)
    true = true_value(law, centre)
    sets = [estimate(drawn(draw, law, count), centre, interval) for _ in range(DRAWS)]
    real = [e for e in sets if not e.all_equal]
    assert sum(e.low <= true <= e.high for e in real) / len(real) > real[0].confidence - 0.02


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_differences_keep_their_coverage(law: str, count: int, paired: bool) -> None:
    draw, found, coverage = random.Random(4), list[bool](), math.nan
    for _ in range(DRAWS):
        first, second = drawn(draw, law, count), drawn(draw, law, count)
        bounds = interval_of_difference(first, second, "mean", paired=paired)
        if bounds is not None:
            coverage = bounds.coverage
            found.append(bounds.low <= 0.0 <= bounds.high)
    assert sum(found) / len(found) > coverage - 0.02


def test_coverage_is_that_of_the_smaller_side() -> None:
    few, many = [1.0, 2.0, 4.0], [float(i) for i in range(30)]
    for first, second in ((few, many), (many, few)):
        found = interval_of_difference(first, second, "mean", paired=False)
        assert found is not None
        assert found.coverage == 0.75
    assert (named(0.75), named(0.9375), named(0.82)) == ("≥ 75 %", "≥ 93 %", "≥ 82 %")


def test_one_sample_has_no_interval() -> None:
    found = estimate([3.0])
    assert found.centre == 3.0
    assert math.isnan(found.low + found.high)
    assert not found.all_equal


@pytest.mark.parametrize(("centre", "interval"), [("mean", "t"), ("median", "order-statistics"), ("mean", "bootstrap")])
def test_equal_samples_are_known(centre: Centre, interval: Interval) -> None:
    found = estimate([0.1, 0.1, 0.1], centre, interval)
    assert found.all_equal
    assert found.centre == 0.1
    assert all(math.isnan(value) for value in (found.low, found.high, found.confidence))


def test_report_phrases_of_intervals() -> None:
    few = [estimate([1.0, 2.0]), estimate([1.0, 2.0, 3.0])]
    assert "95 % if values are normal" in describe(few, "mean")
    assert "at least 79 % with 2 runs, 75 % with 3 runs." in describe(few, "mean")
    assert "93.8 % with 5 runs, 95 % takes six" in describe([estimate([1.0, 2.0, 3.0, 4.0, 5.0], "median")], "median")
    ten = [float(i) for i in range(10)]
    assert "bootstrap, BCa, 9,999" in describe([estimate(ten, "median", "bootstrap")], "median")
    assert "no interval" in describe([estimate([1.0])], "mean")


def test_invalid_samples_have_no_estimate() -> None:
    with pytest.raises(ValueError, match="no samples"):
        estimate([])
    with pytest.raises(ValueError, match='a median cannot have the interval "t"; it can have order-statistics or boot'):
        estimate([1.0], "median", "t")
    with pytest.raises(ValueError, match='"mean" or "median", not "mode"'):
        estimate([1.0], "mode")  # type: ignore[arg-type]


@given(samples, st.floats(0.5, 100.0))
def test_interval_scales_and_shifts(values: list[float], scale: float) -> None:
    def width(shifted: list[float]) -> float:
        found = estimate(shifted)
        return 0.0 if found.all_equal else found.high - found.low

    assert width([scale * v for v in values]) == pytest.approx(scale * width(values), rel=1e-6, abs=1e-6)
    assert width([v + 5.0 for v in values]) == pytest.approx(width(values), rel=1e-3, abs=1e-3)


@given(samples)
def test_medians_lie_within_their_interval(values: list[float]) -> None:
    found = estimate(values, "median")
    if not found.all_equal:
        assert min(values) <= found.low <= found.centre <= found.high <= max(values)
