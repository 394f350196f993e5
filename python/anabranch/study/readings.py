"""Values of all metrics in the runs of a study: for each level one table with a row per run and subject.

Values stay in columns until a metric at a point is asked for, so a run costs no loop over its metrics.
"""

from __future__ import annotations

import itertools
import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.metrics import DerivedMetric, by_level
from anabranch.study.part_columns import Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anabranch.metrics import Level, Metric
    from anabranch.study.part_columns import Numbers, PartColumns, Values


class DocumentParts:
    """The parts of some documents, by level; each row knows the index of its document."""

    def __init__(self, documents: PartColumns) -> None:
        """Take documents apart."""
        self.documents = documents
        self.flows, self.links, self.hosts = map(documents.items, ("flows", "links", "hosts"))
        self.run_of_flow, self.run_of_link, self.run_of_host = map(documents.owners, ("flows", "links", "hosts"))
        self.paths = self.flows.items("paths")
        self.flow_of_path = self.flows.owners("paths")
        self.run_of_path = self.run_of_flow[self.flow_of_path]

    def levels(self) -> dict[Level, tuple[PartColumns, Numbers, Texts]]:
        """The parts, the index of the document of each, and its subject."""
        flows, count = self.flows.texts("name"), self.documents.height
        return {
            "run": (self.documents, np.arange(count), Texts([""], np.zeros(count, dtype=np.int64))),
            "flow": (self.flows, self.run_of_flow, flows),
            "path": (self.paths, self.run_of_path, flows.at(self.flow_of_path).by(self.paths.texts("name"))),
            "link": (self.links, self.run_of_link, self.links.texts("name").by(self.links.texts("direction"))),
            "host": (self.hosts, self.run_of_host, self.hosts.texts("name")),
        }


class _Level:
    """The rows of a level: point, subject and a column per metric."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self._codes: dict[str, int] = {}
        self._points: list[Numbers] = []
        self._subjects: list[Numbers] = []
        self._chunks: dict[str, list[Values | None]] = {metric.name: [] for metric in metrics}
        self.names: list[str] = []
        """Names of subjects by their numbers."""
        self.columns: dict[str, Values] = {}
        """Values by metric, NaN where a row has none; a metric without any value is left out."""

    def add(self, part: PartColumns, points: Numbers, subjects: Texts) -> None:
        """Add rows."""
        self._points.append(points)
        codes = self._codes
        numbers = [codes.setdefault(str(name), len(codes)) for name in subjects.distinct]
        self._subjects.append(np.array(numbers, dtype=np.int64)[subjects.codes])
        for metric in self._metrics:
            self._chunks[metric.name].append(_values(metric, part))

    def finish(self) -> None:
        """Put the rows in the order of points and sum up the chunks."""
        self.points, self.subjects = map(_joined, (self._points, self._subjects))
        order = None
        if np.any(self.points[1:] < self.points[:-1]):
            order = np.argsort(self.points, kind="stable")
            self.points, self.subjects = self.points[order], self.subjects[order]
        self.names = list(self._codes)
        sizes = [*map(len, self._points)]
        for name in list(self._chunks):
            chunks = self._chunks.pop(name)
            if any(chunk is not None for chunk in chunks):
                column = np.concatenate([
                    np.full(size, math.nan) if chunk is None else chunk
                    for chunk, size in zip(chunks, sizes, strict=True)
                ])  # fmt: skip
                self.columns[name] = column if order is None else column[order]

    def of(self, point: int, metric: str) -> dict[str, Values]:
        """The values of each subject at a point, in the order of the runs."""
        column = self.columns.get(metric)
        if column is None:
            return {}
        begin, end = np.searchsorted(self.points, (point, point + 1))
        values, subjects = column[begin:end], self.subjects[begin:end]
        present = ~np.isnan(values)
        values, subjects = values[present], subjects[present]
        # Subjects keep the order of their first values, as tables have them.
        codes, firsts = np.unique(subjects, return_index=True)
        return {self.names[code]: values[subjects == code] for code in codes[np.argsort(firsts)]}


def _values(metric: Metric, part: PartColumns) -> Values | None:
    """The values of a metric in its unit, NaN where a part has none; `None` if no part has one."""
    if isinstance(metric, DerivedMetric):
        found = map(metric.compute, *(_read(part, key) for key in metric.reads))
        return np.fromiter(found, np.float64, part.height) * metric.scale
    values = part.numbers(metric.field) * metric.scale
    return None if np.all(np.isnan(values)) else values


def _read(part: PartColumns, key: str) -> Sequence[Any]:
    """The values of a key that a derived metric reads."""
    of_paths = key.removeprefix("paths.")
    if of_paths == key:
        return _optional(part.numbers(key))
    values, ends = _optional(part.items("paths").numbers(of_paths)), part.ends("paths").tolist()
    return [values[begin:end] for begin, end in itertools.pairwise([0, *ends])]


def _optional(values: Values) -> list[float | None]:
    """Values as a list, with `None` for NaN."""
    found: list[float | None] = values.tolist()
    for at in np.nonzero(np.isnan(values))[0].tolist():
        found[at] = None
    return found


def _joined(chunks: list[Numbers]) -> Numbers:
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int64)


class Readings:
    """The values of all metrics by point and subject, in the order of the runs."""

    def __init__(self) -> None:
        self._levels = {level: _Level(metrics) for level, metrics in by_level().items()}
        self._level_of = {metric.name: level for level, metrics in by_level().items() for metric in metrics}
        self._points: dict[str, int] = {}
        self._own: dict[tuple[str, str], dict[str, array[float]]] = {}
        self._found: dict[tuple[str, str], dict[str, Values]] = {}

    def add(self, points: Sequence[str], found: DocumentParts) -> None:
        """Add documents.

        Args:
            points: Key of the point of each document.
            found: The parts of the documents.

        """
        numbers = np.array([self._points.setdefault(point, len(self._points)) for point in points], dtype=np.int64)
        for level, (part, run_of_row, subjects) in found.levels().items():
            if level in self._levels:
                self._levels[level].add(part, numbers[run_of_row], subjects)

    def add_own(self, point: str, found: Iterable[tuple[str, str, float]]) -> None:
        """Add values of the study's own metrics in a run: name of the metric, subject and value."""
        for metric, subject, value in found:
            self._own.setdefault((point, metric), {}).setdefault(subject, array("d")).append(value)

    def finish(self) -> None:
        """End the addition of values."""
        for level in self._levels.values():
            level.finish()

    def of(self, point: str, metric: str) -> dict[str, Values]:
        """The values of each subject at a point, one for each run that has one; empty if there are none."""
        key = point, metric
        if key not in self._found:
            self._found[key] = self._find(point, metric)
        return self._found[key]

    def is_constant(self, point: str, metric: str) -> bool:
        """Whether each subject has the same value in all runs of a point."""
        return all(values.min() == values.max() for values in self._find(point, metric).values())

    def _find(self, point: str, metric: str) -> dict[str, Values]:
        level = self._level_of.get(metric)
        if level is None:
            return {subject: np.array(values) for subject, values in self._own.get((point, metric), {}).items()}
        number = self._points.get(point)
        return {} if number is None else self._levels[level].of(number, metric)
