"""Metrics that a study defines: expressions over other metrics, and functions in Python.

`[metric.share]` with `expr = "goodput(F0) / sum(goodput(flows))"` is a metric of the run. An expression with one
value per subject, such as `goodput(flows) / 2`, is a metric of flows, paths, links or hosts.
`anabranch.expressions` has the arithmetic.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from anabranch import _native
from anabranch.errors import nearest
from anabranch.expressions import (
    FUNCTIONS,
    Expression,
    ExpressionError,
    Kind,
    NoValueError,
    Operand,
    compile_text,
    unit_of,
    unit_text,
    words,
)  # fmt: skip
from anabranch.metrics import METRICS, FairnessMetric, Metric
from anabranch.study.code import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch.expressions import Data, Value
    from anabranch.fairness.shares import Fairness
    from anabranch.metrics import Level
    from anabranch.study.code import Function
    from anabranch.study.document import Table
    from anabranch.study.keys import MetricKeys, Metrics
    from anabranch.study.scope import Scope

DEFAULT = "default"
"""The key in [metric] with the study's metric; an own metric cannot have this name."""
_SETS: dict[str, Level] = {"flows": "flow", "paths": "path", "links": "link", "hosts": "host"}
_WILD = "*?["


@dataclass(frozen=True)
class OwnMetric(Metric):
    """A metric with an expression."""

    expression: Expression = field(kw_only=True)

    def values(self, data: Data) -> tuple[dict[str, float], Counter[str]]:
        """Value by subject, and the number of subjects without a value by reason, for one run."""
        try:
            found, undefined = self.expression.evaluate(data)
        except NoValueError as error:
            return {}, Counter({error.reason: 1} if error.reason else {})
        return (found if isinstance(found, dict) else {"": found}), undefined


@dataclass(frozen=True)
class CodeMetric(Metric):
    """A metric of the run with a function in Python."""

    function: Function = field(kw_only=True)

    def value(self, part: Mapping[str, Any]) -> float:
        """The function's value for the result document; NaN without one."""
        found = self.function(cast("Document", part))
        return math.nan if found is None else float(found)


class OwnMetrics:
    """The metrics that a study defines, in an order in which each follows the ones that it reads."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        self.metrics = {metric.name: metric for metric in metrics}
        self.undefined: Counter[tuple[str, str]] = Counter()
        """Number of values that do not exist, by metric and reason."""
        read = {n for m in self.metrics.values() if isinstance(m, OwnMetric) for n in m.expression.names}
        self._fairness = [m for n in sorted(read) if isinstance(m := METRICS.get(n), FairnessMetric)]

    def read(
        self, document: Document, found: Iterable[tuple[str, str, float]], fairness: Callable[[], Fairness]
    ) -> Iterator[tuple[str, str, float]]:
        """Name of the metric, subject and value, for each own metric and subject with a value in a run.

        Args:
            document: The run's result document.
            found: The same for the metrics of every study.
            fairness: Function to the fair shares at the run's point; called only if an expression needs them.

        """
        data: dict[str, dict[str, float]] = {}
        for name, subject, value in found:
            data.setdefault(name, {})[subject] = value
        for metric in self._fairness:
            values = metric.of(data["goodput"], fairness())
            data[metric.name] = {subject: value for subject, value in values.items() if not math.isnan(value)}
        for name, own in self.metrics.items():
            if isinstance(own, OwnMetric):
                data[name], undefined = own.values(data)
                self.undefined.update({(name, reason): count for reason, count in undefined.items()})
            else:
                value = own.value(document)
                data[name] = {} if math.isnan(value) else {"": value}
            yield from ((name, subject, value) for subject, value in data[name].items())

    @property
    def notes(self) -> list[str]:
        """A sentence for each own metric and each reason for which it lacks values."""
        return [
            f"{name}: {count} value{'s' if count > 1 else ''} left out: {reason}."
            for (name, reason), count in sorted(self.undefined.items())
        ]


def own_names(table: Table[Metrics]) -> list[str]:
    """The names of the metrics that a table [metric] defines."""
    return [name for name in table.keys if name != DEFAULT]


def read_own_metrics(
    table: Table[Metrics],
    scopes: Mapping[str, Scope],
    functions: Mapping[str, Function] | None = None,
    reader: Callable[[Table[MetricKeys]], Function] | None = None,
) -> dict[str, Metric]:
    """Read the tables [metric.NAME], and add functions in Python as metrics of the run.

    Args:
        table: The table [metric].
        scopes: The experiments by name.
        functions: Functions of the caller, by name.
        reader: Reads the function that a table [metric.NAME] names.

    Raises:
        InputError: If an expression has a mistake, metrics need one another in a cycle, or a name is taken.

    """
    found: dict[str, Metric] = {n: CodeMetric(n, n, "", "run", "", function=f) for n, f in (functions or {}).items()}
    rows = {name: _row(table, name) for name in own_names(table)}
    for name in [*found, *rows]:
        if name in METRICS or name in FUNCTIONS or name in _SETS or (name in found and name in rows):
            raise table.error(f'the name "{name}" is taken: choose another one for the own metric', name)
    known = [*METRICS, *found, *rows]
    for name, row in rows.items():
        if reader is not None and row.keys.function is not UNSET:
            keys = row.keys
            found[name] = CodeMetric(name, keys.label or name, keys.unit or "", "run", "", function=reader(row))
    texts = {name: row.keys.expr or "" for name, row in rows.items() if name not in found}
    for name in _ordered(texts, known, rows):
        row = rows[name]
        resolver = _Resolver({**METRICS, **found}, scopes)
        try:
            expression = compile_text(texts[name], known, resolver.resolve)
        except ExpressionError as error:
            raise row.error(f'"{texts[name]}": {error}', "expr") from None
        found[name] = OwnMetric(
            name=name,
            label=row.keys.label or name,
            unit=unit_text(expression.kind.unit) if row.keys.unit is UNSET else row.keys.unit,
            level=_level(expression.kind.level),
            field="",
            expression=expression,
        )
    return found


def _row(table: Table[Metrics], name: str) -> Table[MetricKeys]:
    """The table [metric.NAME]."""
    keys = table.keys[name]
    if isinstance(keys, str):
        raise table.error(f'"{name}" has to be a table with "expr" or "function", not "{keys}"', name)
    row = table.inner(name, keys)
    if keys.expr is UNSET and keys.function is UNSET:
        raise row.missing("expr")
    if keys.expr is not UNSET and keys.function is not UNSET:
        raise row.error('"function" cannot be combined with "expr"', KEY)
    return row


def _level(name: str) -> Level:
    levels: dict[str, Level] = {level: level for level in _SETS.values()}
    return levels.get(name, "run")


def _ordered(texts: Mapping[str, str], known: Sequence[str], rows: Mapping[str, Table[MetricKeys]]) -> list[str]:
    """The names of the expressions, each after those that it reads.

    Raises:
        InputError: If expressions read one another in a cycle.

    """
    reads = {name: [w for w in words(text, known) if w in texts] for name, text in texts.items()}
    order: list[str] = []
    while len(order) < len(texts):
        ready = [n for n in texts if n not in order and all(other in order for other in reads[n])]
        if not ready:
            name = next(n for n in texts if n not in order)
            cycle = [name]
            while cycle.count(cycle[-1]) == 1:
                cycle.append(next(other for other in reads[cycle[-1]] if other not in order))
            cycle = cycle[cycle.index(cycle[-1]) :]
            raise rows[cycle[0]].error(f"metrics need one another in a cycle: {' → '.join(cycle)}", "expr")
        order += ready
    return order


class _Resolver:
    """Turns names of metrics with their subjects into operands."""

    def __init__(self, metrics: Mapping[str, Metric], scopes: Mapping[str, Scope]) -> None:
        self._metrics = metrics
        directions = _native.directions()
        self._flows = list(dict.fromkeys(flow for scope in scopes.values() for flow in scope.flows))
        links = dict.fromkeys(link for scope in scopes.values() for link in scope.links)
        self._links = [f"{link}/{direction}" for link in links for direction in directions]
        self._hosts = list(dict.fromkeys(host for scope in scopes.values() for host in scope.hosts))

    def resolve(self, name: str, argument: str | None) -> tuple[str, Operand]:
        """The operand of a metric and the text in its parentheses.

        Raises:
            ExpressionError: If the subjects do not exist or are not of the metric's level.

        """
        metric = self._metrics[name]
        unit = unit_of(metric.unit)
        if metric.level == "run":
            if argument:
                raise ExpressionError(f'"{name}" has one value per run: omit "({argument})"')
            return name, Operand(Kind("", unit), _one(name, ""))
        if not argument:
            raise ExpressionError(f'"{name}" needs subjects: {name}({metric.level}s), or one of them')
        parts = [part.strip().strip('"') for part in argument.split(",")]
        patterns = [pattern for part in parts for pattern in self._patterns(name, metric.level, part)]
        if len(parts) == 1 and parts[0] == patterns[0] and not any(sign in parts[0] for sign in _WILD):
            return name, Operand(Kind("", unit), _one(name, parts[0]))
        return name, Operand(Kind(metric.level, unit), _Several(name, tuple(patterns)))

    def _patterns(self, name: str, level: Level, part: str) -> list[str]:
        """Patterns for a set, a pattern or a name of subjects."""
        inner = part.removeprefix("paths(").removesuffix(")") if part.startswith("paths(") else ""
        if part in _SETS or inner:
            of = "path" if inner else _SETS[part]
            if of != level:
                raise ExpressionError(f'"{name}" has values of {level}s, not of {of}s: write {name}({level}s)')
            self._check(inner, self._flows) if inner else None
            return [f"{inner}/*" if inner else "*"]
        if level == "path":
            flow, _, path = part.partition("/")
            self._check(flow, self._flows)
            if not path:
                raise ExpressionError(f'"{part}" is a flow and "{name}" has values of paths: write paths({part})')
        else:
            self._check(part, {"flow": self._flows, "link": self._links, "host": self._hosts}[level])
        return [part]

    @staticmethod
    def _check(subject: str, known: Sequence[str]) -> None:
        if not any(fnmatchcase(name, subject) or name == subject for name in known):
            raise ExpressionError(f'there is no "{subject}" ({nearest(subject, list(known))})')


def _one(name: str, subject: str) -> Callable[[Data], Value]:
    def load(data: Data) -> Value:
        values = data.get(name)
        if values is None or subject not in values:
            raise NoValueError
        return values[subject]

    return load


class _Several:
    """The values of the subjects that match one of some patterns."""

    def __init__(self, name: str, patterns: tuple[str, ...]) -> None:
        self._name = name
        self._patterns = patterns
        self._matches: dict[str, bool] = {}

    def __call__(self, data: Data) -> Value:
        return {subject: value for subject, value in data.get(self._name, {}).items() if self._has(subject)}

    def _has(self, subject: str) -> bool:
        found = self._matches.get(subject)
        if found is None:
            found = any(subject == p or fnmatchcase(subject, p) for p in self._patterns)
            self._matches[subject] = found
        return found
