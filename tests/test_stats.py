"""Statistics against numbers worked by hand and properties that hold for all samples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.stats import estimate, median, quantile, t_half_width

samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def test_interval_of_three() -> None:
    # Mean 2, s = 1, t(0.975; 2) = 4.302653: half width 4.302653 / sqrt(3).
    assert t_half_width([1.0, 2.0, 3.0]) == pytest.approx(4.302653 / math.sqrt(3.0), rel=1e-6)


def test_interval_of_five() -> None:
    # Mean 10, s = sqrt(10/4), t(0.975; 4) = 2.776445.
    assert t_half_width([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(2.776445 * math.sqrt(2.5 / 5.0), rel=1e-6)


def test_interval_of_two_at_ninety_per_cent() -> None:
    # Mean 1, s = sqrt(2), t(0.95; 1) = 6.313752.
    assert t_half_width([0.0, 2.0], 0.9) == pytest.approx(6.313752, rel=1e-6)


def test_one_sample_has_no_interval() -> None:
    found = estimate([3.0])
    assert found.centre == 3.0
    assert math.isnan(found.half_width)


def test_median_and_mean() -> None:
    assert estimate([1.0, 2.0, 9.0], "median").centre == 2.0
    assert estimate([1.0, 2.0, 9.0], "mean").centre == 4.0
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5


def test_quantile_between_samples() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.9) == pytest.approx(4.6)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 95.0])
def test_confidence_out_of_range(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_half_width([1.0, 2.0], confidence)


def test_nothing_to_estimate() -> None:
    with pytest.raises(ValueError, match="no samples"):
        estimate([])


@given(samples, st.floats(0.5, 100.0))
def test_interval_scales_and_shifts(values: list[float], scale: float) -> None:
    width = t_half_width(values)
    assert t_half_width([scale * v for v in values]) == pytest.approx(scale * width, rel=1e-6, abs=1e-6)
    assert t_half_width([v + 5.0 for v in values]) == pytest.approx(width, rel=1e-3, abs=1e-3)


@given(samples, st.floats(0.0, 1.0))
def test_quantiles_are_within_the_samples(values: list[float], share: float) -> None:
    assert min(values) <= quantile(values, share) <= max(values)
