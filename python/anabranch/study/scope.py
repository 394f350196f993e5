"""Names of an experiment that the tables of a study may use: its parameters, their values, its flows, links and hosts.

An unknown name would silently select nothing, so it is a mistake of the table that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from anabranch import _native
from anabranch.errors import nearest
from anabranch.metrics import METRICS
from anabranch.sweep import placeholders, plain
from anabranch.theory import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.metrics import Level, Metric
    from anabranch.study.document import Table
    from anabranch.study.keys import Selection
    from anabranch.sweep import Value


@dataclass(frozen=True)
class Scope:
    """An experiment, as other tables refer to it."""

    experiment: str
    values: Mapping[str, tuple[Value, ...]]
    """Its parameters, each with the values that it has in either form of the study."""
    flows: tuple[str, ...]
    links: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    """The hosts that the scenarios declare."""
    metrics: Mapping[str, Metric] = field(default_factory=lambda: METRICS)
    """All metrics of the study, its own ones too."""

    def parameter(self, table: Table[Any], key: str, name: str) -> str:
        """Check that a parameter, the value of a key, is one of this experiment."""
        if name not in self.values:
            known = nearest(name, list(self.values))
            raise table.error(f'"{name}" is no parameter of experiment "{self.experiment}" ({known})', key)
        return name

    def quantity(self, table: Table[Any], key: str, name: str) -> str:
        """Check that a parameter has numbers for values."""
        for value in self.values[self.parameter(table, key, name)]:
            if isinstance(value, str | bool):
                raise table.error(f'"{key}" needs a parameter whose values are numbers: "{name}" has "{value}"', key)
        return name

    def selection(self, table: Table[Any], where: Selection) -> Selection:
        """Check that the selection of a table names parameters and values that occur."""
        for name, wanted in where.items():
            known = [plain(v) for v in self.values[self.parameter(table, "where", name)]]
            for value in wanted if isinstance(wanted, list) else [wanted]:
                if plain(value) not in known:
                    hint = nearest(plain(value), known)
                    raise table.error(f'"{name}" is never {plain(value)} in "{self.experiment}" ({hint})', "where")
        return where

    def subjects(self, table: Table[Any], key: str, subjects: Sequence[str], metric: str) -> tuple[str, ...]:
        """Check that subjects are what a metric, or a quantity of theory, has values for.

        A pattern such as "F*" becomes the flows, links or hosts that it matches. Names of paths are known only after
        a run.
        """
        level = self.metrics[metric].level if metric in self.metrics else QUANTITIES[metric].level
        known = self.flows if level == "path" else self._known(level)
        if level != "path":
            matched = {subject: [k for k in known if fnmatchcase(k, subject)] for subject in subjects if subject}
            subjects = list(dict.fromkeys(found for s in subjects for found in matched.get(s) or [s]))
        for subject in subjects:
            name = subject.partition("/")[0] if level == "path" and "/" in subject else subject
            if name not in known or (level == "path" and name == subject):
                forms = {"run": "nothing: the metric has one value per run", "flow": "a flow", "path": "FLOW/PATH",
                         "link": "LINK/DIRECTION", "host": "a host with a cost"}  # fmt: skip
                hint = nearest(name, [k for k in known if k])
                raise table.error(f'"{key}" has to name {forms[level]}, not "{subject}" ({hint})', key)
        return tuple(subjects)

    def known(self, metric: str) -> tuple[str, ...]:
        """The subjects that a metric has values for, as far as they are known before a run; names of paths are not."""
        return self._known(self.metrics[metric].level)

    def _known(self, level: Level) -> tuple[str, ...]:
        """The subjects of a level, without those of paths."""
        links = tuple(f"{link}/{direction}" for link in self.links for direction in _native.directions())
        subjects: dict[Level, tuple[str, ...]]
        subjects = {"run": ("",), "flow": self.flows, "path": (), "link": links, "host": self.hosts}
        return subjects[level]

    def owner(self, table: Table[Any], key: str, subject: str) -> None:
        """Check that a subject of any metric is a flow, a link or a host, or belongs to one."""
        name = subject.partition("/")[0]
        known = [*self.flows, *self.links, *self.hosts]
        if name and name not in known:
            raise table.error(
                f'"{key}" has to name flows, paths, links or hosts, not "{subject}" ({nearest(name, known)})', key
            )

    def template(self, table: Table[Any], key: str, template: Value) -> None:
        """Check that each placeholder of a text names a parameter of this experiment."""
        for name in placeholders(template):
            if name not in self.values:
                known = nearest(name, list(self.values))
                raise table.error(f'"{template}" refers to "{name}", which is no parameter here ({known})', key)
