"""Statistics of repeated runs: a mean or median and its confidence interval.

A point of a figure is the mean or the median over repetitions with independent seeds. The arithmetic is scipy's. This
module selects the interval:

- A mean has Student's t interval, which contains it with 95 % for normal samples, and less often for others.
- A median has the interval between two order statistics, which assumes no distribution. With fewer than six samples,
  the interval is from the smallest to the largest sample, and its `confidence` is below 95 %: 1 − 2^(1−n).
- Both can have a bootstrap interval instead (bias-corrected and accelerated, Efron 1987), for skewed samples. With
  fewer than ten samples, it contains the centre too rarely. For a median of samples with ties, it does not
  exist. The centre then has its usual interval.

An interval has the coverage that holds for each of four distributions (`anabranch.coverage`), not the 95 % at which
it aims.

Equal samples have no interval, because they show no spread.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from anabranch.coverage import smallest_coverage
from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.coverage import Kind

Centre = Literal["mean", "median"]
Interval = Literal["t", "order-statistics", "bootstrap"]

CONFIDENCE = 0.95
INTERVALS: dict[Centre, tuple[Interval, ...]] = {
    "mean": ("t", "bootstrap"),
    "median": ("order-statistics", "bootstrap"),
}
"""Possible intervals of each centre; the first is the default."""
RESAMPLES = 9_999
"""Resamples of a bootstrap. Their seed is fixed: equal samples give equal reports."""


@dataclass(frozen=True)
class Estimate:
    """Mean or median of one quantity over repetitions, with its interval, in the unit of the samples."""

    centre: float
    """Mean or median."""
    low: float
    """Lower end of the confidence interval; NaN if the samples give none."""
    high: float
    """Upper end of the confidence interval; NaN if the samples give none."""
    count: int
    """Number of samples."""
    interval: Interval
    """Method of the interval."""
    confidence: float
    """Smallest probability, over the distributions of `anabranch.coverage`, that such an interval contains the true
    centre; NaN without an interval."""
    all_equal: bool
    """Whether there are two or more samples and all are equal: they show no spread, and there is no interval."""


def estimate(samples: Sequence[float], centre: Centre = "mean", interval: Interval | None = None) -> Estimate:
    """Estimate a quantity from independent repetitions.

    Args:
        samples: One value per repetition.
        centre: "mean" or "median".
        interval: Method of the interval; the centre's default in `INTERVALS` if `None`.

    Raises:
        InputError: If there are no samples, or the centre cannot have this interval.

    """
    if not samples:
        raise InputError("no samples to estimate from")
    if centre not in get_args(Centre):
        raise InputError(f'a centre is "mean" or "median", not "{centre}"')
    chosen = INTERVALS[centre][0] if interval is None else interval
    if chosen not in INTERVALS[centre]:
        raise InputError(
            f'a {centre} cannot have the interval "{chosen}"; it can have {" or ".join(INTERVALS[centre])}'
        )
    import numpy as np

    values = np.asarray(samples, dtype=float)
    value = float(np.median(values) if centre == "median" else np.mean(values))
    all_equal = len(values) > 1 and bool(np.all(values == values[0]))
    low = high = confidence = math.nan
    if all_equal:
        value = float(values[0])
    elif len(values) > 1:
        if chosen == "bootstrap" and not _has_bootstrap(values, centre):
            chosen = INTERVALS[centre][0]
        low, high, reached = _INTERVALS[chosen](values, centre, CONFIDENCE)
        confidence = _coverage(chosen, centre, len(values), reached)
    return Estimate(value, low, high, len(values), chosen, confidence, all_equal)


MIN_BOOTSTRAP = 10
"""Samples from which a bootstrap interval contains the mean of a normal distribution in 90 % of cases or more."""


def _has_bootstrap(values: Any, centre: Centre) -> bool:
    """Whether the bootstrap interval of a centre has about its nominal coverage."""
    has_ties = len(set(values.tolist())) < len(values)
    return len(values) >= MIN_BOOTSTRAP and not (centre == "median" and has_ties)


def _coverage(interval: Interval, centre: Centre, count: int, reached: float) -> float:
    """The coverage of an interval that aims at a confidence and reaches it; NaN if there is none."""
    if interval == "order-statistics" or math.isnan(reached):
        return reached
    if interval == "t":
        return min(reached, smallest_coverage("t", count))
    kind: Kind = "bootstrap of a median" if centre == "median" else "bootstrap of a mean"
    return min(reached, smallest_coverage(kind, count))


@dataclass(frozen=True)
class Bounds:
    """A confidence interval of a quantity."""

    low: float
    high: float
    coverage: float
    """Smallest probability, over the distributions of `anabranch.coverage`, that such an interval contains the
    quantity; NaN if unknown."""


_MEDIAN_ERROR_RATIO = math.sqrt(math.pi / 2.0)
"""Ratio of the standard errors of median and mean, for many normal values."""


def interval_of(
    samples: Sequence[float], centre: Centre, interval: Interval, confidence: float = CONFIDENCE
) -> Bounds | None:
    """The interval of a centre; `None` if there is only one value or all values are equal.

    If order statistics or a bootstrap do not reach the confidence, the result is Student's t interval.

    Args:
        samples: The values.
        centre: The statistic that the interval is about.
        interval: The kind of interval.
        confidence: Probability that such an interval contains the true value.

    """
    import numpy as np

    if len(samples) < 2 or min(samples) == max(samples):  # noqa: PLR2004
        return None
    values = np.asarray(samples, dtype=float)
    if interval == "bootstrap" and not _has_bootstrap(values, centre):
        interval = INTERVALS[centre][0]
    low, high, reached = _INTERVALS[interval](values, centre, confidence)
    if reached >= confidence:
        return Bounds(low, high, _coverage(interval, centre, len(samples), reached))
    reach = _error(samples, centre) * _quantile(len(samples) - 1, confidence)
    return _around(_centre(samples, centre), reach, _coverage("t", centre, len(samples), confidence))


def interval_of_difference(
    first: Sequence[float],
    second: Sequence[float],
    centre: Centre,
    *,
    paired: bool,
    confidence: float = CONFIDENCE,
) -> Bounds | None:
    """The interval of the difference of two centres, from the differences of pairs or by Welch's t.

    Differences may follow any distribution, and one side may have all the spread. Therefore the coverage is that of a
    mean of as many values as the smaller side has. `None` if the samples have no spread.

    Args:
        first: Values of the one side.
        second: Values of the other side, which is subtracted.
        centre: The statistic of each side.
        paired: Whether the n-th values of both belong together.
        confidence: Probability that such an interval contains the true value.

    """
    difference = _centre(first, centre) - _centre(second, centre)
    if paired:
        errors = [a - b for a, b in zip(first, second, strict=True)]
        spread = interval_of(errors, "mean", "t", confidence)
        if spread is None:
            return None
        reach = (spread.high - spread.low) / 2.0 * relative_error(centre)
        return _around(difference, reach, spread.coverage)
    sides = [(_error(side, centre), len(side) - 1) for side in (first, second) if len(side) > 1]
    variance = math.fsum(error**2 for error, _ in sides)
    if not variance:
        return None
    freedom = variance**2 / math.fsum(error**4 / more for error, more in sides)
    count = min(len(side) for side in (first, second) if len(side) > 1)
    reach = math.sqrt(variance) * _quantile(freedom, confidence)
    return _around(difference, reach, _coverage("t", centre, count, confidence))


_MAX_LOG_RATIO = 50.0
"""Largest half width of an interval of a logarithm; a wider interval of the ratio would be of no use."""


def interval_of_ratio(
    first: Sequence[float],
    second: Sequence[float],
    centre: Centre,
    *,
    paired: bool,
    confidence: float = CONFIDENCE,
) -> Bounds | None:
    """The interval of the ratio of two centres above 0, by the logarithm (delta method).

    `None` if the samples have no spread, a centre is not above 0, or the interval is too wide for a number.

    Args:
        first: Values of the one side.
        second: Values of the other side, which divides.
        centre: The statistic of each side.
        paired: Whether the n-th values of both belong together.
        confidence: Probability that such an interval contains the true value.

    """
    above, below = _centre(first, centre), _centre(second, centre)
    if above <= 0.0 or below <= 0.0:
        return None
    scaled = [[value / above for value in first], [value / below for value in second]]
    spread = interval_of_difference(scaled[0], scaled[1], centre, paired=paired, confidence=confidence)
    if spread is None:
        return None
    reach = (spread.high - spread.low) / 2.0
    if reach > _MAX_LOG_RATIO:
        return None
    return Bounds(above / below * math.exp(-reach), above / below * math.exp(reach), spread.coverage)


def _centre(samples: Sequence[float], centre: Centre) -> float:
    return float(statistics.median(samples) if centre == "median" else statistics.fmean(samples))


def relative_error(centre: Centre) -> float:
    """Ratio of the standard errors of a centre and of the mean.

    Args:
        centre: The statistic.

    """
    return _MEDIAN_ERROR_RATIO if centre == "median" else 1.0


def _error(samples: Sequence[float], centre: Centre) -> float:
    """Standard error of a centre."""
    return statistics.stdev(samples) / math.sqrt(len(samples)) * relative_error(centre)


def _around(centre: float, reach: float, coverage: float) -> Bounds:
    return Bounds(float(centre - reach), float(centre + reach), coverage)


def _student(values: Any, _: Centre, confidence: float) -> tuple[float, float, float]:
    """Student's t interval of the mean: mean ± t · s / √n."""
    mean = float(values.mean())
    reach = float(_quantile(len(values) - 1, confidence) * values.std(ddof=1)) / math.sqrt(len(values))
    return mean - reach, mean + reach, confidence


@cache
def _quantile(freedom: float, confidence: float) -> Any:
    """Quantile of Student's t for a two-sided interval; cached because scipy takes long."""
    from scipy import special

    return special.stdtrit(freedom, 0.5 + confidence / 2.0)


def _order_statistics(values: Any, _: Centre, confidence: float) -> tuple[float, float, float]:
    """From the k-th smallest to the k-th largest sample, with the largest k that reaches the confidence."""
    ordered = sorted(float(v) for v in values)
    k = _rank(len(ordered), confidence)
    return ordered[k - 1], ordered[-k], _level(len(ordered), k)


def _bootstrap(values: Any, centre: Centre, confidence: float) -> tuple[float, float, float]:
    """The BCa interval; NaN if the samples are too similar."""
    import warnings

    import numpy as np
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.bootstrap(
            (values,), np.median if centre == "median" else np.mean, vectorized=True, method="BCa",
            confidence_level=confidence, n_resamples=RESAMPLES, rng=np.random.default_rng(1),
        ).confidence_interval  # fmt: skip
    low, high = float(found.low), float(found.high)
    return low, high, math.nan if math.isnan(low + high) else confidence


_INTERVALS = {"t": _student, "order-statistics": _order_statistics, "bootstrap": _bootstrap}


@cache
def _rank(count: int, confidence: float) -> int:
    from scipy import stats

    # The median is outside if fewer than k samples are below it, or fewer than k above it: each binom(n, 1/2).
    return max(1, int(stats.binom.ppf((1.0 - confidence) / 2.0, count, 0.5)))


@cache
def _level(count: int, rank: int) -> float:
    """Confidence of the interval between two order statistics."""
    from scipy import stats

    return 1.0 - 2.0 * float(stats.binom.cdf(rank - 1, count, 0.5))


_INTERVAL_NAMES: dict[Interval, str] = {
    "t": "Student's t",
    "bootstrap": f"bootstrap, BCa, {RESAMPLES:,} resamples",
    "order-statistics": "order statistics",
}


def describe(estimates: Iterable[Estimate], centre: Centre, requested: Interval | None = None) -> str:
    """Sentences on the centres and the intervals of some estimates.

    Args:
        estimates: The estimates.
        centre: Their statistic.
        requested: The interval that the study asks for; `None` for the default.

    """
    known = list(estimates)
    found = [e for e in known if not math.isnan(e.confidence)]
    name = centre.capitalize()
    if not found:
        reason = "equal repetitions have" if any(e.all_equal for e in known) else "without a second repetition there is"
        return f"{name}; {reason} no interval."
    kinds = sorted({e.interval for e in found}, key=list(_INTERVAL_NAMES).index)
    parts = "; ".join(_described([e for e in found if e.interval == kind], kind) for kind in kinds)
    text = f"{name} with its confidence interval: {parts}."
    if requested == "bootstrap" and kinds != ["bootstrap"]:
        few = f"fewer than {MIN_BOOTSTRAP} values" + (" or with equal ones" if centre == "median" else "")
        text += f" A bootstrap of {few} encloses the centre less often than 95 %: these points have the other interval."
    return text


def _described(found: Sequence[Estimate], kind: Interval) -> str:
    """Method and coverage of intervals of one kind, the coverage by number of runs."""
    worth = {e.count: e.confidence for e in found}
    listed = ", ".join(f"{100 * worth[n]:.3g} % with {n} runs" for n in sorted(worth))
    if kind == "order-statistics":
        fewer = ", 95 % takes six runs" if any(c < CONFIDENCE for c in worth.values()) else ""
        return f"{_INTERVAL_NAMES[kind]}, which enclose it with {listed}{fewer}"
    return (
        f"{_INTERVAL_NAMES[kind]}, which encloses it with 95 % if values are normal, and also for skewed, bimodal or "
        f"tied ones with at least {listed}"
    )
