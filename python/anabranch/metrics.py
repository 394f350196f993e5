"""Metrics: quantities that a study tabulates, draws and compares with publications, each with its key in the result.

A metric reads a result document and gives one value per *subject*: a flow ("F0"), a path of a flow ("F0/A"), a
direction of a link ("bottleneck/forward"), a host ("S0"), or the whole run (""). Metrics of fairness compare goodputs
with the fair and possible rates of the scenario (see `anabranch.fairness.shares`).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _native
from anabranch.fairness.capacity import ALLOCATION_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch.fairness.shares import Fairness

Level = Literal["run", "flow", "path", "link", "host"]


@dataclass(frozen=True)
class Metric:
    """A quantity of a run."""

    name: str
    label: str
    unit: str
    level: Level
    field: str
    """Key in the result document; a dot separates the names of nested tables."""
    scale: float = 1.0
    """Factor from the result's value to `unit`."""

    @property
    def axis(self) -> str:
        """Label of an axis."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    def value(self, part: Mapping[str, Any]) -> float:
        """Value of a subject, in `unit`, from its part of the document; NaN if the run has no sample of it."""
        value: Any = part
        for key in self._keys:
            value = value.get(key) if isinstance(value, dict) else None
        return math.nan if value is None else float(value) * self.scale

    @cached_property
    def _keys(self) -> list[str]:
        return self.field.split(".")


@dataclass(frozen=True)
class FairnessMetric(Metric):
    """A metric that compares goodputs with fair or possible rates."""

    compare: Callable[[Mapping[str, float], Fairness], dict[str, float]] = field(kw_only=True)
    """Function from the goodput of each flow in `Fairness.subflows`, in bit/s, to the value by subject."""

    def of(self, goodputs: Mapping[str, float], fairness: Fairness) -> dict[str, float]:
        """Value by subject, from the goodputs of flows in Mbit/s; NaN if the divisor is 0."""
        return self.compare({flow: goodputs[flow] * 1e6 for flow in fairness.subflows}, fairness)


def read_all(document: Document) -> Iterator[tuple[str, str, float]]:
    """Name of the metric, subject and value, for each metric and subject with a value in a result document."""
    for level, metrics in by_level().items():
        for subject, part in subjects(document, level):
            for metric in metrics:
                value = metric.value(part)
                if not math.isnan(value):
                    yield metric.name, subject, value


@cache
def by_level() -> dict[Level, list[Metric]]:
    """The metrics that result documents contain, by level."""
    found: dict[Level, list[Metric]] = {}
    for metric in METRICS.values():
        if not isinstance(metric, FairnessMetric):
            found.setdefault(metric.level, []).append(metric)
    return found


@dataclass(frozen=True)
class DerivedMetric(Metric):
    """A metric computed from several values of a part."""

    reads: tuple[str, ...] = field(kw_only=True)
    """Keys of the values; `paths.KEY` is a list with a value for each path."""
    compute: Callable[..., float] = field(kw_only=True)
    """Function from these values to the value of the metric; a path without a value has `None`."""

    def value(self, part: Mapping[str, Any]) -> float:
        """Value of a subject from its part of the document; NaN if it does not exist."""
        return self.compute(*(_read(part, key) for key in self.reads)) * self.scale


def _read(part: Mapping[str, Any], key: str) -> Any:
    of_paths = key.removeprefix("paths.")
    return part[key] if of_paths == key else [path[of_paths] for path in part["paths"]]


def _used_paths(data: Sequence[float], repeated: Sequence[float], reinjected: Sequence[float | None]) -> float:
    """Number of a flow's paths that carried new data, which no other path had carried before.

    It counts packets at the sender: paths with the same receiver's address have no separate counts there.
    """
    return float(sum(d > r + (j or 0) for d, r, j in zip(data, repeated, reinjected, strict=True)))


def _established(delivered: float) -> float:
    """1 if application data of a flow arrived, else 0."""
    return float(delivered > 0)


def _loss_spread(repeated: Sequence[float], data: Sequence[float]) -> float:
    """Difference of the largest and the smallest loss of a flow's paths, relative to the mean of all.

    It is 0 if congestion is balanced, and NaN with fewer than two paths that sent data, or without a loss.
    """
    losses = [r / d for r, d in zip(repeated, data, strict=True) if d]
    return _ratio(max(losses) - min(losses), statistics.fmean(losses)) if len(losses) > 1 else math.nan


def subjects(document: Document, level: Level) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of a result document at a level, by the name of the subject."""
    if level == "run":
        yield "", document
    elif level == "link":
        for link in document["links"]:
            yield f"{link['name']}/{link['direction']}", link
    elif level == "host":
        for host in document.get("hosts", ()):
            yield host["name"], host
    else:
        for flow in document["flows"]:
            if level == "flow":
                yield flow["name"], flow
            else:
                for path in flow["paths"]:
                    yield f"{flow['name']}/{path['name']}", path


def _fill(goodputs: Mapping[str, float], fairness: Fairness) -> dict[str, float]:
    return {"": _ratio(math.fsum(goodputs.values()), fairness.possible_bps)}


def _deviation(goodputs: Mapping[str, float], fairness: Fairness) -> dict[str, float]:
    others = len(goodputs) - 1
    total = math.fsum(goodputs.values())
    return {
        flow: _ratio((total - own) / others - own, fairness.possible_bps) if others else math.nan
        for flow, own in goodputs.items()
    }


_UNCONTESTED = {"alone": "the rate of the flow alone", "best-path": "the rate of its fastest path"}


def _over(name: str) -> Metric:
    def compare(goodputs: Mapping[str, float], fairness: Fairness) -> dict[str, float]:
        uncontested = {"alone": fairness.alone_bps, "best-path": fairness.best_path_bps}
        rates = uncontested[name] if name in uncontested else fairness.allocations[name]
        return {flow: _ratio(goodput, rates[flow]) for flow, goodput in goodputs.items()}

    what = _UNCONTESTED.get(name, f"its fair rate ({name})")
    return FairnessMetric(f"over-{name}", f"Goodput / {what}", "", "flow", "", compare=compare)


def _ratio(value: float, reference: float) -> float:
    return value / reference if reference else math.nan


METRICS: dict[str, Metric] = {
    **{row[0]: Metric(*row) for row in _native.metrics()},
    "usable-paths": DerivedMetric(
        "usable-paths",
        "Paths that carry new data",
        "",
        "flow",
        "data_packets",
        compute=_used_paths,
        reads=("paths.data_packets", "paths.retransmissions", "paths.reinjections"),
    ),
    "path-loss": DerivedMetric(
        # The loss that the sender of the path sees.
        "path-loss",
        "Retransmissions / data packets of the path",
        "%",
        "path",
        "data_packets",
        100.0,
        reads=("retransmissions", "data_packets"),
        compute=_ratio,
    ),
    "loss-spread": DerivedMetric(
        "loss-spread",
        "(Largest − smallest loss of the paths) / their mean",
        "",
        "flow",
        "data_packets",
        reads=("paths.retransmissions", "paths.data_packets"),
        compute=_loss_spread,
    ),
    "established": DerivedMetric(
        "established",
        "Application data arrived",
        "",
        "flow",
        "delivered_bytes",
        reads=("delivered_bytes",),
        compute=_established,
    ),
    "fill": FairnessMetric("fill", "Goodput of all flows / what they could get together", "", "run", "", compare=_fill),
    "deviation": FairnessMetric(
        "deviation", "(Mean goodput of the others − own) / what all could get", "", "flow", "", compare=_deviation
    ),
    **{f"over-{name}": _over(name) for name in (*ALLOCATION_NAMES, *_UNCONTESTED)},
}
"""All metrics by name: those of the native module, those derived from several fields, and those of fairness."""

SIGNED = ("deviation",)
"""Metrics that can be negative."""

HIGHER_IS_BETTER = frozenset({
    "goodput", "reverse-goodput", "answers", "recovered-share", "jain", "established", "fill", "over-alone",
    "over-best-path", "gap-delivered", "r-factor", "mos",
})  # fmt: skip
"""Metrics of which a user always wants more."""

LOWER_IS_BETTER = frozenset({
    "delivery-delay-mean", "delivery-delay-p95", "setup-time", "response-time-mean", "response-time-p50",
    "response-time-p95", "response-time-p99", "recovery-time", "reordering-buffer", "path-retransmissions",
    "path-timeouts", "path-reinjections", "path-srtt", "path-back-time", "queue-length", "drops", "host-drops",
    "gap", "repeated", "first-data-after-event", "lost", "duplicated", "jitter", "unfinished", "refused",
    "completion-time-mean", "completion-time-p50", "completion-time-p95", "completion-time-p99", "slowdown-mean",
    "slowdown-p50", "slowdown-p95", "slowdown-p99",
})  # fmt: skip
"""Metrics of which a user always wants less. Metrics in neither set depend on the aim of the user."""
