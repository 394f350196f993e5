"""Metrics: what a study can tabulate, draw and hold against publications, each with its place in a run's result.

A metric reads a result document and gives one value per *subject*: a flow ("F0"), a path of a flow ("F0/A"), a
direction of a link ("bottleneck/forward"), or the whole run ("").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Level = Literal["run", "flow", "path", "link"]


@dataclass(frozen=True)
class Metric:
    """A quantity of a run."""

    name: str
    label: str
    unit: str
    level: Level
    field: str
    """Key in the result; a dot goes one table deeper."""
    scale: float = 1.0
    """What the result's value is multiplied with to be in `unit`."""

    @property
    def axis(self) -> str:
        """Label of an axis."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label

    def read(self, document: Mapping[str, Any]) -> dict[str, float]:
        """Value by subject; a subject without a value (no sample in the run) is NaN."""
        return {subject: self._value(part) for subject, part in subjects(document, self.level)}

    def _value(self, part: Mapping[str, Any]) -> float:
        value: Any = part
        for key in self.field.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return math.nan if value is None else float(value) * self.scale


def subjects(document: Mapping[str, Any], level: Level) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of a result document at a level, by the name of the subject."""
    if level == "run":
        yield "", document
    elif level == "link":
        for link in document["links"]:
            yield f"{link['name']}/{link['direction']}", link
    else:
        for flow in document["flows"]:
            if level == "flow":
                yield flow["name"], flow
            else:
                for path in flow["paths"]:
                    yield f"{flow['name']}/{path['name']}", path


METRICS: dict[str, Metric] = {row[0]: Metric(*row) for row in _native.metrics()}
"""All metrics by name, as the native module lists them."""
