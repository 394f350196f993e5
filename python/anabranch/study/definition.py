"""Reads a study from its folder: `study.toml`, the scenario templates that it names, and files of published values.

docs/reference/studies.md describes the keys.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch._core import simulator
from anabranch.errors import InputError, nearest
from anabranch.files import read_text
from anabranch.metrics import METRICS
from anabranch.paths import check_inside
from anabranch.stats import INTERVALS
from anabranch.study.claims import Claim, read_claims
from anabranch.study.code import read_function
from anabranch.study.document import Table
from anabranch.study.figure_checks import check_figures
from anabranch.study.inside import check_files, check_traces
from anabranch.study.layout import reserved
from anabranch.study.model import FILE, Effort, Experiment, More, Study
from anabranch.study.own_metrics import DEFAULT, own_names, read_own_metrics
from anabranch.study.published import Published, check_divisors, read_published
from anabranch.study.scope import Scope
from anabranch.sweep import Parameter, Point, Value, fill_setting, placeholders, plain, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.stats import Centre, Interval
    from anabranch.study.code import Function

SPREADS = ("interval", "std")
"""How reports show the spread of repetitions: by the interval of the centre alone, or by the standard deviation too."""
MAX_REPETITIONS = 100_000
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
    study = _with_references(study, table, metrics, reader)
    table.finish()
    return study


def outline(folder: Path) -> Study:
    """Read the grids of a study alone, without its scenarios, published values, figures and claims.

    Raises:
        InputError: Naming file, line and remedy of the first mistake in the grids.

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
        name=_name(table, folder),
        folder=folder,
        title=table.get("title", str),
        source=table.get("source", str, ""),
        about=table.get("about", str, ""),
        assumptions=tuple(table.texts("assumptions", [])),
        centre=centre,
        interval=_interval(table, centre),
        metric=_usual_metric(table, further),
        paired=_paired(table, parameters),
        shows_deviation=table.choice("spread", SPREADS, SPREADS[0]) == "std",
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


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def _name(table: Table, folder: Path) -> str:
    """The name of a study: its key, or else that of the folder."""
    name = table.get("name", str, folder.resolve().name)
    if table.has("name") and not _NAME.fullmatch(name):
        raise table.error(f'the name "{name}" becomes a folder: use letters, digits, ".", "-" and "_" only', "name")
    return name


def _paired(table: Table, parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """The parameters that stay out of the seed."""
    paired = tuple(table.texts("paired", []))
    for name in paired:
        if name not in parameters:
            raise table.error(f'"{name}" is no parameter of this study ({nearest(name, list(parameters))})', "paired")
    _check_twice(paired, table, "paired")
    return paired


def _interval(table: Table, centre: Centre) -> Interval:
    """The kind of intervals, one of those that the centre of the study can have."""
    allowed = INTERVALS[centre]
    name = table.get("interval", str, allowed[0])
    for interval in allowed:
        if interval == name:
            return interval
    raise table.error(f'a {centre} cannot have the interval "{name}"; it can have {" or ".join(allowed)}', "interval")


def _with_references(
    study: Study, table: Table, metrics: Mapping[str, Function] | None, reader: Callable[[Table], Function]
) -> Study:
    """The study with the tables that refer to its experiments: labels, own metrics, figures, claims."""
    # The kinds of figures import Matplotlib, which a list of studies does not need.
    from anabranch.study.figure_reader import read_figures

    scopes = _scopes(study)
    own = table.table("metric") if table.holds("metric", dict) else Table({}, (), "", str(study.folder / FILE))
    study = dataclasses.replace(study, own=read_own_metrics(own, scopes, metrics, reader))
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
        check_divisors(published, _matched(study, published), study.folder / inner.get("file", str))
    rows = table.rows("figure")
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


def _parameter(name: str, table: Table) -> Parameter:
    if name in reserved():
        raise table.error(f'"{name}" is a column of the tables of results: choose another name for the parameter')
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
    _check_twice(over, table, "over")
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
    if repetitions > MAX_REPETITIONS:
        raise table.error(f"there can be at most {MAX_REPETITIONS:,} repetitions", "repetitions")
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
    """Check that each row of "more" selects a point of its form."""
    for name, form in (("full", study.full), ("quick", study.quick)):
        for row, more in zip(table.table(name).rows("more"), form.more, strict=True):
            points = study.slice(form, study.experiments[more.experiment], more.where)
            if not any(more.has(point) for point in points):
                raise row.error(f'no point of "{more.experiment}" in the {name} form is so', "where")


def _check_size(study: Study, table: Table) -> None:
    """Check that no form has too many points or runs, before any point is made."""
    for form in study.forms:
        points = {e.name: study.count_points(form, e) for e in study.experiments.values()}
        if sum(points.values()) > MAX_POINTS:
            largest = max(points, key=lambda name: points[name])
            lists = [study.values(n, study.experiments[largest], form) for n in study.experiments[largest].over]
            raise table.table("experiment").table(largest).error(
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
    """The names of each experiment that other tables may use, in either form."""
    names = {name: simulator.names(text, str(study.folder / name)) for name, text in study.scenarios.items()}
    scopes = {}
    for name, experiment in study.experiments.items():
        values = {
            p: tuple(dict.fromkeys(v for form in study.forms for v in study.values(p, experiment, form)))
            for p in experiment.over
        }
        used = [names[file] for file in study.scenarios_of(experiment)]
        flows = dict.fromkeys(flow for flows, _ in used for flow in flows)
        links = dict.fromkeys(link for _, links in used for link in links)
        scopes[name] = Scope(name, values, tuple(flows), tuple(links))
    return scopes


def _templates(study: Study, table: Table, *, allow_paths: bool) -> dict[str, str]:
    """Texts of the scenario templates that the points name."""
    texts: dict[str, str] = {}
    for experiment in study.experiments.values():
        try:
            files = study.scenarios_of(experiment)
        except InputError as error:
            raise InputError(error.message, str(study.folder / FILE)) from None
        place = table.table("experiment").table(experiment.name)
        for file in files:
            if file not in texts:
                if not allow_paths:
                    check_inside("scenario", file, str(study.folder / FILE), place.line("scenario"))
                texts[file] = _template(study.folder, file, place)
    return texts


def _template(folder: Path, file: str, place: Table) -> str:
    """Text of a scenario template."""
    try:
        return read_text(folder / file)
    except (OSError, UnicodeDecodeError) as error:
        reason: Any = getattr(error, "strerror", None) or "not text in UTF-8"
        raise place.error(f'the scenario "{file}" cannot be read: {reason}', "scenario") from None
