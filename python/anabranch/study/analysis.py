"""Evaluation of finished runs: estimates per point, deviations from published values, verdicts on claims."""

from __future__ import annotations

import collections
import itertools
import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from anabranch.diagnostics import diagnose
from anabranch.extremes import Samples, simultaneous_intervals
from anabranch.fairness.shares import fair
from anabranch.metrics import FairnessMetric, read_all
from anabranch.scenario import Scenario
from anabranch.spread import interval_of_spread, interval_of_spread_difference, interval_of_spread_ratio
from anabranch.stats import (
    INTERVALS,
    Estimate,
    describe,
    estimate,
    interval_of,
    interval_of_difference,
    interval_of_ratio,
)
from anabranch.study.claims import KEYS, Verdict, evaluate
from anabranch.study.collection import collection_paused
from anabranch.study.deviations import Comparison, Summary, grouped, summary_of
from anabranch.study.engine import request_of
from anabranch.study.own_metrics import OwnMetrics
from anabranch.study.readings import DocumentParts, Readings
from anabranch.study.records import MAX_BYTES, RecordReader
from anabranch.study.silences import runs_to_diagnose
from anabranch.study.store import UnreadableRecord, run_keys
from anabranch.sweep import matches, plain
from anabranch.theory import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch.extremes import Simultaneous
    from anabranch.fairness.shares import Fairness
    from anabranch.stats import Bounds, Centre
    from anabranch.study.claims import Claim, Pair
    from anabranch.study.figures import Figure, Reference
    from anabranch.study.model import Effort, Run, Study
    from anabranch.study.records import Records
    from anabranch.study.store import StoredRun
    from anabranch.sweep import Point


_BATCH = 2_000
"""Maximum number of runs whose documents are in memory at a time; those of more do not fit a processor's caches."""


class Batch:
    """Some runs with their documents."""

    def __init__(self, found: Sequence[tuple[Run, StoredRun]], records: Records) -> None:
        """Make a batch of runs with readable records."""
        self.runs = [run for run, _ in found]
        self.stored = [stored for _, stored in found]
        self.records = records
        self.parts = DocumentParts(records.documents)


class _Pass:
    """Values that a pass over all documents collects."""

    def __init__(self) -> None:
        self._reader = RecordReader()
        self.readings = Readings()
        self.late: Counter[str] = Counter()
        self.silent: list[str] = []
        self.kept: list[tuple[Run, StoredRun]] = []
        self.unreadable: list[str] = []

    def read(self, runs: Sequence[tuple[Run, StoredRun]]) -> Batch:
        """Read the documents of some runs."""
        found = []
        for run, stored in runs:
            try:
                self._reader.add(stored)
            except UnreadableRecord as error:
                self.unreadable.append(f"{run.title}: {error}")
            else:
                found.append((run, stored))
        self.kept += found
        return Batch(found, self._reader.take())


def _batched(runs: Sequence[tuple[Run, StoredRun]]) -> Iterator[Sequence[tuple[Run, StoredRun]]]:
    """Consecutive runs: at most `_BATCH` of them, with at most `MAX_BYTES` of documents unless one is larger."""
    begin, stored_bytes = 0, 0
    for end, (_, stored) in enumerate(runs):
        stored_bytes += stored.length
        if end - begin == _BATCH or (stored_bytes > MAX_BYTES and end > begin):
            yield runs[begin:end]
            begin, stored_bytes = end, stored.length
    if runs:
        yield runs[begin:]


class Analysis:
    """The finished runs of one form of a study."""

    def __init__(self, study: Study, effort: Effort, records: Mapping[str, StoredRun], build: str = "") -> None:
        """Take the runs of the study from the stored runs; only those of one build if one is given."""
        self.study = study
        self.effort = effort
        self._runs: list[tuple[Run, StoredRun]] = []
        self._missing = 0
        self._unreadable: list[str] = []
        with collection_paused():
            for _, repetitions in itertools.groupby(study.runs(effort), key=lambda run: id(run.point)):
                runs = [*repetitions]
                keys = run_keys(request_of(study, runs[0]), [run.seed for run in runs])
                for run, record in zip(runs, map(records.get, keys), strict=True):
                    if record is None or (build and record.build != build):
                        self._missing += 1
                    else:
                        self._runs.append((run, record))
        self.is_interim = False
        """Whether the study is still running, so that more runs will come."""
        self.is_empty = not self._runs
        """Whether the store has no run of this study."""
        self.stale = len(records) - len({record.key for _, record in self._runs})
        """Number of stored runs that are not used: not of this study as it is now defined, or of another build."""
        self._cache: dict[tuple[str, str], dict[str, Estimate]] = {}
        self._fairness: dict[str, Fairness] = {}
        self._fair: dict[tuple[str, str], dict[str, list[float]]] = {}
        """The values of metrics of fairness, by point and metric."""
        self._readings: Readings | None = None
        """The values of all metrics, once all documents have been gone through."""
        self._late: Counter[str] = Counter()
        self._silent: list[str] = []
        self._durations: dict[str, float] = {}
        self.own = OwnMetrics(study.own.values())
        """The study's own metrics."""

    @property
    def runs(self) -> list[tuple[Run, StoredRun]]:
        """Finished runs that can be read, in the order of the study."""
        return self._runs if self.read() else []

    @property
    def missing(self) -> int:
        """Number of runs that are not finished or cannot be read."""
        return self._missing + len(self.unreadable)

    @property
    def unreadable(self) -> list[str]:
        """For each stored run whose layout is not this version's: its title and the difference."""
        return self._unreadable if self.read() else []

    @cached_property
    def builds(self) -> set[str]:
        """Fingerprints of the simulators that ran the runs."""
        return {record.build for _, record in self.runs}

    def batches(self) -> Iterator[Batch]:
        """All finished runs with their documents, some at a time; records of another layout are left out.

        Documents are not kept, and reading them is most of the work of a report. The first complete pass therefore
        collects the values of all metrics for all later uses.
        """
        is_first = self._readings is None
        found = _Pass()
        self.own.undefined = Counter() if is_first else self.own.undefined
        for runs in _batched(self._runs):
            batch = found.read(runs)
            if is_first:
                found.readings.add([run.point.key for run in batch.runs], batch.parts)
                self._collect(found, batch)
            yield batch
            del batch  # Its documents would stay in memory while the next ones are read.
        if is_first:
            found.readings.finish()
            self._readings, self._late, self._silent = found.readings, found.late, found.silent
            self._runs, self._unreadable = found.kept, found.unreadable

    def _collect(self, found: _Pass, batch: Batch) -> None:
        """Collect from documents all but the values of the usual metrics."""
        documents = batch.parts.documents
        points = [run.point.key for run in batch.runs]
        self._durations.update(zip(points, documents.numbers("duration_s").tolist(), strict=True))
        (late,) = np.nonzero(documents.flags("host.lateness.overloaded"))
        found.late.update(points[at] for at in late.tolist())
        for at in runs_to_diagnose(batch.parts).tolist():
            found.silent += diagnose(batch.stored[at].record().document)[:1]
        if self.own.metrics:
            for run, stored in zip(batch.runs, batch.stored, strict=True):
                found.readings.add_own(run.point.key, self._own_values(run.point, stored.record().document))

    def _own_values(self, point: Point, document: Document) -> Iterator[tuple[str, str, float]]:
        """Name of the study's own metric, subject and value, for each with a value in a document."""
        return self.own.read(document, list(read_all(document)), lambda: self.fairness(point))

    @property
    def undefined(self) -> list[str]:
        """A sentence for each own metric and each reason for which it lacks values."""
        return self.own.notes if self.read() else []

    def read(self) -> Readings:
        """Read all documents, unless that has been done, and return the values of all metrics."""
        while self._readings is None:
            with collection_paused():
                collections.deque(self.batches(), maxlen=0)
        return self._readings

    @property
    def overloaded(self) -> int:
        """Number of runs on a machine that could not keep up with its network."""
        return sum(self.late(point) for point in self.points())

    def late(self, point: Point) -> int:
        """Number of a point's runs on a machine that could not keep up with its network.

        Args:
            point: A point of the study.

        """
        return self._late[point.key] if self.read() else 0

    def duration_s(self, point: Point) -> float:
        """How long a run of a point lasts.

        Args:
            point: A point of the study.

        """
        return self._durations[point.key] if self.read() else 0.0

    @property
    def silences(self) -> list[str]:
        """A sentence for each run with a flow that carried no data or fell back to plain TCP."""
        return self._silent if self.read() else []

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(run.point.key for run, _ in self.runs)

    @cached_property
    def _points(self) -> list[Point]:
        return [p for p in self._expected if p.key in self._counts]

    def points(self) -> Sequence[Point]:
        """All points with at least one finished run, in the order of the study."""
        return self._points

    def expected(self) -> Sequence[Point]:
        """All points of this form of the study, measured or not."""
        return self._expected

    @cached_property
    def _expected(self) -> list[Point]:
        return self.study.points(self.effort)

    def estimates(self, point: Point, metric: str) -> dict[str, Estimate]:
        """Estimate of a metric at a point, by subject. A subject without a value in any run is left out.

        Args:
            point: A point of the study.
            metric: Name of a metric.

        """
        cached = self._cache.get((point.key, metric))
        if cached is not None:
            return cached
        found = {subject: self.estimate(values) for subject, values in self.samples(point, metric).items()}
        self._cache[point.key, metric] = found
        return found

    def estimate(self, samples: Sequence[float]) -> Estimate:
        """Centre and interval of some repetitions, of the kinds that the study selects.

        Args:
            samples: Values of the repetitions.

        """
        return estimate(samples, self.study.centre, self.study.interval)

    def samples(self, point: Point, metric: str) -> dict[str, list[float]]:
        """Values of a metric at a point by subject, one for each run that has one.

        Args:
            point: A point of the study.
            metric: Name of a metric.

        """
        chosen = self.study.metrics[metric]
        if not isinstance(chosen, FairnessMetric):
            return {s: v.tolist() for s, v in self.read().of(point.key, metric).items()}
        key = point.key, metric
        if key not in self._fair:
            self._fair[key] = self._fair_samples(point, chosen)
        return self._fair[key]

    def _fair_samples(self, point: Point, metric: FairnessMetric) -> dict[str, list[float]]:
        goodputs = self.samples(point, "goodput")
        samples: dict[str, list[float]] = {}
        for run in zip(*goodputs.values(), strict=True):
            found = metric.of(dict(zip(goodputs, run, strict=True)), self.fairness(point))
            for subject, value in found.items():
                if not math.isnan(value):
                    samples.setdefault(subject, []).append(value)
        return samples

    def fairness(self, point: Point) -> Fairness:
        """Fair shares of the flows at a point.

        Args:
            point: A point of the study.

        Raises:
            InputError: If there is none, because a link follows a trace.

        """
        if point.key not in self._fairness:
            self._fairness[point.key] = fair(self._scenario(point))
        return self._fairness[point.key]

    def _scenario(self, point: Point) -> Scenario:
        file = str(self.study.folder / point.scenario)
        return Scenario(self.study.scenarios[point.scenario], file, point.overrides)

    def theory(self, point: Point, name: str, subject: str) -> float | None:
        """A quantity that follows from the scenario of a point without a run; `None` if the subject has none.

        Args:
            point: A point of the study.
            name: Name of a quantity of theory.
            subject: A flow, "FLOW/PATH" or "LINK/DIRECTION", as the metric has them; "" for a metric of the run.

        Raises:
            InputError: If there is none, because a link follows a trace.

        """
        return QUANTITIES[name].of(self._scenario(point)).get(subject)

    def height(self, reference: Reference, point: Point) -> float:
        """Height of a reference line of a figure at a point.

        Args:
            reference: The line.
            point: A point of the study.

        """
        if not reference.allocation:
            return reference.height(point.values)
        rate = self.fairness(point).allocations[reference.allocation][reference.flow]
        return reference.offset + reference.factor * rate * 1e-6

    @cached_property
    def alike(self) -> list[Point]:
        """Points whose repetitions are equal in every metric, because nothing in their scenarios is random."""
        return [p for p in self.points() if self._counts[p.key] > 1 and self._is_alike(p)]

    def _is_alike(self, point: Point) -> bool:
        # Fair shares are not compared: they follow from the scenario, and differ only where goodputs do.
        return all(self.read().is_constant(point.key, name) for name in self.study.metrics)

    @property
    def intervals(self) -> str:
        """Sentences on the kinds of centres and intervals, and on points whose repetitions are all equal."""
        text = describe((c.ours for c in self.comparisons), self.study.centre, self.study.interval)
        if self.alike:
            text += (
                f" At {len(self.alike)} of {len(self.points())} points all repetitions have the same values in every "
                "metric: nothing in their scenarios is random, so these points have no interval."
            )
        return text

    def centre(self, point: Point, metric: str, subject: str) -> float | None:
        """Mean or median of a metric at a point; `None` if there is none.

        Args:
            point: A point of the study.
            metric: Name of a metric.
            subject: A flow, "FLOW/PATH" or "LINK/DIRECTION", as the metric has them; "" for a metric of the run.

        """
        found = self.estimates(point, metric).get(subject)
        return None if found is None else found.centre

    def values(self, point: Point, metric: str, subject: str) -> Sequence[float]:
        """The values of a metric at a point, one for each run that has one.

        Args:
            point: A point of the study.
            metric: Name of a metric.
            subject: A flow, "FLOW/PATH" or "LINK/DIRECTION", as the metric has them; "" for a metric of the run.

        """
        return self.samples(point, metric).get(subject, [])

    def interval(self, pair: Pair, confidence: float) -> Bounds | None:
        """The interval of a centre, or of the difference or ratio of two; `None` without any spread.

        Args:
            pair: The values of both sides; a single quantity has no second one.
            confidence: Probability that such an interval contains the true value.

        """
        is_single = "against" not in KEYS[pair.kind]
        is_ratio = pair.kind == "ratio"
        if pair.statistic == "std":
            if is_single:
                return interval_of_spread(pair.first, confidence)
            if is_ratio:
                return interval_of_spread_ratio(pair.first, pair.second, paired=pair.paired, confidence=confidence)
            return interval_of_spread_difference(pair.first, pair.second, confidence)
        centre: Centre = self.study.centre
        if pair.statistic:
            centre = "median" if pair.statistic == "median" else "mean"
        if is_single:
            kind = self.study.interval if centre == self.study.centre else INTERVALS[centre][0]
            return interval_of(pair.first, centre, kind, confidence)
        of = interval_of_ratio if is_ratio else interval_of_difference
        return of(pair.first, pair.second, centre, paired=pair.paired, confidence=confidence)

    def simultaneous(self, pairs: Sequence[Pair]) -> Simultaneous | None:
        """Single and joint intervals of several quantities; `None` if there are too few values for them.

        Args:
            pairs: The values of both sides of each quantity.

        """
        samples = [Samples(p.first, p.second, p.paired, is_ratio=p.kind == "ratio") for p in pairs]
        return simultaneous_intervals(samples, self.study.centre)

    def shares_seeds(self, point: Point, other: Point) -> bool:
        """Whether all repetitions of two points are there and have the same seeds.

        Args:
            point: A point of the study.
            other: Another point of the study.

        """
        whole = all(finished == wanted for finished, wanted in map(self.runs_of, (point, other)))
        return point.key == other.key or (whole and self.study.shares_seeds(point, other))

    def runs_of(self, point: Point) -> tuple[int, int]:
        """The number of a point's finished runs, and the number that this form of the study has.

        Args:
            point: A point of the study.

        """
        return self._counts[point.key], self.effort.repetitions_of(point)

    def shortfall(self, claim: Claim) -> str:
        """The part of a claim's needs that this form of the study lacks; empty if there is none.

        Args:
            claim: A claim of the study.

        """
        return self.study.shortfall(self.effort, claim)

    def without(self, point: Point, metric: str, subject: str) -> str:
        """Number of a point's runs that lack a value of a metric, with point and subject; empty if all have one.

        Args:
            point: A point of the study.
            metric: Name of a metric.
            subject: A flow, "FLOW/PATH" or "LINK/DIRECTION", as the metric has them; "" for a metric of the run.

        """
        runs = self._counts[point.key]
        valued = len(self.samples(point, metric).get(subject, []))
        if valued in (0, runs):
            return ""
        place = [*(f"{name} = {plain(value)}" for name, value in point.values.items()), subject]
        return f"{runs - valued} of {runs} ({', '.join(part for part in place if part)})"

    def partial(self, figure: Figure) -> list[str]:
        """The points and subjects at which a figure's estimate lacks some runs, because these have no value.

        Args:
            figure: A figure of the study.

        """
        found = (
            self.without(point, metric, subject)
            for point in self.points()
            if point.experiment == figure.experiment and matches(point.values, figure.where)
            for metric in figure.metrics
            for subject in self.samples(point, metric)
            if not figure.subjects or subject in figure.subjects
        )
        return [text for text in found if text]

    def absent(self, figure: Figure) -> list[str]:
        """Subjects that a figure names and no run has, such as a misspelt path.

        Args:
            figure: A figure of the study.

        """
        points = [p for p in self.points() if p.experiment == figure.experiment and matches(p.values, figure.where)]
        if figure.kind.is_over_time or not points:
            return []
        return [s for s in figure.subjects if all(s not in self.estimates(p, figure.metric) for p in points)]

    def ended(self, figure: Figure) -> list[Point]:
        """Points of a figure over time whose runs end before its window begins.

        Args:
            figure: A figure of the study.

        """
        points = [p for p in self.points() if p.experiment == figure.experiment and matches(p.values, figure.where)]
        return [p for p in points if figure.kind.is_over_time and self.duration_s(p) <= figure.window[0]]

    def published_at(self, point: Point) -> dict[str, float]:
        """Published values at a point, by flow.

        Args:
            point: A point of the study.

        """
        return self.study.published.at(point) if self.study.published is not None else {}

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every flow at every point, with the published value where there is one."""
        metric = self.study.tabulated
        found = []
        for point in self.points():
            published = self.published_at(point)
            for subject, ours in self.estimates(point, metric).items():
                theirs = published.get(subject)
                deviation = None if theirs is None else (ours.centre - theirs) / self._reference(point, theirs)
                found.append(Comparison(point, subject, ours, theirs, deviation))
        return found

    @cached_property
    def summaries(self) -> list[Summary]:
        """Distributions of the deviations, by experiment and the study's grouping parameter."""
        published = self.study.published
        if published is None:
            return []
        compared = [c for c in self.comparisons if c.published is not None]
        return [summary_of(group, found, published) for group, found in grouped(self.study, compared).items()]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdict on each claim of the study."""
        return [evaluate(claim, self) for claim in self.study.claims]

    def _reference(self, point: Point, published: float) -> float:
        name = self.study.published.relative_to if self.study.published is not None else ""
        return float(point.values[name]) if name in point.values else published
