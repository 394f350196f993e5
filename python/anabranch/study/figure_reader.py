"""Reads the figures of a study, with the keys of their kinds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from anabranch.metrics import SIGNED
from anabranch.plot.kinds import KINDS
from anabranch.plot.style import LINE_STYLES
from anabranch.study.figures import Figure, Reference
from anabranch.study.keys import FigureKeys, extended
from anabranch.sweep import matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.study.document import Table
    from anabranch.study.figures import Kind
    from anabranch.study.keys import ReferenceKeys
    from anabranch.study.scope import Scope


def figure_keys() -> type[FigureKeys]:
    """The keys of figures, with those that the kinds declare."""
    kinds: Any = Annotated[Literal[tuple(KINDS)], Meta(description="Kind of figure.")]
    found = {key.name: (key.name, key.kind, key.default) for kind in KINDS.values() for key in kind.keys}
    return extended(FigureKeys, [("kind", kinds, "lines"), *found.values()])


def read_figure(table: Table[FigureKeys], scopes: Mapping[str, Scope], usual: str) -> Figure:
    """Read a table [[figure]]; `usual` is the metric of one that names none.

    Raises:
        InputError: If the table names a metric, experiment, parameter, value or subject that does not exist.

    """
    keys, experiments = table.keys, tuple(scopes)
    only = experiments[0] if len(experiments) == 1 else ""
    scope = scopes[table.choice("experiment", keys.experiment or only, experiments)]
    kind = KINDS[keys.kind]
    _check_keys(table, kind)
    metric = table.choice("metric", keys.metric or usual, tuple(scope.metrics))
    series = _series(table, scope)
    figure = Figure(
        name=keys.name,
        title=keys.title,
        kind=kind,
        experiment=scope.experiment,
        metric=metric,
        x=_parameter(table, "x", scope, required="x" in kind.required),
        y=_parameter(table, "y", scope, required="y" in kind.required),
        rows=_parameter(table, "rows", scope),
        columns=_parameter(table, "columns", scope),
        series=series[0],
        dashes=series[1] if len(series) > 1 else "",
        subjects=scope.subjects(table, "subjects", keys.subjects, kind.subjects_of if kind.is_over_time else metric),
        labels={k: str(v) for k, v in keys.labels.items()},
        where=scope.selection(table, keys.where),
        references=tuple(_reference(row, scope, metric) for row in table.rows("reference", keys.reference)),
        log_x=keys.log_x,
        together=keys.together or "",
        width=keys.width,
        options={key.name: key.read(table, scope) for key in kind.keys},
    )
    for subject in figure.labels:
        scope.owner(table, "labels", subject)
    figure = _with_implied_series(figure, scope)
    _check_series(table, figure, scope)
    _check_logarithm(table, figure, scope)
    return figure


def read_figures(tables: Sequence[Table[FigureKeys]], scopes: Mapping[str, Scope], usual: str) -> tuple[Figure, ...]:
    """Read all tables [[figure]]; `usual` is the metric of those that name none.

    Raises:
        InputError: If a figure has a mistake, or two figures have the same name.

    """
    figures: dict[str, Figure] = {}
    for table in tables:
        figure = read_figure(table, scopes, usual)
        if figure.name in figures:
            raise table.error(f'there is another figure "{figure.name}"; names must be unique', "name")
        figures[figure.name] = figure
    return tuple(figures.values())


def _check_keys(table: Table[FigureKeys], kind: Kind) -> None:
    """Check that a figure has no key that only other kinds have."""
    for key in table:
        having = [other.name for other in KINDS.values() if key in _special_keys(other)]
        if having and kind.name not in having:
            raise table.error(f'"{key}" belongs to figures of kind {" or ".join(having)}, not "{kind.name}"', key)


def _special_keys(kind: Kind) -> set[str]:
    return {*kind.required, *kind.optional, *(key.name for key in kind.keys)}


def _parameter(table: Table[FigureKeys], key: str, scope: Scope, *, required: bool = False) -> str:
    name: str = getattr(table.keys, key)
    if required and not name:
        raise table.missing(key)
    return scope.parameter(table, key, name) if name else ""


def _series(table: Table[FigureKeys], scope: Scope) -> list[str]:
    """The one or two variables of the series."""
    series = table.keys.series
    names = [series] if isinstance(series, str) else series
    if len(set(names)) != len(names):
        raise table.error('"series" has to name one variable, or two different ones', "series")
    return [name if name == "subject" else scope.parameter(table, "series", name) for name in names]


def _left_out(figure: Figure, scope: Scope) -> list[str]:
    """Parameters in which the points of a figure differ, but that no axis, panel or series shows."""
    shown = (figure.x, figure.y, figure.rows, figure.columns, *figure.variables)
    found = []
    for name, values in scope.values.items():
        where = {k: w for k, w in figure.where.items() if k == name}
        if name not in shown and sum(matches({name: value}, where) for value in values) > 1:
            found.append(name)
    return found


def _with_implied_series(figure: Figure, scope: Scope) -> Figure:
    """The figure with a line per value of a parameter that nothing shows, if one subject alone has values."""
    subjects = figure.subjects or scope.known(figure.metric)
    left_out = _left_out(figure, scope)
    fits = figure.kind.has_places and figure.series == "subject" and not figure.together
    if fits and len(subjects) == 1 and len(left_out) == 1:
        return dataclasses.replace(figure, series=left_out[0], is_implied=True)
    return figure


def _check_series(table: Table[FigureKeys], figure: Figure, scope: Scope) -> None:
    """Check that each mark stands for one point and subject, or that the figure has the key `together`."""
    if not figure.kind.has_series:
        return
    _check_dashes(table, figure, scope)
    if figure.together and figure.series == "subject" and not figure.subjects:
        raise table.error(
            '"together" makes one value of several subjects: name them as "subjects", or a parameter as "series"',
            "together",
        )
    if figure.together or not figure.kind.has_places:
        return
    for name in _left_out(figure, scope):
        raise table.error(
            f'the figure shows points that differ in "{name}", but no axis, panel or series does: name it as one of '
            f'them, name one value of it in "where", or add together = "mean"'
        )
    subjects = figure.subjects or scope.known(figure.metric)
    if "subject" not in figure.variables and len(subjects) > 1:
        raise table.error(
            f'a line for each "{figure.series}" has several values at a point, those of {", ".join(subjects)}: '
            'name one of them in "subjects", or add together = "mean"',
            "series",
        )


def _check_dashes(table: Table[FigureKeys], figure: Figure, scope: Scope) -> None:
    """Check that two variables of the series are on no axis or panel, and that the second one has enough dashes."""
    if not figure.dashes:
        return
    for name in figure.variables:
        if name in (figure.x, figure.rows, figure.columns):
            raise table.error(f'"{name}" is on an axis or has panels already: name another one in "series"', "series")
    if figure.together and "subject" in figure.variables:
        raise table.error('"together" makes one value of several subjects: name two parameters as "series"', "together")
    where = {name: wanted for name, wanted in figure.where.items() if name == figure.dashes}
    chosen = [v for v in scope.values.get(figure.dashes, ()) if matches({figure.dashes: v}, where)]
    if len(chosen) > len(LINE_STYLES):
        raise table.error(
            f'"{figure.dashes}" has {len(chosen)} values, but there are {len(LINE_STYLES)} kinds of dashes: name it '
            'first, or select values in "where"', "series",
        )  # fmt: skip


def _check_logarithm(table: Table[FigureKeys], figure: Figure, scope: Scope) -> None:
    """Check that all values on a logarithmic axis are above 0; words have no place on a scale."""
    _check_heights(table, figure, scope)
    if not figure.log_x or not figure.x:
        return
    for value in scope.values[figure.x]:
        is_drawn = figure.x not in figure.where or matches({figure.x: value}, {figure.x: figure.where[figure.x]})
        if is_drawn and not isinstance(value, str | bool) and value <= 0:
            raise table.error(
                f'"{figure.x}" is {value:g} at a point, which a logarithmic axis cannot show: remove "log_x", or leave '
                'the value out by "where"', "log_x",
            )  # fmt: skip


def _check_heights(table: Table[FigureKeys], figure: Figure, scope: Scope) -> None:
    """Check that the metric and all reference lines of a logarithmic vertical axis are above 0."""
    if not figure.log_y:
        return
    if figure.metric in SIGNED:
        raise table.error(f'"{figure.metric}" can be negative, which a logarithmic axis cannot show', "log_y")
    for reference in figure.references:
        names = [reference.parameter] if reference.parameter else []
        heights = [reference.height({name: v}) for name in names for v in scope.values[name]]
        if not names and not reference.allocation:
            heights = [reference.offset]
        if any(height <= 0.0 for height in heights):
            raise table.error(
                f'the line "{reference.label}" reaches {min(heights):g}, which a logarithmic axis cannot show', "log_y"
            )


def _reference(table: Table[ReferenceKeys], scope: Scope, metric: str) -> Reference:
    keys = table.keys
    name, allocation, flow = keys.parameter, keys.allocation or "", keys.of
    if allocation and name:
        raise table.error('a line follows a parameter or an allocation, not both: take "parameter" away', "allocation")
    if allocation and scope.metrics[metric].unit != "Mbit/s":
        raise table.error(f'an allocation is in Mbit/s, which "{metric}" is not', "allocation")
    if allocation or flow:
        scope.subjects(table, "of", [flow], "goodput")
    if not name and not allocation:
        if table.has("factor"):
            raise table.error('"factor" multiplies a parameter or an allocation: give a constant as "offset"', "factor")
        if not table.has("offset"):
            raise table.missing("offset")
    parameter = scope.quantity(table, "parameter", name) if name else ""
    return Reference(keys.label, parameter, keys.factor, keys.offset, allocation, flow)
