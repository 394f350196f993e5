"""Values of all metrics in the runs of a study: for each level one table with a row per run and subject.

Values stay in columns until a metric at a point is asked for, so a run costs no loop over its metrics.
"""

from __future__ import annotations

import math
from array import array
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from anabranch.metrics import Metric, by_level
from anabranch.study.layout import ROOT
from anabranch.study.transposed import Transposed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from numpy.typing import NDArray

    from anabranch.metrics import Level
    from anabranch.study.typed import Part

    Values = NDArray[np.float64]
    Numbers = NDArray[np.int64]


class DocumentParts:
    """The parts of some documents, by level; each row knows the index of its document."""

    def __init__(self, documents: Sequence[Part]) -> None:
        """Transpose documents."""
        self.documents = Transposed(ROOT, documents)
        flows_of, links_of = self.documents.column("flows"), self.documents.column("links")
        hosts_of = [hosts or () for hosts in self.documents.column("hosts")]
        flows = [*chain.from_iterable(flows_of)]
        paths_of = [flow["paths"] for flow in flows]
        self.run_of_flow, self.run_of_link, self.run_of_host = map(_owners, (flows_of, links_of, hosts_of))
        self.flow_of_path = _owners(paths_of)
        self.run_of_path = self.run_of_flow[self.flow_of_path]
        self.flows = Transposed("FlowResult", flows)
        self.paths = Transposed("PathResult", [*chain.from_iterable(paths_of)])
        self.links = Transposed("LinkResult", [*chain.from_iterable(links_of)])
        self.hosts = Transposed("HostResult", [*chain.from_iterable(hosts_of)])

    def levels(self) -> dict[Level, tuple[Transposed, Numbers, Sequence[str]]]:
        """The parts, the index of the document of each, and its subject."""
        names = self.flows.column("name")
        flow_of_path = self.flow_of_path.tolist()
        paths = [f"{names[flow]}/{path}" for flow, path in zip(flow_of_path, self.paths.column("name"), strict=True)]
        links = [*map("{}/{}".format, self.links.column("name"), self.links.column("direction"))]
        return {
            "run": (self.documents, np.arange(len(self.documents.rows)), [""] * len(self.documents.rows)),
            "flow": (self.flows, self.run_of_flow, names),
            "path": (self.paths, self.run_of_path, paths),
            "link": (self.links, self.run_of_link, links),
            "host": (self.hosts, self.run_of_host, self.hosts.column("name")),
        }


def _owners(lists: Sequence[Sized]) -> Numbers:
    """For each entry of all lists the index of its list."""
    return np.repeat(np.arange(len(lists)), np.array([*map(len, lists)], dtype=np.int64))


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

    def add(self, part: Transposed, points: Numbers, subjects: Sequence[str]) -> None:
        """Add rows."""
        self._points.append(points)
        codes = self._codes
        self._subjects.append(
            np.fromiter((codes.setdefault(name, len(codes)) for name in subjects), np.int64, len(subjects))
        )
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


def _values(metric: Metric, part: Transposed) -> Values | None:
    """The values of a metric in its unit, NaN where a part has none; `None` if no part has one."""
    if type(metric) is not Metric:
        return np.array([metric.value(cast("Mapping[str, Any]", row)) for row in part.rows], dtype=np.float64)
    column = part.values(metric.field)
    lacking = column.count(None)
    if lacking == len(column):
        return None
    # An array of Python takes numbers twice as fast as one of numpy, but not `None`.
    values = np.array(column, dtype=np.float64) if lacking else np.frombuffer(array("d", column))
    return values * metric.scale


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
