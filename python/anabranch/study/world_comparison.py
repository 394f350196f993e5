"""A study in several worlds: the published value of each cell, and the result of every world."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from anabranch.study.deviations import grouped
from anabranch.study.keys import SUM_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anabranch.stats import Estimate
    from anabranch.study.analysis import Analysis
    from anabranch.study.model import Study
    from anabranch.sweep import Point, Value

PUBLISHED = "published"


@dataclass(frozen=True)
class Cell:
    """One flow at one point."""

    point: Point
    subject: str
    published: float | None
    worlds: Mapping[str, Estimate]
    """Results by world; a world without a run of the cell is left out."""
    late: Mapping[str, int]
    """Number of a world's runs on a machine that could not keep up; worlds without such runs are missing."""
    reference: float | None
    """Divisor of deviations; if `None`, the second of the two values divides."""

    def value(self, column: str) -> float | None:
        """Value in a column: that of a world, or the published one."""
        if column == PUBLISHED:
            return self.published
        found = self.worlds.get(column)
        return None if found is None else found.centre

    def deviation(self, of: str, base: str) -> float | None:
        """(value − value of the base) / reference; `None` without both values, or if it would be a share of 0."""
        ours, theirs = self.value(of), self.value(base)
        if ours is None or theirs is None:
            return None
        divisor = theirs if self.reference is None else self.reference
        return (ours - theirs) / divisor if divisor else None


@dataclass(frozen=True)
class Distance:
    """How far two columns are from each other over a group of cells."""

    values: int
    """Number of cells with a value in both columns."""
    median: float
    """Median of the absolute deviations."""
    p90: float
    largest: float
    points: int
    """Points whose flows were added up."""
    sums_agree: float
    """Share of the points at which the two sums differ by at most the study's tolerance."""


class WorldComparison:
    """The runs of a study in several worlds, each as it is: other forms, other numbers of repetitions, gaps."""

    def __init__(self, study: Study, analyses: Mapping[str, Analysis]) -> None:
        """Store the analysis of each world by its name."""
        self.study = study
        self.analyses = dict(analyses)
        self.columns = [*([PUBLISHED] if study.published is not None else []), *self.analyses]
        """The columns of values, from left to right."""
        self.pairs = [(of, base) for i, of in enumerate(self.columns) for base in self.columns[:i]]
        """Pairs of columns that are compared: (later, earlier)."""

    @cached_property
    def points(self) -> list[Point]:
        """All points that any world has a run of, in the order of the study."""
        found: dict[str, Point] = {}
        for analysis in self.analyses.values():
            for point in analysis.points():
                found.setdefault(point.key, point)
        values = {name: _values(self.study, name, found.values()) for name in self.study.parameters}
        experiments = list(self.study.experiments)

        def place(point: Point) -> tuple[int, ...]:
            over = self.study.experiments[point.experiment].over
            return experiments.index(point.experiment), *(values[name].index(point.values[name]) for name in over)

        return sorted(found.values(), key=place)

    @cached_property
    def cells(self) -> list[Cell]:
        """Every flow at every point that any world has."""
        by_point: dict[str, dict[str, dict[str, Estimate]]] = {}
        for world, analysis in self.analyses.items():
            for c in analysis.comparisons:
                by_point.setdefault(c.point.key, {}).setdefault(c.subject, {})[world] = c.ours
        found = []
        for point in self.points:
            published = self.study.published.at(point) if self.study.published is not None else {}
            counts = {world: analysis.late(point) for world, analysis in self.analyses.items()}
            for subject, worlds in by_point[point.key].items():
                late = {world: counts[world] for world in worlds if counts[world]}
                found.append(Cell(point, subject, published.get(subject), worlds, late, self._reference(point)))
        return found

    def _reference(self, point: Point) -> float | None:
        name = self.study.published.relative_to if self.study.published is not None else ""
        return float(point.values[name]) if name in point.values else None

    @cached_property
    def compared(self) -> list[Cell]:
        """The cells for deviations: those that every world has and none ran late. All pairs of worlds have the same."""
        return [c for c in self.cells if len(c.worlds) == len(self.analyses) and not c.late]

    @cached_property
    def groups(self) -> dict[str, list[Cell]]:
        """The compared cells by table, experiment and control, and all of them."""
        groups = grouped(self.study, self.compared)
        return {**groups, "All": self.compared} if self.compared else groups

    def distance(self, cells: Sequence[Cell], of: str, base: str) -> Distance | None:
        """How far two columns are apart over some cells; `None` if no cell has both."""
        found = [(cell, d) for cell in cells if (d := cell.deviation(of, base)) is not None]
        if not found:
            return None
        deviations = [abs(d) for _, d in found]
        sums: dict[str, tuple[float, float]] = {}
        for cell, _ in found:
            ours, theirs = sums.get(cell.point.key, (0.0, 0.0))
            sums[cell.point.key] = (ours + (cell.value(of) or 0.0), theirs + (cell.value(base) or 0.0))
        tolerance = self.sum_tolerance
        agree = [abs(ours - theirs) <= tolerance * abs(theirs) for ours, theirs in sums.values()]
        return Distance(
            values=len(deviations),
            median=statistics.median(deviations),
            p90=float(np.quantile(deviations, 0.9)),
            largest=max(deviations),
            points=len(agree),
            sums_agree=sum(agree) / len(agree),
        )

    @property
    def sum_tolerance(self) -> float:
        """Largest relative difference at which two sums of a point agree."""
        return self.study.published.sum_tolerance if self.study.published is not None else SUM_TOLERANCE


def _values(study: Study, name: str, points: Iterable[Point]) -> list[Value]:
    """All values of a parameter that occur, those of the study first and in its order."""
    own = study.parameters[name].values
    return list(dict.fromkeys([*own, *(p.values[name] for p in points if name in p.values)]))
