"""Deviations from published values, and the groups in which a study summarises them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch.stats import Estimate
    from anabranch.study.model import Study
    from anabranch.study.published import Published
    from anabranch.sweep import Point


@dataclass(frozen=True)
class Comparison:
    """Our value and the published one of one flow at one point."""

    point: Point
    subject: str
    ours: Estimate
    published: float | None
    deviation: float | None
    """(ours − published) divided by the study's reference value."""


@dataclass(frozen=True)
class Summary:
    """Deviations of a group of points: |ours − published| / reference, and the sums of all flows."""

    group: str
    values: int
    median: float
    p90: float
    largest: float
    within_tenth: float
    """Share of values with a deviation of at most 0.10."""
    points: int
    sums_agree: float
    """Share of points at which the sum of all flows is within the study's tolerance of the published sum; NaN if all
    published sums are 0, as for the two below."""
    sums_agree_as_printed: float
    """The same with our values truncated or rounded as the publication prints its values."""
    sum_median: float
    """Median of (our sum − published sum) / published sum."""


class _AtPoint(Protocol):
    @property
    def point(self) -> Point: ...


_T = TypeVar("_T", bound=_AtPoint)


def grouped(study: Study, items: Sequence[_T]) -> dict[str, list[_T]]:
    """Groups of a table of deviations by their names; no group is empty.

    The study's own groups come first, then the publication's tables, then each experiment by its grouping parameter. A
    study without published values is grouped by experiment and by each parameter whose values are words.
    """
    groups: dict[str, list[_T]] = {}
    published = study.published
    for group in published.groups if published is not None else ():
        groups[group.name] = [
            i for i in items if i.point.experiment == group.experiment and matches(i.point.values, group.where)
        ]
    for names in (_table_of, _group_of) if published is not None else (_group_of, _words_of):
        for item in items:
            for name in names(study, item.point):
                groups.setdefault(name, []).append(item)
    return {name: found for name, found in groups.items() if found}


def _table_of(study: Study, point: Point) -> list[str]:
    table = study.published.table_of(point) if study.published is not None else ""
    return [f"Table {table}"] if table else []


def _group_of(study: Study, point: Point) -> list[str]:
    group_by = study.published.group_by if study.published is not None else ""
    names = [study.experiments[point.experiment].title] if len(study.experiments) > 1 else []
    if group_by in point.values:
        names.append(plain(point.values[group_by]))
    return [": ".join(names) or study.title]


def _words_of(study: Study, point: Point) -> list[str]:
    return [
        f"{study.parameters[name].label or name}: {value}"
        for name, value in point.values.items()
        if isinstance(value, str)
    ]


def summary_of(group: str, comparisons: Sequence[Comparison], published: Published) -> Summary:
    """The distribution of the deviations of a group of values."""
    deviations = [abs(c.deviation) for c in comparisons if c.deviation is not None]
    exact = _deviations_of_sums(comparisons, lambda value: value)
    printed = _deviations_of_sums(comparisons, published.as_printed)

    def agree(relative: Sequence[float]) -> float:
        return sum(abs(r) <= published.sum_tolerance for r in relative) / len(relative) if relative else math.nan

    return Summary(
        group=group,
        values=len(deviations),
        median=statistics.median(deviations),
        p90=float(np.quantile(deviations, 0.9)),
        largest=max(deviations),
        within_tenth=sum(d <= 0.1 for d in deviations) / len(deviations),  # noqa: PLR2004
        points=len(exact),
        sums_agree=agree(exact),
        sums_agree_as_printed=agree(printed),
        sum_median=statistics.median(exact) if exact else math.nan,
    )


def _deviations_of_sums(comparisons: Sequence[Comparison], shown: Callable[[float], float]) -> list[float]:
    """(our sum − published sum) / published sum of each point, with our values shown in some way."""
    sums: dict[str, tuple[float, float]] = {}
    for c in comparisons:
        ours, theirs = sums.get(c.point.key, (0.0, 0.0))
        sums[c.point.key] = (ours + shown(c.ours.centre), theirs + (c.published or 0.0))
    return [(ours - theirs) / theirs for ours, theirs in sums.values() if theirs]
