"""Figures that a study asks for, as values; `anabranch.plot` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import nearest
from anabranch.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.study.document import Table
    from anabranch.sweep import Value

KINDS = ("lines", "windows")


@dataclass(frozen=True)
class Reference:
    """A line of known height beside the measured ones, such as a link's capacity."""

    label: str
    parameter: str
    """Parameter whose value gives the height; "" for a constant."""
    factor: float
    """What that value is multiplied with, or the constant."""
    offset: float
    """What is added to it."""

    def height(self, values: Mapping[str, Value]) -> float:
        """Height of the line at a point."""
        value = float(values[self.parameter]) if self.parameter else 1.0
        return self.offset + self.factor * value


@dataclass(frozen=True)
class Figure:
    """A figure: panels of lines over a parameter, or windows over time."""

    name: str
    title: str
    kind: str
    experiment: str
    metric: str
    x: str
    """Parameter on the horizontal axis."""
    rows: str
    """Parameter with one row of panels per value; "" for one row."""
    columns: str
    """Parameter with one column of panels per value; "" for one column."""
    series: str
    """"subject" for a line per flow, path or link, or a parameter with a line per value."""
    subjects: tuple[str, ...]
    """Which subjects to draw; empty for all."""
    labels: Mapping[str, str]
    """Names of subjects for people, where they differ from the experiment's."""
    where: Mapping[str, Any]
    """Which points to draw."""
    references: tuple[Reference, ...]
    log_x: bool
    window: tuple[float, float]
    """Span of time of a figure of windows, seconds; (0, 0) for the whole run."""


def read_figure(table: Table, experiments: list[str], parameters: list[str]) -> Figure:
    """Read a table [[figure]].

    Raises:
        InputError: If it names a kind, metric, experiment or parameter that is not there.

    """
    experiment = table.choice("experiment", tuple(experiments), experiments[0] if len(experiments) == 1 else None)
    kind = table.choice("kind", KINDS, "lines")
    figure = Figure(
        name=table.get("name", str),
        title=table.get("title", str, ""),
        kind=kind,
        experiment=experiment,
        metric=table.choice("metric", tuple(METRICS), "goodput"),
        x=_parameter(table, "x", parameters, required=kind == "lines"),
        rows=_parameter(table, "rows", parameters),
        columns=_parameter(table, "columns", parameters),
        series=_parameter(table, "series", [*parameters, "subject"]) or "subject",
        subjects=tuple(table.texts("subjects", [])),
        labels={k: str(v) for k, v in table.settings("labels").items()},
        where=table.selection("where"),
        references=tuple(_reference(row, parameters) for row in table.rows("reference")),
        log_x=table.get("log_x", bool, False),
        window=_window(table),
    )
    for name in figure.where:
        if name not in parameters:
            raise table.error(f'"{name}" is no parameter of this study ({nearest(name, parameters)})', "where")
    table.finish()
    return figure


def _window(table: Table) -> tuple[float, float]:
    span = table.scalars("window", [])
    if not span:
        return (0.0, 0.0)
    if len(span) != 2 or not all(isinstance(s, int | float) for s in span) or span[0] >= span[1]:  # noqa: PLR2004
        raise table.error('"window" has to be [from, to] in seconds', "window")
    return (float(span[0]), float(span[1]))


def _parameter(table: Table, key: str, parameters: list[str], *, required: bool = False) -> str:
    name = table.get(key, str, None if required else "")
    if name and name not in parameters:
        raise table.error(f'"{name}" is no parameter of this study ({nearest(name, parameters)})', key)
    return name


def _reference(table: Table, parameters: list[str]) -> Reference:
    reference = Reference(
        label=table.get("label", str),
        parameter=_parameter(table, "parameter", parameters),
        factor=table.get("factor", float, 1.0),
        offset=table.get("offset", float, 0.0),
    )
    table.finish()
    return reference
