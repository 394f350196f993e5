"""What a study is: scenarios, parameters, repetitions, published values, claims and figures.

A study is a folder with `study.toml`, the scenario templates it names, and any files of published values. This
module turns the folder into values; docs/reference/studies.md describes the keys.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch import simulator
from anabranch.capacity import seconds
from anabranch.errors import InputError, nearest
from anabranch.metrics import METRICS
from anabranch.stats import INTERVALS
from anabranch.study.claims import Claim, read_claims
from anabranch.study.document import Table
from anabranch.study.figures import Figure, read_figures
from anabranch.study.needs import Needs
from anabranch.study.own_metrics import DEFAULT, own_names, read_own_metrics
from anabranch.study.published import Published, check_divisors, read_published
from anabranch.study.scope import Scope
from anabranch.sweep import Parameter, Point, Setting, Value, cross, fill, matches, plain, seed_of, setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch.metrics import Metric
    from anabranch.stats import Centre, Interval
    from anabranch.study.own_metrics import Function

FILE = "study.toml"
MOST_REPETITIONS = 100_000


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
        """Whether a point is one of them."""
        return point.experiment == self.experiment and matches(point.values, self.where)


@dataclass(frozen=True)
class Effort:
    """How much to run: the quick or the full form of a study."""

    quick: bool
    repetitions: int
    sets: Mapping[str, Setting] = field(default_factory=dict)
    """Scenario keys for every run, on top of the study's own."""
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
    folder: Path
    title: str
    source: str
    about: str
    assumptions: tuple[str, ...]
    centre: Centre
    interval: Interval
    """How the confidence intervals of the centres are found."""
    metric: str
    parameters: Mapping[str, Parameter]
    experiments: Mapping[str, Experiment]
    full: Effort
    full_real_time: Effort
    """The full form in worlds where a run takes as long as it lasts."""
    quick: Effort
    quick_real_time: Effort
    """The quick form there."""
    published: Published | None
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
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
        """The metric of the tables: what was published, or else the study's own."""
        return self.published.metric if self.published is not None else self.metric

    def metrics_of(self, experiment: str) -> list[str]:
        """The metrics of an experiment's runs that a table, a figure or a claim uses, that of the tables first."""
        quantities = [q for claim in self.claims if claim.world == "run" for q in (claim.quantity, claim.against) if q]
        used = [(figure.experiment, figure.metric) for figure in self.figures if figure.kind != "windows"]
        used += [(quantity.experiment, quantity.metric) for quantity in quantities]
        return list(dict.fromkeys([self.tabulated, *(metric for of, metric in used if of == experiment)]))

    def effort(self, quick: bool, repetitions: int | None = None, *, real_time: bool = False) -> Effort:
        """The quick or the full form, with another number of repetitions of every point if one is given."""
        forms = (self.quick, self.quick_real_time) if quick else (self.full, self.full_real_time)
        chosen = forms[real_time]
        return chosen if repetitions is None else dataclasses.replace(chosen, repetitions=repetitions, more=())

    def points(self, effort: Effort) -> list[Point]:
        """All points, experiment by experiment."""
        points: list[Point] = []
        for experiment in self.experiments.values():
            parameters = [
                dataclasses.replace(self.parameters[name], values=self.values(name, experiment, effort))
                for name in experiment.over
            ]
            found = cross(experiment.name, experiment.scenario, parameters, experiment.sets)
            extra = tuple(setting(k, v) for k, v in effort.sets.items())
            points += [dataclasses.replace(p, overrides=p.overrides + extra) for p in found]
        return points

    def runs(self, effort: Effort) -> list[Run]:
        """All repetitions of all points."""
        return [
            Run(point, repetition, seed_of(self.name, point, repetition))
            for point in self.points(effort)
            if not self.experiments[point.experiment].theory
            for repetition in range(1, effort.repetitions_of(point) + 1)
        ]

    def count(self, effort: Effort) -> int:
        """The number of runs, without making any."""
        total = 0
        for experiment in self.experiments.values():
            if experiment.theory:
                continue
            lists = [self.values(name, experiment, effort) for name in experiment.over]
            more = [more for more in effort.more if more.experiment == experiment.name]
            if not more:
                total += effort.repetitions * math.prod(map(len, lists))
                continue
            for combination in itertools.product(*lists):
                point = Point(experiment.name, "", dict(zip(experiment.over, combination, strict=True)), ())
                total += effort.repetitions_of(point)
        return total

    def values(self, parameter: str, experiment: Experiment, effort: Effort) -> tuple[Value, ...]:
        """The values that a parameter has in an experiment and effort, the most particular list first."""
        lists: list[Mapping[str, tuple[Value, ...]]] = [experiment.values, effort.values]
        if effort.quick:
            lists = [experiment.quick_values, effort.values, experiment.values]
        found = (values[parameter] for values in lists if parameter in values)
        return next(found, self.parameters[parameter].values)

    def shortfall(self, effort: Effort, claim: Claim) -> str:
        """The part of a claim's needs that a form lacks; empty if the form is enough."""
        needs = claim.needs
        if needs == Needs() or claim.world != "run":
            return ""
        quantities = [quantity for quantity in (claim.quantity, claim.against) if quantity]
        points = [
            point for point in self.points(effort)
            if any(q.experiment == point.experiment and matches(point.values, q.where) for q in quantities)
        ]  # fmt: skip
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


def load(folder: Path, metrics: Mapping[str, Function] | None = None) -> Study:
    """Read a study from its folder.

    Args:
        folder: The folder with study.toml.
        metrics: Further metrics of the run by name: functions from a result document to a value.

    Raises:
        InputError: Naming file, line and remedy of the first mistake.

    """
    study, table = _grid(folder, tuple(metrics or ()))
    _check_choices(study, table)
    study = dataclasses.replace(study, scenarios=_templates(study, table))
    _check_more(study, table)
    study = _with_references(study, table, metrics)
    table.finish()
    return study


def outline(folder: Path) -> Study:
    """Read the grids of a study alone, without its scenarios, published values, figures and claims.

    Raises:
        InputError: Naming file, line and remedy of the first mistake in what is read.

    """
    study, _ = _grid(folder)
    return study


def _grid(folder: Path, further: Sequence[str] = ()) -> tuple[Study, Table]:
    """A study with its grids, and its file, the rest of which is still to be read."""
    file = folder / FILE
    if not file.is_file():
        raise InputError(f'holds no "{FILE}", so it is no study', str(folder))
    table = Table.load(file)
    parameters = {n: _parameter(n, t) for n, t in table.named("parameter").items()}
    experiments = {n: _experiment(n, t, parameters) for n, t in table.named("experiment").items()}
    if not experiments:
        raise table.error('a study needs at least one [experiment.NAME] with "scenario" and "over"')
    forms = _forms(table, parameters, experiments)
    centre: Centre = "median" if table.choice("centre", ("mean", "median"), "mean") == "median" else "mean"
    study = Study(
        name=folder.resolve().name,
        folder=folder,
        title=table.get("title", str),
        source=table.get("source", str, ""),
        about=table.get("about", str, ""),
        assumptions=tuple(table.texts("assumptions", [])),
        centre=centre,
        interval=_interval(table, centre),
        metric=_usual_metric(table, further),
        parameters=parameters,
        experiments=experiments,
        full=forms["full"],
        full_real_time=forms["full_real_time"],
        quick=forms["quick"],
        quick_real_time=forms["quick_real_time"],
        published=None,
        figures=(),
        claims=(),
        scenarios={},
    )
    return study, table


def _usual_metric(table: Table, further: Sequence[str]) -> str:
    """The study's metric: the key `metric`, or `default` in the table [metric] of own metrics."""
    if table.holds("metric", dict):
        own = table.table("metric")
        return own.choice(DEFAULT, (*METRICS, *further, *own_names(own)), "goodput")
    return table.choice("metric", (*METRICS, *further), "goodput")


def _interval(table: Table, centre: Centre) -> Interval:
    """How intervals are found, out of what the centre of a study can have."""
    allowed = INTERVALS[centre]
    name = table.get("interval", str, allowed[0])
    for interval in allowed:
        if interval == name:
            return interval
    raise table.error(f'a {centre} cannot have the interval "{name}"; it can have {" or ".join(allowed)}', "interval")


def _with_references(study: Study, table: Table, metrics: Mapping[str, Function] | None) -> Study:
    """The study with what refers to its experiments: labels, own metrics, published values, figures and claims."""
    scopes = _scopes(study)
    rows = table.table("metric") if table.holds("metric", dict) else Table({}, (), "", str(study.folder / FILE))
    study = dataclasses.replace(study, own=read_own_metrics(rows, scopes, metrics))
    scopes = {name: dataclasses.replace(scope, metrics=study.metrics) for name, scope in scopes.items()}
    for name, experiment in study.experiments.items():
        place = table.table("experiment").table(name)
        for subject, label in experiment.labels.items():
            scopes[name].owner(place, "labels", subject)
            scopes[name].template(place, "labels", label)
    published = None
    if table.has("published"):
        inner = table.table("published")
        published = read_published(inner, study.folder, scopes)
        points = [point for form in study.forms for point in study.points(form)]
        check_divisors(published, points, study.folder / inner.get("file", str))
    return dataclasses.replace(
        study,
        published=published,
        figures=read_figures(table.rows("figure"), scopes, study.metric),
        claims=_claims(table, study, scopes),
    )


def _parameter(name: str, table: Table) -> Parameter:
    parameter = Parameter(
        name=name,
        values=tuple(table.scalars("values")),
        sets=table.scenario_keys("set"),
        choices={value: table.table("choice").scenario_keys(value) for value in table.table("choice")},
        label=table.get("label", str, ""),
        unit=table.get("unit", str, ""),
    )
    if not parameter.values:
        raise table.error("a parameter needs at least one value", "values")
    _check_twice(parameter.values, table, "values")
    table.finish()
    return parameter


def _experiment(name: str, table: Table, parameters: Mapping[str, Parameter]) -> Experiment:
    over = tuple(table.texts("over", []))
    for parameter in over:
        if parameter not in parameters:
            raise table.error(
                f'"{parameter}" is no parameter of this study ({nearest(parameter, list(parameters))})',
                "over",
            )
    experiment = Experiment(
        name=name,
        title=table.get("title", str, name),
        scenario=table.get("scenario", str),
        over=over,
        sets=table.scenario_keys("set"),
        values=_values(table.table("values"), parameters),
        quick_values=_values(table.table("quick"), parameters, may_be_empty=True),
        labels={k: str(v) for k, v in table.settings("labels").items()},
        theory=table.get("theory", bool, False),
    )
    table.finish()
    return experiment


def _forms(
    table: Table, parameters: Mapping[str, Parameter], experiments: Mapping[str, Experiment]
) -> dict[str, Effort]:
    """The forms of a study, each as it is where a run takes no time and where it takes as long as it lasts."""
    forms = {}
    for name in ("full", "quick"):
        form = table.table(name)
        own = form.table("real_time")
        real_time = own if form.has("real_time") else form
        forms[name] = _effort(form, name == "quick", parameters, experiments)
        found = _effort(real_time, name == "quick", parameters, experiments)
        forms[f"{name}_real_time"] = dataclasses.replace(found, real_time=True)
    return forms


def _effort(
    table: Table, quick: bool, parameters: Mapping[str, Parameter], experiments: Mapping[str, Experiment]
) -> Effort:
    values = _values(table.table("values"), parameters)
    more = tuple(_more(row, experiments) for row in table.rows("more"))
    effort = Effort(quick, _repetitions(table), table.scenario_keys("set"), values, more)
    table.finish()
    return effort


def _repetitions(table: Table) -> int:
    repetitions = table.get("repetitions", int, 1)
    if repetitions < 1:
        raise table.error("there has to be at least one repetition", "repetitions")
    if repetitions > MOST_REPETITIONS:
        raise table.error(f"there can be at most {MOST_REPETITIONS:,} repetitions", "repetitions")
    return repetitions


def _more(table: Table, experiments: Mapping[str, Experiment]) -> More:
    experiment = table.choice("experiment", tuple(experiments))
    where = table.selection("where")
    over = experiments[experiment].over
    for name in where:
        if name not in over:
            raise table.error(f'"{name}" is no parameter of "{experiment}" ({nearest(name, list(over))})', "where")
    more = More(experiment, where, _repetitions(table))
    table.finish()
    return more


def _values(
    table: Table, parameters: Mapping[str, Parameter], *, may_be_empty: bool = False
) -> dict[str, tuple[Value, ...]]:
    """Lists of values by parameter."""
    values: dict[str, tuple[Value, ...]] = {}
    for name in table:
        if name not in parameters:
            raise table.error(f'"{name}" is no parameter of this study ({nearest(name, list(parameters))})', name)
        values[name] = tuple(table.scalars(name))
        if not values[name] and not may_be_empty:
            raise table.error(f'without a value of "{name}" there is nothing to run', name)
        _check_twice(values[name], table, name)
    return values


def _check_twice(values: Sequence[Value], table: Table, key: str) -> None:
    shown = [plain(v) for v in values]
    if len(set(shown)) != len(shown):
        raise table.error("a value is listed twice", key)


def _check_choices(study: Study, table: Table) -> None:
    """Check that every choice of a parameter is for a value that the parameter has somewhere."""
    lists = [form.values for form in study.forms]
    for experiment in study.experiments.values():
        lists += [experiment.values, experiment.quick_values]
    for name, parameter in study.parameters.items():
        values = [*parameter.values, *(value for found in lists for value in found.get(name, ()))]
        shown = list(dict.fromkeys(plain(value) for value in values))
        for value in parameter.choices:
            if value not in shown:
                place = table.table("parameter").table(name).table("choice")
                for rest in parameter.choices[value]:
                    if f"{value}.{rest}" in shown:
                        raise place.error(
                            f'a dot separates keys, so that this is a choice for "{value}": '
                            f'write choice."{value}.{rest}"', value,
                        )  # fmt: skip
                raise place.error(f'the choice "{value}" is not among the values ({nearest(value, shown)})', value)


def _check_more(study: Study, table: Table) -> None:
    """Check that what is repeated more often is somewhere in its form."""
    for name, form in (("full", study.full), ("quick", study.quick)):
        points = study.points(form)
        for row, more in zip(table.table(name).rows("more"), form.more, strict=True):
            if not any(more.has(point) for point in points):
                raise row.error(f'no point of "{more.experiment}" in the {name} form is so', "where")


def _claims(table: Table, study: Study, scopes: Mapping[str, Scope]) -> tuple[Claim, ...]:
    """Claims, from the file that the study names.

    Raises:
        InputError: If one has a mistake, or needs what the full form does not have either.

    """
    name = table.get("claims", str, "")
    if not name:
        return ()
    file = Table.load(study.folder / name)
    rows = file.rows("claim")
    claims = read_claims(rows, scopes)
    file.finish()
    for row, claim in zip(rows, claims, strict=True):
        if lacks := study.shortfall(study.full, claim):
            raise row.error(f'"needs" asks for more than the full form: {lacks}', "needs")
    return claims


def _scopes(study: Study) -> dict[str, Scope]:
    """What other tables may name of each experiment, in either form."""
    points = [point for form in study.forms for point in study.points(form)]
    names = {name: simulator.names(text, str(study.folder / name)) for name, text in study.scenarios.items()}
    scopes = {}
    for name, experiment in study.experiments.items():
        values = {
            p: tuple(dict.fromkeys(v for form in study.forms for v in study.values(p, experiment, form)))
            for p in experiment.over
        }
        used = [names[file] for file in dict.fromkeys(p.scenario for p in points if p.experiment == name)]
        flows = dict.fromkeys(flow for flows, _ in used for flow in flows)
        links = dict.fromkeys(link for _, links in used for link in links)
        scopes[name] = Scope(name, values, tuple(flows), tuple(links))
    return scopes


def _templates(study: Study, table: Table) -> dict[str, str]:
    """Texts of the scenario templates that the points name."""
    texts: dict[str, str] = {}
    try:
        points = [point for form in study.forms for point in study.points(form)]
    except InputError as error:
        raise InputError(error.message, str(study.folder / FILE)) from None
    for point in points:
        if point.scenario in texts:
            continue
        try:
            texts[point.scenario] = (study.folder / point.scenario).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason: Any = getattr(error, "strerror", None) or "not text in UTF-8"
            place = table.table("experiment").table(point.experiment)
            raise place.error(f'the scenario "{point.scenario}" cannot be read: {reason}', "scenario") from None
    return texts
