"""Published values that a study's results stand beside: a CSV file and how its rows find their points."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, nearest
from anabranch.metrics import METRICS
from anabranch.sweep import fill, plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch.study.document import Table
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
    """Parameter by whose value deviations are divided (a capacity in the metric's unit); "" for the published value."""
    group_by: str
    """Parameter by which the summary of deviations is split, besides the experiment; "" for none."""
    groups: tuple[Group, ...]
    """Further groups, summed up before the others."""
    sum_tolerance: float
    """By how much the sum of all flows may differ from the published sum, as a share of it, to count as agreeing."""
    printed: str
    """How the publication prints values: "exact", or "truncated" or "rounded" to whole units."""
    match: Mapping[str, Value]
    """Column → what it holds at a point, with placeholders for parameters."""
    experiment_match: Mapping[str, Mapping[str, Value]]
    """The same for single experiments. An experiment that is not listed has no published values."""
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
        if point.experiment not in self.experiment_match:
            return {}
        columns = {**self.match, **self.experiment_match[point.experiment]}
        wanted = {column: plain(fill(value, point.values)) for column, value in columns.items()}
        found = [row for row in self.rows if all(row[c] == text for c, text in wanted.items())]
        by_flow = {row[self.flow_column]: float(row[self.value_column]) for row in found}
        return {flow: by_flow[text] for flow, text in self.flows.items() if text in by_flow}


def read_published(table: Table, folder: Path) -> Published:
    """Read the table [published] of a study and the file it names.

    Raises:
        InputError: If a key or the file is not as it should be.

    """
    name = table.get("file", str)
    published = Published(
        source=table.get("source", str, ""),
        metric=table.choice("metric", tuple(METRICS), "goodput"),
        relative_to=table.get("relative_to", str, ""),
        group_by=table.get("group_by", str, ""),
        groups=tuple(_group(row) for row in table.rows("group")),
        sum_tolerance=table.get("sum_tolerance", float, 0.06),
        printed=table.choice("printed", ("exact", "truncated", "rounded"), "exact"),
        match=table.settings("match"),
        experiment_match={n: table.table("experiment").settings(n) for n in table.table("experiment")},
        flow_column=table.get("flow_column", str, "flow"),
        flows={k: str(v) for k, v in table.settings("flows").items()},
        value_column=table.get("value_column", str),
        rows=_rows(folder / name),
    )
    table.finish()
    _check(published, folder / name)
    return published


def _group(table: Table) -> Group:
    group = Group(table.get("name", str), table.get("experiment", str), table.selection("where"))
    table.finish()
    return group


def _rows(path: Path) -> tuple[dict[str, str], ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InputError(f"published values cannot be read: {reason}", str(path)) from None


def _check(published: Published, path: Path) -> None:
    """Check that all named columns are there and all values are numbers."""
    if not published.rows:
        raise InputError("holds no published values", str(path))
    columns = [c for c in published.rows[0] if c is not None]
    wanted = [published.value_column, published.flow_column, *published.match]
    for match in published.experiment_match.values():
        wanted += match
    for column in wanted:
        if column not in columns:
            raise InputError(f'has no column "{column}" ({nearest(column, columns)})', str(path), 1)
    for number, row in enumerate(published.rows, start=2):
        try:
            float(row[published.value_column])
        except (TypeError, ValueError):
            message = f'"{row[published.value_column]}" in column "{published.value_column}" is not a number'
            raise InputError(message, str(path), number) from None
