"""Published values to compare with a study's results: a CSV file and how its rows find their points."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, nearest
from anabranch.files import read_text
from anabranch.study.scope import Scope
from anabranch.sweep import fill, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from anabranch.study.document import Table
    from anabranch.study.keys import GroupKeys, PublishedKeys
    from anabranch.sweep import Point, Value


@dataclass(frozen=True)
class Group:
    """Points whose deviations are summed up together."""

    name: str
    experiment: str
    where: Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """Values from a publication."""

    source: str
    metric: str
    relative_to: str
    """Parameter whose value divides deviations (a capacity in the metric's unit); "" for the published value."""
    group_by: str
    """Parameter by which the summary of deviations is split, besides the experiment; "" for none."""
    groups: tuple[Group, ...]
    """Further groups, summed up before the others."""
    sum_tolerance: float
    """By how much the sum of all flows may differ from the published sum, as a share of it, to count as agreeing."""
    printed: str
    """How the publication prints values: "exact", or "truncated" or "rounded" to whole units."""
    match: Mapping[str, Value]
    """Column → its content at a point, with placeholders for parameters."""
    experiment_match: Mapping[str, Mapping[str, Value]]
    """The same for single experiments. An experiment that is not listed has no published values."""
    table_column: str
    """Column with the name of the publication's own table; "" for none."""
    flow_column: str
    flows: Mapping[str, str]
    """Our flow → its text in the flow column."""
    value_column: str
    rows: tuple[Mapping[str, str], ...]

    def as_printed(self, value: float) -> float:
        """One of our values, printed like the publication's."""
        match self.printed:
            case "truncated":
                return float(math.floor(value))
            case "rounded":
                return float(round(value))
            case _:
                return value

    def at(self, point: Point) -> dict[str, float]:
        """Published value of each flow at a point; empty where nothing was published."""
        found = (self.rows[number] for number in self.rows_at(point))
        by_flow = {row[self.flow_column]: float(row[self.value_column]) for row in found}
        return {flow: by_flow[text] for flow, text in self.flows.items() if text in by_flow}

    def table_of(self, point: Point) -> str:
        """Name of the publication's table that a point is in; "" if there is none."""
        rows = self.rows_at(point) if self.table_column else []
        return self.rows[rows[0]][self.table_column] if rows else ""

    def rows_at(self, point: Point) -> list[int]:
        """The indices of the rows with the published values of a point."""
        if point.experiment not in self.experiment_match:
            return []
        columns = {**self.match, **self.experiment_match[point.experiment]}
        wanted = {column: plain(fill(value, point.values)) for column, value in columns.items()}
        return [i for i, row in enumerate(self.rows) if all(row[c] == text for c, text in wanted.items())]


def read_published(table: Table[PublishedKeys], folder: Path, scopes: Mapping[str, Scope]) -> Published:
    """Read the table [published] of a study and the file it names.

    Args:
        table: The table.
        folder: The folder of the study.
        scopes: The experiments by name.

    Raises:
        InputError: If a key names something that does not exist, or the file has a mistake.

    """
    keys = table.keys
    metric = table.choice("metric", keys.metric, tuple(next(iter(scopes.values())).metrics))
    own = table.inner("experiment", keys.experiment)
    compared = [_scope(own, n, n, scopes) for n in keys.experiment]
    published = Published(
        source=keys.source,
        metric=metric,
        relative_to=_relative_to(table, compared),
        group_by=_group_by(table, compared),
        groups=tuple(_group(row, scopes) for row in table.rows("group", keys.group)),
        sum_tolerance=keys.sum_tolerance,
        printed=keys.printed,
        match=keys.match,
        experiment_match=keys.experiment,
        table_column=keys.table_column,
        flow_column=keys.flow_column,
        flows={k: str(v) for k, v in keys.flows.items()},
        value_column=keys.value_column,
        rows=_rows(folder / keys.file),
    )
    for scope in compared:
        for template in keys.match.values():
            scope.template(table, "match", template)
        for template in keys.experiment[scope.experiment].values():
            scope.template(own, scope.experiment, template)
    _check_flows(table, published, compared)
    _check(published, folder / keys.file)
    return published


def check_divisors(published: Published, points: Iterable[Point], path: Path) -> None:
    """Check that no deviation would be divided by 0.

    Raises:
        InputError: If a published value that deviations are divided by is 0.

    """
    if published.relative_to:
        return
    for point in points:
        for number in published.rows_at(point):
            if float(published.rows[number][published.value_column]) == 0.0:
                message = (
                    'a deviation cannot be a share of 0: name a parameter to divide by, "relative_to" in [published]'
                )
                raise InputError(message, str(path), number + 2)


def _scope(table: Table[Any], key: str, name: str, scopes: Mapping[str, Scope]) -> Scope:
    if name not in scopes:
        raise table.error(f'there is no experiment "{name}" ({nearest(name, list(scopes))})', key)
    return scopes[name]


def _relative_to(table: Table[PublishedKeys], compared: Sequence[Scope]) -> str:
    name = table.keys.relative_to
    for scope in compared if name else []:
        scope.quantity(table, "relative_to", name)
        if 0 in scope.values[name]:
            raise table.error(f'a deviation cannot be a share of 0, a value of "{name}"', "relative_to")
    return name


def _group_by(table: Table[PublishedKeys], compared: Sequence[Scope]) -> str:
    name = table.keys.group_by
    known = list(dict.fromkeys(parameter for scope in compared for parameter in scope.values))
    if name and name not in known:
        raise table.error(f'"{name}" is no parameter of a compared experiment ({nearest(name, known)})', "group_by")
    return name


def _group(table: Table[GroupKeys], scopes: Mapping[str, Scope]) -> Group:
    keys = table.keys
    scope = _scope(table, "experiment", keys.experiment, scopes)
    return Group(keys.name, scope.experiment, scope.selection(table, keys.where))


def _check_flows(table: Table[PublishedKeys], published: Published, compared: Sequence[Scope]) -> None:
    """Check that each flow with published values is one of a compared experiment."""
    flows = tuple(dict.fromkeys(flow for scope in compared for flow in scope.flows))
    links = tuple(dict.fromkeys(link for scope in compared for link in scope.links))
    hosts = tuple(dict.fromkeys(host for scope in compared for host in scope.hosts))
    if compared:
        Scope("published", {}, flows, links, hosts).subjects(table, "flows", list(published.flows), published.metric)


def _rows(path: Path) -> tuple[dict[str, str], ...]:
    try:
        return tuple(csv.DictReader(io.StringIO(read_text(path), newline="")))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InputError(f"published values cannot be read: {reason}", str(path)) from None


def _check(published: Published, path: Path) -> None:
    """Check that all named columns are there and all values are numbers."""
    if not published.rows:
        raise InputError("holds no published values", str(path))
    columns = [c for c in published.rows[0] if c is not None]
    wanted = [published.value_column, published.flow_column, *published.match]
    wanted += [published.table_column] if published.table_column else []
    for match in published.experiment_match.values():
        wanted += match
    for column in wanted:
        if column not in columns:
            raise InputError(f'has no column "{column}" ({nearest(column, columns)})', str(path), 1)
    for number, row in enumerate(published.rows, start=2):
        try:
            is_number = math.isfinite(float(row[published.value_column]))
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            value, column = row[published.value_column], published.value_column
            message = f'"{value}" in column "{column}" is not a number' if value else f'column "{column}" has no value'
            raise InputError(message, str(path), number)
