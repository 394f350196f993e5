"""Statistics of repeated runs: a centre with its confidence interval, and quantiles.

A point of a figure is the mean (or the median) over repetitions with independent seeds. The interval is always
Student's t interval of the mean: with five repetitions no distribution-free interval of a median reaches 95 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Centre = Literal["mean", "median"]


@dataclass(frozen=True)
class Estimate:
    """What repetitions say about one quantity, in the unit of the samples."""

    centre: float
    """Mean or median, whichever was asked for."""
    half_width: float
    """Half of the confidence interval of the mean; NaN with fewer than two samples."""
    count: int
    """Number of samples."""

    @property
    def low(self) -> float:
        """Lower end of the interval, drawn around the centre."""
        return self.centre - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval, drawn around the centre."""
        return self.centre + self.half_width


def t_half_width(samples: Sequence[float], confidence: float = 0.95) -> float:
    """Half of Student's t interval of the mean: t · s / √n; NaN with fewer than two samples.

    Raises:
        ValueError: If the confidence is not between 0 and 1.

    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    count = len(samples)
    if count < 2:  # noqa: PLR2004  one sample says nothing about its spread
        return math.nan
    from scipy.special import stdtrit

    mean = math.fsum(samples) / count
    variance = math.fsum((x - mean) ** 2 for x in samples) / (count - 1)
    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2.0))
    return quantile * math.sqrt(variance / count)


def estimate(samples: Sequence[float], centre: Centre = "mean", confidence: float = 0.95) -> Estimate:
    """Estimate a quantity from the samples of independent repetitions.

    Raises:
        ValueError: If there are no samples, or the confidence is not between 0 and 1.

    """
    if not samples:
        raise ValueError("no samples to estimate from")
    value = median(samples) if centre == "median" else math.fsum(samples) / len(samples)
    return Estimate(value, t_half_width(samples, confidence), len(samples))


def median(samples: Sequence[float]) -> float:
    """Median: the middle sample, or the mean of the two middle ones."""
    return quantile(samples, 0.5)


def quantile(samples: Sequence[float], share: float) -> float:
    """Quantile by linear interpolation between the order statistics (Hyndman and Fan's type 7).

    Raises:
        ValueError: If there are no samples, or the share is not between 0 and 1.

    """
    if not samples:
        raise ValueError("no samples to take a quantile of")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the share of a quantile lies between 0 and 1, not at {share}")
    ordered = sorted(samples)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    return low + (high - low) * (position - below)
