"""Intervals of several quantities that hold together, for the largest or the smallest of them.

The largest of several estimates is on average above the largest true value, and the more so, the closer the true
values are. A bootstrap that takes the maximum of each resample repeats this error: for equal true values its interval
lies above them in 43 to 99 % of cases. This module bootstraps the largest deviation instead, with each deviation in
units of its standard error (Romano and Wolf 2005). Its quantile is the common factor of all standard errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.stats import CONFIDENCE, MIN_BOOTSTRAP, RESAMPLES, Bounds, relative_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.stats import Centre

_MAX_EXPONENT = 700.0
"""Largest exponent that is passed to `math.exp`, which overflows above 709."""


@dataclass(frozen=True)
class Samples:
    """The samples of one centre, or those of both centres of a difference or a ratio."""

    first: Sequence[float]
    second: Sequence[float] = ()
    is_paired: bool = False
    """Whether the n-th values of `first` and `second` are a pair, for example of runs with the same seed."""
    is_ratio: bool = False

    @property
    def are_enough(self) -> bool:
        """Whether there are enough samples for a bootstrap to reach its nominal coverage."""
        return min(len(self.first), len(self.second) or len(self.first)) >= MIN_BOOTSTRAP


@dataclass(frozen=True)
class Simultaneous:
    """The intervals of several quantities."""

    single: list[Bounds]
    """Each interval contains its quantity with a probability of 95 %."""
    joint: list[Bounds]
    """All intervals together contain their quantities with a probability of 95 %."""


def simultaneous_intervals(samples: Sequence[Samples], centre: Centre) -> Simultaneous | None:
    """The intervals of several quantities from their resamples.

    `None` if a sample has fewer than ten values, none has any spread, or a ratio is not of positive centres.
    """
    import numpy as np

    if not samples or not all(each.are_enough for each in samples):
        return None
    rng = np.random.default_rng(1)
    tail = (1.0 - CONFIDENCE) / 2.0
    scales, single = [], []
    least, most = np.full(RESAMPLES, math.inf), np.full(RESAMPLES, -math.inf)
    for each in samples:
        scale = _scale(each, centre)
        if scale is None:
            return None
        scales.append(scale)
        deviations = _deviations(each, centre, rng) if scale.error else np.zeros(RESAMPLES)
        single.append(scale.bounds(*_ends(deviations, deviations, tail)))
        if scale.error:
            least, most = np.minimum(least, deviations), np.maximum(most, deviations)
    if not any(scale.error for scale in scales):
        return None
    low, high = _ends(least, most, tail)
    return Simultaneous(single, [scale.bounds(low, high) for scale in scales])


@dataclass(frozen=True)
class _Scale:
    """An estimate with its standard error; for a ratio the error is that of its logarithm."""

    estimate: float
    error: float
    is_ratio: bool

    def bounds(self, low: float, high: float) -> Bounds:
        """The interval from the quantiles of the deviation, in standard errors."""
        reach = [-step * self.error if self.error else 0.0 for step in (high, low)]
        if self.is_ratio:
            low, high = (self.estimate * _exponential(step) for step in reach)
        else:
            low, high = (self.estimate + step for step in reach)
        return Bounds(low, high, math.nan)


def _exponential(value: float) -> float:
    return math.inf if value > _MAX_EXPONENT else math.exp(value)


def _scale(samples: Samples, centre: Centre) -> _Scale | None:
    import numpy as np

    first = np.asarray([samples.first], dtype=float)
    if not samples.second:
        return _Scale(float(_centres(first, centre)[0]), float(_errors(first, centre)[0]), is_ratio=False)
    second = np.asarray([samples.second], dtype=float)
    above, below = float(_centres(first, centre)[0]), float(_centres(second, centre)[0])
    if samples.is_ratio:
        if above <= 0.0 or below <= 0.0:
            return None
        first, second = first / above, second / below
    error = float(_errors_of_two(first, second, centre, samples.is_paired)[0])
    return _Scale(above / below if samples.is_ratio else above - below, error, samples.is_ratio)


def _deviations(samples: Samples, centre: Centre, rng: Any) -> Any:
    """Deviations of the resamples from the estimate, each in units of its standard error."""
    import numpy as np

    first = np.asarray(samples.first, dtype=float)
    places = rng.integers(0, len(first), (RESAMPLES, len(first)))
    if not samples.second:
        drawn = first[places]
        return _ratio(_centres(drawn, centre) - _centres(first[None], centre), _errors(drawn, centre))
    second = np.asarray(samples.second, dtype=float)
    if samples.is_ratio:
        first, second = first / _centres(first[None], centre), second / _centres(second[None], centre)
    theirs = places if samples.is_paired else rng.integers(0, len(second), (RESAMPLES, len(second)))
    ours, others = first[places], second[theirs]
    shift = _centres(first[None], centre) - _centres(second[None], centre)
    differences = _centres(ours, centre) - _centres(others, centre) - shift
    return _ratio(differences, _errors_of_two(ours, others, centre, samples.is_paired))


def _ratio(differences: Any, errors: Any) -> Any:
    """Quotients; infinite for a resample without spread, and 0 for one that also equals the estimate."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(differences / errors, nan=0.0, posinf=math.inf, neginf=-math.inf)


def _centres(rows: Any, centre: Centre) -> Any:
    import numpy as np

    return np.median(rows, axis=1) if centre == "median" else rows.mean(axis=1)


def _errors(rows: Any, centre: Centre) -> Any:
    """Standard errors of the centres of rows."""
    # Equal values may have a deviation by rounding.
    spread = rows.std(axis=1, ddof=1) * (rows.max(axis=1) > rows.min(axis=1))
    return spread / math.sqrt(rows.shape[1]) * relative_error(centre)


def _errors_of_two(first: Any, second: Any, centre: Centre, is_paired: bool) -> Any:
    """Standard errors of the differences of the centres of rows."""
    import numpy as np

    if is_paired:
        return _errors(first - second, centre)
    return np.hypot(_errors(first, centre), _errors(second, centre))


def _ends(least: Any, most: Any, tail: float) -> tuple[float, float]:
    """The quantiles of the smallest and the largest deviation; no interpolation, because some may be infinite."""
    import numpy as np

    low = np.quantile(least, tail, method="lower")
    high = np.quantile(most, 1.0 - tail, method="higher")
    return float(low), float(high)
