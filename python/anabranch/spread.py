"""Intervals of standard deviations, of their differences and of their ratios.

The interval is the jackknife's (Tukey 1958): pseudo-values of the logarithm from leaving out one value at a time, with
Student's t. It does not assume that the values are normal, as the chi-squared interval
does. The interval lies around the mean of the pseudo-values, which is the jackknife's estimate.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.coverage import smallest_coverage
from anabranch.stats import Bounds, interval_of, interval_of_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIN_VALUES = 3
"""Minimum number of values: the jackknife leaves one out, and the others must still show a spread."""


def interval_of_spread(samples: Sequence[float], confidence: float) -> Bounds | None:
    """The interval of a standard deviation; `None` if all values are equal or there is only one."""
    if len(set(samples)) <= 1:
        return None
    scores = _pseudo_values(samples)
    found = None if scores is None else interval_of(scores, "mean", "t", confidence)
    if found is None:
        return Bounds(0.0, math.inf, confidence)
    return Bounds(math.exp(found.low), math.exp(found.high), _coverage(samples, confidence))


def _coverage(samples: Sequence[float], confidence: float) -> float:
    return min(confidence, smallest_coverage("jackknife", len(samples)))


def interval_of_spread_difference(first: Sequence[float], second: Sequence[float], confidence: float) -> Bounds | None:
    """The interval of the difference of two standard deviations, from the interval of each (Zou and Donner 2008).

    `None` if both sides show no spread.
    """
    sides = [_side(values, confidence) for values in (first, second)]
    if all(side.low == side.high for side in sides):
        return None
    ours, theirs = sides
    difference = ours.centre - theirs.centre
    down = math.hypot(ours.centre - ours.low, theirs.high - theirs.centre)
    up = math.hypot(ours.high - ours.centre, theirs.centre - theirs.low)
    coverage = min(_coverage(side, confidence) for side in (first, second) if len(side) > 1)
    return Bounds(difference - down, difference + up, coverage)


@dataclass(frozen=True)
class _Side:
    centre: float
    low: float
    high: float


def _side(samples: Sequence[float], confidence: float) -> _Side:
    """The standard deviation and the ends of its interval; without any spread all three are equal."""
    found = interval_of_spread(samples, confidence)
    spread = statistics.stdev(samples) if len(samples) > 1 else 0.0
    if found is None:
        return _Side(spread, spread, spread)
    if math.isinf(found.high):
        return _Side(spread, found.low, found.high)
    return _Side(math.sqrt(found.low * found.high), found.low, found.high)


def interval_of_spread_ratio(
    first: Sequence[float], second: Sequence[float], *, paired: bool, confidence: float
) -> Bounds | None:
    """The interval of the ratio of two standard deviations.

    `None` if both sides show no spread. If a side has too few values, the interval has no end.
    """
    if len(set(first)) <= 1 and len(set(second)) <= 1:
        return None
    ours, theirs = (_pseudo_values(side) for side in (first, second))
    found = None
    if ours is not None and theirs is not None:
        found = interval_of_difference(ours, theirs, "mean", paired=paired, confidence=confidence)
    if found is None:
        return Bounds(0.0, math.inf, confidence)
    coverage = min(_coverage(side, confidence) for side in (first, second))
    return Bounds(math.exp(found.low), math.exp(found.high), coverage)


def _pseudo_values(samples: Sequence[float]) -> list[float] | None:
    """The jackknife's pseudo-values of the deviation's logarithm; `None` if a part shows no spread."""
    count = len(samples)
    if count < _MIN_VALUES:
        return None
    parts = [statistics.stdev([*samples[:i], *samples[i + 1 :]]) for i in range(count)]
    if min(parts) <= 0.0:
        return None
    whole = math.log(statistics.stdev(samples))
    return [count * whole - (count - 1) * math.log(part) for part in parts]
