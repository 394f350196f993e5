"""Coverage of intervals: the share of intervals that contain the true value.

Student's t, the bootstrap and the jackknife aim at 95 % and miss it for few values of a distribution that is not
normal. No number of values shows the distribution of a metric with certainty. Therefore an interval has the smallest
coverage over four distributions, which a simulation found (`tests/long/coverage_of_intervals.py`): normal, log-normal
(exponential of a standard normal value), two modes (±1 times a uniform number from 0.5 to 1) and ties (normal, rounded
to whole standard deviations). Samples without any spread do not count, since they have no interval.

The coverage of order statistics follows from their ranks for any distribution: they need no table.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["t", "bootstrap of a mean", "bootstrap of a median", "jackknife"]

_SMALLEST_COVERAGE: dict[Kind, tuple[tuple[int, float], ...]] = {
    "t": (
        (2, 0.79), (3, 0.75), (4, 0.82), (8, 0.83), (11, 0.84), (14, 0.85), (17, 0.86), (22, 0.87), (28, 0.88),
        (37, 0.89), (52, 0.90), (77, 0.91), (120, 0.92), (200, 0.93), (500, 0.94),
    ),
    "bootstrap of a mean": ((10, 0.80), (15, 0.85), (20, 0.87), (30, 0.88), (50, 0.89)),
    "bootstrap of a median": ((10, 0.92),),
    "jackknife": ((2, 0.95), (4, 0.82), (5, 0.76), (6, 0.71), (8, 0.70), (15, 0.72), (30, 0.75)),
}  # fmt: skip
"""For each kind, numbers of values with the smallest coverage from that number on."""


def smallest_coverage(kind: Kind, count: int) -> float:
    """The smallest coverage over the four distributions of a 95 % interval from this number of values."""
    return next(share for least, share in reversed(_SMALLEST_COVERAGE[kind]) if least <= count)


def named(coverage: float) -> str:
    """Text for a coverage, in whole percent."""
    # 0.82 * 100 is a little less than 82.
    return f"≥ {int(100.0 * coverage + 1e-9)} %"
