"""The parts of a study as values: experiments, forms, points and runs.

`anabranch.study.definition` reads them from a folder. A grid may have a million points, so that checks look at slices
of it: the combinations of the parameters that matter to the check.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch._core import simulator
from anabranch.fairness.capacity import seconds
from anabranch.metrics import METRICS
from anabranch.study.needs import Needs
from anabranch.sweep import (
    Parameter,
    Point,
    Setting,
    Value,
    cross,
    fill,
    matches,
    placeholders,
    plain,
    seeds_of,
    setting,
)

FILE = "study.toml"

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from anabranch.metrics import Metric
    from anabranch.stats import Centre, Interval
    from anabranch.study.claims import Claim, Quantity
    from anabranch.study.figures import Figure
    from anabranch.study.published import Published


@dataclass(frozen=True)
class Experiment:
    """A grid over one scenario template."""

    name: str
    title: str
    scenario: str
    over: tuple[str, ...]
    sets: Mapping[str, Setting]
    values: Mapping[str, tuple[Value, ...]]
    """Values of a parameter where they differ from the study's."""
    quick_values: Mapping[str, tuple[Value, ...]]
    """The same for a quick run; an empty tuple leaves the experiment out."""
    labels: Mapping[str, str]
    """Names of flows, paths or links for people; "{parameter}" is filled in."""
    theory: bool = False
    """Whether none of its points is run: there are only claims of theory about them."""

    def flow_label(self, flow: str, values: Mapping[str, Value]) -> str:
        """Name of a flow at a point, for people."""
        return plain(fill(self.labels.get(flow, flow), values))


@dataclass(frozen=True)
class More:
    """Points that are repeated more often than the others: where a statement is tighter, or a run is cheap."""

    experiment: str
    where: Mapping[str, Any]
    repetitions: int

    def has(self, point: Point) -> bool:
        """Whether a point is repeated this often."""
        return point.experiment == self.experiment and matches(point.values, self.where)


@dataclass(frozen=True)
class Effort:
    """The size of a study: its quick or its full form."""

    quick: bool
    repetitions: int
    sets: Mapping[str, Setting] = field(default_factory=dict)
    """Scenario keys for every run, in addition to those of the experiments."""
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    more: tuple[More, ...] = ()
    real_time: bool = False
    """Whether it is for worlds where a run takes as long as it lasts."""

    def repetitions_of(self, point: Point) -> int:
        """Runs of a point."""
        return max([self.repetitions, *(more.repetitions for more in self.more if more.has(point))])

    @property
    def name(self) -> str:
        """Name of the form, also of its folder under results."""
        return "quick" if self.quick else "full"


@dataclass(frozen=True, slots=True)
class Run:
    """One repetition of one point."""

    point: Point
    repetition: int
    seed: int

    @property
    def title(self) -> str:
        """Point and repetition, for people."""
        return f"{self.point.title}, repetition {self.repetition}"


@dataclass(frozen=True)
class Study:
    """A study, as read from its folder."""

    name: str
    """Name in seeds and of the folder of results."""
    folder: Path
    title: str
    source: str
    about: str
    assumptions: tuple[str, ...]
    centre: Centre
    interval: Interval
    """Method of the confidence intervals of the centres."""
    metric: str
    paired: tuple[str, ...]
    """Parameters that stay out of the seed, so that runs at points which differ only in them share it."""
    parameters: Mapping[str, Parameter]
    experiments: Mapping[str, Experiment]
    full: Effort
    full_real_time: Effort
    """The full form in worlds where a run takes as long as it lasts."""
    quick: Effort
    quick_real_time: Effort
    """The quick form in such worlds."""
    published: Published | None
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    shows_deviation: bool
    """Whether the report shows mean, standard deviation and median of the runs."""
    scenarios: Mapping[str, str]
    """Text of each scenario template by file name."""
    own: Mapping[str, Metric] = field(default_factory=dict)
    """The study's own metrics by name, each after those that it reads."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """All metrics by name."""
        return {**METRICS, **self.own}

    @property
    def forms(self) -> tuple[Effort, ...]:
        """Every form that the study can be run in."""
        return (self.full, self.full_real_time, self.quick, self.quick_real_time)

    @property
    def tabulated(self) -> str:
        """The metric of the tables: the published one, or else the study's own."""
        return self.published.metric if self.published is not None else self.metric

    def metrics_of(self, experiment: str) -> list[str]:
        """The metrics of an experiment's runs that a table, a figure or a claim uses, that of the tables first."""
        quantities = [q for claim in self.claims if claim.world == "run" for q in (claim.quantity, claim.against) if q]
        used = [(figure.experiment, metric) for figure in self.figures for metric in figure.metrics]
        used += [(quantity.experiment, quantity.metric) for quantity in quantities]
        return list(dict.fromkeys([self.tabulated, *(metric for of, metric in used if of == experiment)]))

    def effort(self, quick: bool, repetitions: int | None = None, *, real_time: bool = False) -> Effort:
        """The quick or the full form, with another number of repetitions of every point if one is given."""
        forms = (self.quick, self.quick_real_time) if quick else (self.full, self.full_real_time)
        chosen = forms[real_time]
        return chosen if repetitions is None else dataclasses.replace(chosen, repetitions=repetitions, more=())

    def points(self, effort: Effort) -> list[Point]:
        """All points, experiment by experiment."""
        return [p for e in self.experiments.values() for p in self.slice(effort, e, e.over)]

    def slice(self, effort: Effort, experiment: Experiment, names: Iterable[str]) -> Iterator[Point]:
        """Points for all combinations of some parameters; each other parameter has its first value."""
        varied = set(names)
        parameters = []
        for name in experiment.over:
            values = self.values(name, experiment, effort)
            parameters.append(
                dataclasses.replace(self.parameters[name], values=values if name in varied else values[:1])
            )
        extra = tuple(setting(k, v) for k, v in effort.sets.items())
        for point in cross(experiment.name, experiment.scenario, parameters, experiment.sets):
            yield dataclasses.replace(point, overrides=point.overrides + extra) if extra else point

    def scenarios_of(self, experiment: Experiment) -> list[str]:
        """File names of the scenario templates of an experiment in all forms."""
        names = placeholders(experiment.scenario)
        found = (point.scenario for form in self.forms for point in self.slice(form, experiment, names))
        return list(dict.fromkeys(found))

    def runs(self, effort: Effort) -> list[Run]:
        """All repetitions of all points."""
        return [
            Run(point, repetition, seed)
            for experiment in self.experiments.values()
            if not experiment.theory
            for point in self.slice(effort, experiment, experiment.over)
            for repetitions in (range(1, effort.repetitions_of(point) + 1),)
            for repetition, seed in zip(repetitions, seeds_of(self.name, self._seeded(point), repetitions), strict=True)
        ]

    def _seeded(self, point: Point) -> Point:
        """A point without the parameters that stay out of the seed."""
        if not any(name in point.values for name in self.paired):
            return point
        values = {name: value for name, value in point.values.items() if name not in self.paired}
        return dataclasses.replace(point, values=values)

    def shares_seeds(self, point: Point, other: Point) -> bool:
        """Whether the n-th repetitions of two points have the same seed."""
        return self._seeded(point).key == self._seeded(other).key

    def count_points(self, effort: Effort, experiment: Experiment) -> int:
        """The number of points of an experiment, without making any."""
        return math.prod(len(self.values(name, experiment, effort)) for name in experiment.over)

    def count(self, effort: Effort) -> int:
        """The number of runs, without making any."""
        return sum(self.count_of(effort, e) for e in self.experiments.values() if not e.theory)

    def count_of(self, effort: Effort, experiment: Experiment) -> int:
        """The number of runs of an experiment, without making any."""
        rows = [more for more in effort.more if more.experiment == experiment.name]
        names = [name for name in experiment.over if any(name in more.where for more in rows)]
        lists = [self.values(name, experiment, effort) for name in names]
        combinations = math.prod(map(len, lists))
        total = 0
        for combination in itertools.product(*lists):
            point = Point(experiment.name, "", dict(zip(names, combination, strict=True)), ())
            total += effort.repetitions_of(point)
        return total * self.count_points(effort, experiment) // combinations if combinations else 0

    def values(self, parameter: str, experiment: Experiment, effort: Effort) -> tuple[Value, ...]:
        """The values of a parameter in an experiment and form. The most specific list counts."""
        lists: list[Mapping[str, tuple[Value, ...]]] = [experiment.values, effort.values]
        if effort.quick:
            lists = [experiment.quick_values, effort.values, experiment.values]
        found = (values[parameter] for values in lists if parameter in values)
        return next(found, self.parameters[parameter].values)

    def shortfall(self, effort: Effort, claim: Claim) -> str:
        """The part of the claim's needs that the `effort` does not meet; empty if it meets them all."""
        needs = claim.needs
        if needs == Needs() or claim.world != "run":
            return ""
        quantities = [quantity for quantity in (claim.quantity, claim.against) if quantity]
        points = [
            point
            for experiment in self.experiments.values()
            for wanted in [[q for q in quantities if q.experiment == experiment.name]]
            if wanted
            for point in self.slice(effort, experiment, self._decisive(experiment, wanted))
            if any(matches(point.values, q.where) for q in wanted)
        ]
        if needs.full:
            usual = self.full_real_time if effort.real_time else self.full
            fewer = any(effort.repetitions_of(point) < usual.repetitions_of(point) for point in points)
            return str(needs) if effort.quick or fewer else ""
        fewest = min((effort.repetitions_of(point) for point in points), default=needs.repetitions)
        lacks = [f"{needs.repetitions} repetitions, has {fewest}"] if fewest < needs.repetitions else []
        if needs.duration:
            required = seconds(needs.duration)
            shortest = min((self.duration_s(point) for point in points), default=required)
            lacks += [f"runs of {needs.duration}, has {shortest:g} s"] if shortest < required else []
        return "; ".join(lacks)

    def _decisive(self, experiment: Experiment, quantities: Iterable[Quantity]) -> set[str]:
        """The parameters that decide which points of an experiment belong to quantities, and how long these run."""
        names = {name for quantity in quantities for name in quantity.where}
        names |= {n for form in self.forms for m in form.more if m.experiment == experiment.name for n in m.where}
        names.update(placeholders(experiment.scenario))
        for name in experiment.over:
            parameter = self.parameters[name]
            for keys in (parameter.sets, *parameter.choices.values()):
                if "duration" in keys:
                    names |= {name, *placeholders(keys["duration"])}
        return names

    def duration_s(self, point: Point) -> float:
        """Duration of a run of a point, seconds."""
        settings = dict(override.partition("=")[::2] for override in point.overrides)
        if "duration" in settings:
            spelt_out: Mapping[str, Any] = tomllib.loads(f"duration = {settings['duration']}")
        else:
            file = str(self.folder / point.scenario)
            request = simulator.Request(self.scenarios[point.scenario], file, point.overrides)
            spelt_out = simulator.canonical(request)
        return seconds(str(spelt_out["duration"]))
