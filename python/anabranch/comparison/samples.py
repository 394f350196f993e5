"""Values of all metrics of the runs of one side of a comparison."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, InputError
from anabranch.fairness.shares import fair_of
from anabranch.metrics import METRICS, FairnessMetric, read_all, subjects

if TYPE_CHECKING:
    from collections.abc import Collection

    from anabranch._core.document import Document
    from anabranch.fairness.shares import Fairness

Key = tuple[str, str]
"""Name of a metric and subject."""


@dataclass
class Group:
    """Runs of one side that repeat the same scenario with different seeds."""

    seeds: array[int] = field(default_factory=lambda: array("q"))
    """Seed of each run."""
    values: dict[Key, tuple[array[int], array[float]]] = field(default_factory=dict)
    """Indexes of the runs with a value, and these values."""

    def add(self, key: Key, value: float) -> None:
        """Add a value of the latest run."""
        indexes, values = self.values.setdefault(key, (array("q"), array("d")))
        indexes.append(len(self.seeds) - 1)
        values.append(value)

    @property
    def varies(self) -> bool:
        """Whether any value differs between runs."""
        return any(min(values) < max(values) for _, values in self.values.values())

    def by_seed(self, key: Key) -> dict[int, float]:
        """The values of a key by seed; the seeds of the group must differ."""
        indexes, values = self.values[key]
        return {self.seeds[index]: value for index, value in zip(indexes, values, strict=True)}


class Side:
    """One side of a comparison."""

    def __init__(self, name: str, metrics: Collection[str] = ()) -> None:
        """Begin a side without runs; all metrics are read if `metrics` is empty."""
        self.name = name
        self.groups: dict[str, Group] = {}
        """Groups by title of the point of a study; the title of other runs is ""."""
        self.worlds: set[str] = set()
        """World of the runs; for runs on a kernel, the version of the kernel."""
        self.spans: set[tuple[float, float]] = set()
        """Duration and warm-up of the runs, seconds."""
        self.notes: list[str] = []
        self.overloaded = 0
        """Number of runs on a machine that did not keep up."""
        self._metrics = frozenset(metrics)
        self._origins: dict[tuple[str, str], str] = {}
        self._fairness: dict[str, Fairness | None] = {}

    @property
    def count(self) -> int:
        """Number of runs."""
        return sum(len(group.seeds) for group in self.groups.values())

    def add(self, document: Document, origin: str, group: str = "") -> None:
        """Add a run.

        Args:
            document: Its result document.
            origin: Place of the document in messages.
            group: Title of the point of a study.

        Raises:
            InputError: If the side has the same simulated run twice.

        """
        digest = document.get("digest")
        if digest is not None:
            first = self._origins.get((group, digest))
            if first is not None:
                raise InputError(
                    f"has the same run as {first} (seed {document['seed']}, digest {digest}); give each run its own "
                    "--seed",
                    origin,
                )
            self._origins[group, digest] = origin
        host = document.get("host")
        world = str(document["world"])
        self.worlds.add(f"Linux {host['kernel']}" if host and world == "kernel" else world)
        self.spans.add((document["duration_s"], document.get("warmup_s", 0.0)))
        self.overloaded += bool(host and host["lateness"]["overloaded"])
        target = self.groups.setdefault(group, Group())
        target.seeds.append(document["seed"])
        for metric, subject, value in read_all(document):
            if not self._metrics or metric in self._metrics:
                target.add((metric, subject), value)
        self._add_fairness(document, target)

    def _add_fairness(self, document: Document, target: Group) -> None:
        """Add the metrics of fairness, if the document contains its scenario."""
        wanted = [
            metric
            for metric in METRICS.values()
            if isinstance(metric, FairnessMetric) and (not self._metrics or metric.name in self._metrics)
        ]
        fairness = self._fairness_of(document) if wanted and "scenario" in document else None
        if fairness is None:
            return
        goodput = METRICS["goodput"]
        goodputs = {flow: goodput.value(part) for flow, part in subjects(document, goodput.level)}
        for metric in wanted:
            for subject, value in metric.of(goodputs, fairness).items():
                if not math.isnan(value):
                    target.add((metric.name, subject), value)

    def _fairness_of(self, document: Document) -> Fairness | None:
        """Fair shares of the scenario of a run; `None` with a note if there are none."""
        spelt_out = document["scenario"]
        key = json.dumps({name: value for name, value in spelt_out.items() if name != "seed"}, sort_keys=True)
        if key not in self._fairness:
            try:
                self._fairness[key] = fair_of(spelt_out, self.name)
            except AnabranchError as error:
                self._fairness[key] = None
                self.notes.append(f"no metrics of fairness: {error}")
        return self._fairness[key]
