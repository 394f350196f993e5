"""Reads a study from its folder: `study.toml`, the scenario templates that it names, and files of published values.

docs/reference/studies.md describes the keys.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from anabranch._core import simulator
from anabranch.errors import InputError, nearest
from anabranch.extras import require
from anabranch.files import read_text
from anabranch.metrics import METRICS
from anabranch.paths import check_inside
from anabranch.stats import INTERVALS
from anabranch.study.claims import Claim, read_claims
from anabranch.study.code import read_function
from anabranch.study.document import Table
from anabranch.study.figure_checks import check_figures
from anabranch.study.inside import check_files, check_traces
from anabranch.study.keys import ClaimsKeys, StudyKeys
from anabranch.study.layout import reserved
from anabranch.study.model import FILE, Effort, Experiment, More, Study
from anabranch.study.own_metrics import DEFAULT, own_names, read_own_metrics
from anabranch.study.published import Published, check_divisors, read_published
from anabranch.study.scope import Scope
from anabranch.sweep import Parameter, Point, Value, fill_setting, placeholders, plain, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.stats import Interval
    from anabranch.study.code import Function
    from anabranch.study.keys import EffortKeys, ExperimentKeys, MetricKeys, MoreKeys, ParameterKeys

MAX_POINTS = 1_000_000
MAX_RUNS = 5_000_000


def load(
    folder: Path, metrics: Mapping[str, Function] | None = None, *, allow_paths: bool = False, allow_code: bool = False
) -> Study:
    """Read a study from its folder.

    Args:
        folder: The folder with study.toml.
        metrics: Further metrics of the run by name: functions from a result document to a value.
        allow_paths: Whether it may name files outside its folder, and its scenarios traces outside theirs.
        allow_code: Whether it may name functions in Python, which run with the rights of the caller.

    Raises:
        InputError: Naming file, line and remedy of the first mistake.

    """
    require("studies", "a study")
    study, table = _grid(folder, tuple(metrics or ()))
    _check_size(study, table)
    _check_settings(study)
    _check_choices(study, table)
    if not allow_paths:
        check_files(table, str(folder / FILE))
    study = dataclasses.replace(study, scenarios=_templates(study, table, allow_paths=allow_paths))
    if not allow_paths:
        check_traces(study, str(folder / FILE))
    _check_more(study, table)
    reader = partial(read_function, study=folder / FILE, allow_code=allow_code, allow_paths=allow_paths)
    return _with_references(study, table, metrics, reader)


def outline(folder: Path) -> Study:
    """Read the grids of a study alone, without its scenarios, published values, figures and claims.

    Raises:
        InputError: Naming file, line and remedy of the first mistake in the grids.

    """
    study, _ = _grid(folder)
    return study


def _grid(folder: Path, further: Sequence[str] = ()) -> tuple[Study, Table[StudyKeys]]:
    """A study with its grids only, and its file, from which claims and figures are read later."""
    file = folder / FILE
    if not file.is_file():
        raise InputError(f'holds no "{FILE}", so it is no study', str(folder))
    table = Table.load(file, StudyKeys)
    keys = table.keys
    parameters = {n: _parameter(n, t) for n, t in table.named("parameter", keys.parameter).items()}
    experiments = {n: _experiment(n, t, parameters) for n, t in table.named("experiment", keys.experiment).items()}
    if not experiments:
        raise table.error('a study needs at least one [experiment.NAME] with "scenario" and "over"')
    full, full_real_time = _forms(table, "full", parameters, experiments)
    quick, quick_real_time = _forms(table, "quick", parameters, experiments)
    study = Study(
        name=keys.name or folder.resolve().name,
        folder=folder,
        title=keys.title,
        source=keys.source,
        about=keys.about,
        assumptions=tuple(keys.assumptions),
        centre=keys.centre,
        interval=_interval(table),
        metric=_usual_metric(table, further),
        paired=_paired(table, parameters),
        shows_deviation=keys.spread == "std",
        parameters=parameters,
        experiments=experiments,
        full=full,
        full_real_time=full_real_time,
        quick=quick,
        quick_real_time=quick_real_time,
        published=None,
        figures=(),
        claims=(),
        scenarios={},
    )
    return study, table


def _usual_metric(table: Table[StudyKeys], further: Sequence[str]) -> str:
    """The study's metric: the key `metric`, or `default` in the table [metric] of own metrics."""
    metric = table.keys.metric
    if isinstance(metric, str):
        return table.choice("metric", metric, (*METRICS, *further))
    usual = metric.get(DEFAULT, "goodput")
    own = table.inner("metric", metric)
    return own.choice(DEFAULT, usual if isinstance(usual, str) else "", (*METRICS, *further, *own_names(own)))


def _paired(table: Table[StudyKeys], parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """The parameters that do not change the seed."""
    paired = tuple(table.keys.paired)
    for name in paired:
        if name not in parameters:
            raise table.error(f'"{name}" is no parameter of this study ({nearest(name, list(parameters))})', "paired")
    _check_twice(paired, table, "paired")
    return paired


def _interval(table: Table[StudyKeys]) -> Interval:
    """The kind of intervals, one of those that the centre of the study can have."""
    centre, interval = table.keys.centre, table.keys.interval
    allowed = INTERVALS[centre]
    if interval is UNSET:
        return allowed[0]
    if interval not in allowed:
        raise table.error(
            f'a {centre} cannot have the interval "{interval}"; it can have {" or ".join(allowed)}', "interval"
        )
    return interval


def _with_references(
    study: Study,
    table: Table[StudyKeys],
    metrics: Mapping[str, Function] | None,
    reader: Callable[[Table[MetricKeys]], Function],
) -> Study:
    """The study with the tables that refer to its experiments: labels, own metrics, figures, claims."""
    # Imported here, because the kinds of figures import Matplotlib, which a list of studies does not need.
    from anabranch.study.figure_reader import figure_keys, read_figures

    keys, scopes = table.keys, _scopes(study)
    own = table.inner("metric", {} if isinstance(keys.metric, str) else keys.metric)
    study = dataclasses.replace(study, own=read_own_metrics(own, scopes, metrics, reader))
    scopes = {name: dataclasses.replace(scope, metrics=study.metrics) for name, scope in scopes.items()}
    for name, place in table.named("experiment", keys.experiment).items():
        for subject, label in study.experiments[name].labels.items():
            scopes[name].owner(place, "labels", subject)
            scopes[name].template(place, "labels", label)
    published = None
    if keys.published:
        published = read_published(table.inner("published", keys.published), study.folder, scopes)
        check_divisors(published, _matched(study, published), study.folder / keys.published.file)
    kind = figure_keys()
    rows = [row.read_as(kind) for row in table.rows("figure", keys.figure)]
    figures = read_figures(rows, scopes, study.metric)
    claims = _claims(table, study, scopes)
    check_figures(rows, figures, scopes, (published, claims))
    return dataclasses.replace(study, published=published, figures=figures, claims=claims)


def _matched(study: Study, published: Published) -> Iterator[Point]:
    """A point for each combination of the parameters that select published values."""
    for form in study.forms:
        for name, match in published.experiment_match.items():
            names = [n for template in (*published.match.values(), *match.values()) for n in placeholders(template)]
            yield from study.slice(form, study.experiments[name], names)


def _parameter(name: str, table: Table[ParameterKeys]) -> Parameter:
    if name in reserved():
        raise table.error(f'"{name}" is a column of the tables of results: choose another name for the parameter')
    keys = table.keys
    _check_twice(keys.values, table, "values")
    return Parameter(name, tuple(keys.values), keys.set, keys.choice, keys.label, keys.unit)


def _experiment(name: str, table: Table[ExperimentKeys], parameters: Mapping[str, Parameter]) -> Experiment:
    keys = table.keys
    for parameter in keys.over:
        if parameter not in parameters:
            raise table.error(
                f'"{parameter}" is no parameter of this study ({nearest(parameter, list(parameters))})',
                "over",
            )
    _check_twice(keys.over, table, "over")
    return Experiment(
        name=name,
        title=keys.title or name,
        scenario=keys.scenario,
        over=tuple(keys.over),
        sets=keys.set,
        values=_values(table.inner("values", keys.values), parameters),
        quick_values=_values(table.inner("quick", keys.quick), parameters, may_be_empty=True),
        labels={k: str(v) for k, v in keys.labels.items()},
        theory=keys.theory,
    )


def _forms(
    table: Table[StudyKeys],
    name: Literal["full", "quick"],
    parameters: Mapping[str, Parameter],
    experiments: Mapping[str, Experiment],
) -> tuple[Effort, Effort]:
    """A form of a study where a run takes no time, and where it takes as long as it lasts."""
    keys = getattr(table.keys, name)
    form = table.inner(name, keys)
    own = form.inner("real_time", keys.real_time) if keys.real_time else form
    usual, real_time = (_effort(t, name == "quick", parameters, experiments) for t in (form, own))
    return usual, dataclasses.replace(real_time, real_time=True)


def _effort(
    table: Table[EffortKeys], quick: bool, parameters: Mapping[str, Parameter], experiments: Mapping[str, Experiment]
) -> Effort:
    keys = table.keys
    values = _values(table.inner("values", keys.values), parameters)
    more = tuple(_more(row, experiments) for row in table.rows("more", keys.more))
    return Effort(quick, keys.repetitions, keys.set, values, more)


def _more(table: Table[MoreKeys], experiments: Mapping[str, Experiment]) -> More:
    keys = table.keys
    over = experiments[table.choice("experiment", keys.experiment, tuple(experiments))].over
    for name in keys.where:
        if name not in over:
            raise table.error(f'"{name}" is no parameter of "{keys.experiment}" ({nearest(name, list(over))})', "where")
    return More(keys.experiment, keys.where, keys.repetitions)


def _values(
    table: Table[dict[str, list[Value]]], parameters: Mapping[str, Parameter], *, may_be_empty: bool = False
) -> dict[str, tuple[Value, ...]]:
    """Lists of values by parameter."""
    for name, values in table.keys.items():
        if name not in parameters:
            raise table.error(f'"{name}" is no parameter of this study ({nearest(name, list(parameters))})', name)
        if not values and not may_be_empty:
            raise table.error(f'without a value of "{name}" there is nothing to run', name)
        _check_twice(values, table, name)
    return {name: tuple(values) for name, values in table.keys.items()}


def _check_twice(values: Sequence[Value], table: Table[Any], key: str) -> None:
    shown = [plain(v) for v in values]
    if len(set(shown)) != len(shown):
        raise table.error("a value is listed twice", key)


def _check_choices(study: Study, table: Table[StudyKeys]) -> None:
    """Check that every choice of a parameter is for a value that it has in some experiment or form."""
    lists = [form.values for form in study.forms]
    for experiment in study.experiments.values():
        lists += [experiment.values, experiment.quick_values]
    for name, parameter in study.parameters.items():
        values = [*parameter.values, *(value for found in lists for value in found.get(name, ()))]
        shown = list(dict.fromkeys(plain(value) for value in values))
        for value in parameter.choices:
            if value not in shown:
                place = table.named("parameter", table.keys.parameter)[name].inner("choice", parameter.choices)
                for rest in parameter.choices[value]:
                    if f"{value}.{rest}" in shown:
                        raise place.error(
                            f'a dot separates keys, so that this is a choice for "{value}": '
                            f'write choice."{value}.{rest}"', value,
                        )  # fmt: skip
                raise place.error(f'the choice "{value}" is not among the values ({nearest(value, shown)})', value)


def _check_more(study: Study, table: Table[StudyKeys]) -> None:
    """Check that each row of "more" selects a point of its form."""
    keys = table.keys
    for name, form, rows in (("full", study.full, keys.full.more), ("quick", study.quick, keys.quick.more)):
        for row, more in zip(table.inner(name, keys).rows("more", rows), form.more, strict=True):
            points = study.slice(form, study.experiments[more.experiment], more.where)
            if not any(more.has(point) for point in points):
                raise row.error(f'no point of "{more.experiment}" in the {name} form has these values', "where")


def _check_size(study: Study, table: Table[StudyKeys]) -> None:
    """Check that no form has too many points or runs, before any point is made."""
    for form in study.forms:
        points = {e.name: study.count_points(form, e) for e in study.experiments.values()}
        if sum(points.values()) > MAX_POINTS:
            largest = max(points, key=lambda name: points[name])
            lists = [study.values(n, study.experiments[largest], form) for n in study.experiments[largest].over]
            raise table.named("experiment", table.keys.experiment)[largest].error(
                f"the {form.name} form has {sum(points.values()):,} points, {points[largest]:,} = "
                f'{" × ".join(str(len(values)) for values in lists)} of them in "{largest}"; at most {MAX_POINTS:,} '
                'are possible: shorten "over" or lists of values', "over",
            )  # fmt: skip
        check_runs(study, form)


def check_runs(study: Study, form: Effort) -> None:
    """Check the number of runs of a form, without making any.

    Raises:
        InputError: If there are too many.

    """
    if (runs := study.count(form)) > MAX_RUNS:
        raise InputError(
            f"the {form.name} form has {runs:,} runs; at most {MAX_RUNS:,} are possible: reduce its points or "
            "repetitions", str(study.folder / FILE),
        )  # fmt: skip


def _check_settings(study: Study) -> None:
    """Check every scenario key that an experiment sets: its placeholders, and that a scenario can hold its value."""
    try:
        for experiment in study.experiments.values():
            for form in study.forms:
                for point in study.slice(form, experiment, ()):
                    parameters = [study.parameters[name] for name in experiment.over]
                    for keys in (keys for p in parameters for keys in (p.sets, *p.choices.values())):
                        for key, value in keys.items():
                            setting(key, fill_setting(value, point.values))
    except InputError as error:
        raise InputError(error.message, str(study.folder / FILE)) from None


def _claims(table: Table[StudyKeys], study: Study, scopes: Mapping[str, Scope]) -> tuple[Claim, ...]:
    """Claims, from the file that the study names.

    Raises:
        InputError: If a claim has a mistake, or needs more than the full form has.

    """
    if not table.keys.claims:
        return ()
    file = Table.load(study.folder / table.keys.claims, ClaimsKeys)
    rows = file.rows("claim", file.keys.claim)
    claims = read_claims(rows, scopes)
    for row, claim in zip(rows, claims, strict=True):
        if lacks := study.shortfall(study.full, claim):
            raise row.error(f'"needs" asks for more than the full form: {lacks}', "needs")
    return claims


def _scopes(study: Study) -> dict[str, Scope]:
    """The names of each experiment that other tables may use, in either form."""
    names = {name: simulator.names(text, str(study.folder / name)) for name, text in study.scenarios.items()}
    scopes = {}
    for name, experiment in study.experiments.items():
        values = {
            p: tuple(dict.fromkeys(v for form in study.forms for v in study.values(p, experiment, form)))
            for p in experiment.over
        }
        used = [names[file] for file in study.scenarios_of(experiment)]
        flows, links, hosts = (tuple(dict.fromkeys(chain.from_iterable(kind))) for kind in zip(*used, strict=True))
        scopes[name] = Scope(name, values, flows, links, hosts)
    return scopes


def _templates(study: Study, table: Table[StudyKeys], *, allow_paths: bool) -> dict[str, str]:
    """Texts of the scenario templates that the points name."""
    texts: dict[str, str] = {}
    places = table.named("experiment", table.keys.experiment)
    for experiment in study.experiments.values():
        try:
            files = study.scenarios_of(experiment)
        except InputError as error:
            raise InputError(error.message, str(study.folder / FILE)) from None
        place = places[experiment.name]
        for file in files:
            if file not in texts:
                if not allow_paths:
                    check_inside("scenario", file, str(study.folder / FILE), place.line("scenario"))
                texts[file] = _template(study.folder, file, place)
    return texts


def _template(folder: Path, file: str, place: Table[ExperimentKeys]) -> str:
    """Text of a scenario template."""
    try:
        return read_text(folder / file)
    except (OSError, UnicodeDecodeError) as error:
        reason: Any = getattr(error, "strerror", None) or "not text in UTF-8"
        raise place.error(f'the scenario "{file}" cannot be read: {reason}', "scenario") from None
