"""Differences of metrics between two sides, with intervals and verdicts.

Runs are paired by seed where a point has the same seeds on both sides, each once: the interval is Student's t of the
differences of pairs. Otherwise it is Welch's t of two independent samples.

If all differences of a metric are equal, Student's t has no spread to use. The interval is then that difference alone,
from six pairs on: the argument of order statistics (see `anabranch.stats`) gives 95 % there. There is no interval if no
metric depends on the seed, because further seeds then add nothing.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.metrics import HIGHER_IS_BETTER, LOWER_IS_BETTER, METRICS
from anabranch.stats import Bounds, interval_of_difference, interval_of_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.comparison.samples import Group, Key, Side

Verdict = Literal["better", "worse", "higher", "lower", "equal", "no difference shown", "no interval"]

_PLACES = {metric: place for place, metric in enumerate(METRICS)}

MIN_EQUAL = 6
"""Fewest equal differences that give an interval: 1 − 2^(1−6) is the first confidence above 95 %."""


@dataclass(frozen=True)
class Difference:
    """One metric of one subject on a side, against the baseline."""

    side: str
    """Name of the side."""
    point: str
    """Title of the point of a study; empty for other runs."""
    metric: str
    subject: str
    baseline: float
    """Mean of the baseline, in the metric's unit."""
    value: float
    """Mean of the side, in the metric's unit."""
    interval: Bounds | None
    """Interval of `value` − `baseline`; `None` if there are too few runs."""
    relative: float | None
    """`value` / `baseline` − 1; `None` if the baseline is 0 and the value is not."""
    relative_interval: Bounds | None
    paired: bool
    """Whether the interval comes from pairs of runs with the same seed."""
    counts: tuple[int, int]
    """Number of values of the baseline and of the side."""

    @property
    def difference(self) -> float:
        """`value` − `baseline`, in the metric's unit."""
        return self.value - self.baseline

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and (self.interval.low > 0.0 or self.interval.high < 0.0)

    @property
    def verdict(self) -> Verdict:
        """The verdict that the interval allows."""
        if self.interval is None:
            return "no interval"
        if self.interval.low == self.interval.high == 0.0:
            return "equal"
        if not self.is_shown:
            return "no difference shown"
        is_higher = self.interval.low > 0.0
        if self.metric in HIGHER_IS_BETTER:
            return "better" if is_higher else "worse"
        if self.metric in LOWER_IS_BETTER:
            return "worse" if is_higher else "better"
        return "higher" if is_higher else "lower"

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "side": self.side,
            "point": self.point,
            "metric": self.metric,
            "subject": self.subject,
            "unit": METRICS[self.metric].unit,
            "baseline": self.baseline,
            "value": self.value,
            "difference": self.difference,
            "difference_interval": _ends(self.interval),
            "coverage": None if self.interval is None else self.interval.coverage,
            "relative": self.relative,
            "relative_interval": _ends(self.relative_interval),
            "paired": self.paired,
            "baseline_count": self.counts[0],
            "count": self.counts[1],
            "verdict": self.verdict,
        }


def _ends(bounds: Bounds | None) -> list[float] | None:
    return None if bounds is None else [bounds.low, bounds.high]


@dataclass(frozen=True)
class Missing:
    """A metric of a subject that only one of two sides has."""

    side: str
    """Name of the side without the metric."""
    point: str
    metric: str
    subject: str


def differences(baseline: Side, side: Side) -> Iterator[Difference | Missing]:
    """Compare a side with the baseline, at each point that both have."""
    for point, first in baseline.groups.items():
        second = side.groups.get(point)
        if second is None:
            continue
        paired, varies = _has_pairs(first, second), first.varies or second.varies
        keys = dict.fromkeys([*first.values, *second.values])
        for metric, subject in sorted(keys, key=lambda key: _PLACES[key[0]]):
            key = (metric, subject)
            if key not in first.values or key not in second.values:
                lacking = side.name if key in first.values else baseline.name
                yield Missing(lacking, point, metric, subject)
                continue
            one, other = _samples(first, second, key, paired=paired)
            if not one:
                yield Missing(side.name, point, metric, subject)
                continue
            means = statistics.fmean(one), statistics.fmean(other)
            interval = _interval(one, other, paired=paired, varies=varies)
            relative, relative_interval = _relative(one, other, interval, paired=paired)
            counts = (len(one), len(other))
            yield Difference(side.name, point, *key, *means, interval, relative, relative_interval, paired, counts)


def _has_pairs(first: Group, second: Group) -> bool:
    """Whether two groups have the same seeds, each once."""
    seeds = set(first.seeds)
    return len(seeds) == len(first.seeds) == len(second.seeds) and seeds == set(second.seeds)


def _samples(first: Group, second: Group, key: Key, *, paired: bool) -> tuple[Sequence[float], Sequence[float]]:
    """The values of both sides; pairs that lack a value are left out."""
    if not paired:
        return first.values[key][1], second.values[key][1]
    one, other = first.by_seed(key), second.by_seed(key)
    seeds = [seed for seed in one if seed in other]
    return [one[seed] for seed in seeds], [other[seed] for seed in seeds]


def _interval(first: Sequence[float], second: Sequence[float], *, paired: bool, varies: bool) -> Bounds | None:
    """The interval of the mean of `second` − that of `first`; `varies` if any metric depends on the seed."""
    fewest = min(len(first), len(second))
    if fewest < 2:  # noqa: PLR2004
        return None
    found = interval_of_difference(second, first, "mean", paired=paired)
    if found is not None:
        return found
    difference = statistics.fmean(second) - statistics.fmean(first)
    has_one = difference == 0.0 or (varies and fewest >= MIN_EQUAL)
    return Bounds(difference, difference, 1.0 - 2.0 ** (1 - fewest)) if has_one else None


def _relative(
    first: Sequence[float], second: Sequence[float], interval: Bounds | None, *, paired: bool
) -> tuple[float | None, Bounds | None]:
    """The difference relative to the mean of `first`, with the interval."""
    before, after = statistics.fmean(first), statistics.fmean(second)
    if before == 0.0:
        return (None, None) if after else (0.0, interval)
    relative = (after - before) / abs(before)
    if interval is None:
        return relative, None
    ratio = interval_of_ratio(second, first, "mean", paired=paired)
    if ratio is not None:
        return relative, Bounds(ratio.low - 1.0, ratio.high - 1.0, ratio.coverage)
    # A mean that is not above 0 has no logarithm: take the baseline as exact.
    return relative, Bounds(interval.low / abs(before), interval.high / abs(before), interval.coverage)
