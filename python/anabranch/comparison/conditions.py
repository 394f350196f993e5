"""Conditions of a comparison, such as "goodput<-2%", for checks in continuous integration.

A condition is met if the whole interval of a difference lies beyond its bound. With "%" the bound is relative to
the baseline, otherwise it is in the metric's unit. "METRIC@SUBJECT" limits a condition to one flow, path or link
direction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.comparison.differences import Missing
from anabranch.errors import InputError, nearest
from anabranch.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.comparison.differences import Difference

_FORM = re.compile(r"\s*([\w-]+)(?:@(.+))?\s*([<>])\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([^\s\d<>]\S*)?\s*")


@dataclass(frozen=True)
class Condition:
    """A bound for the difference of a metric."""

    text: str
    metric: str
    subject: str | None
    """The only subject to check; all subjects if `None`."""
    is_upper: bool
    """Whether differences above the bound meet the condition; if false, differences below it do."""
    bound: float
    """Bound in the metric's unit, or as a ratio."""
    is_relative: bool

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition.

        Raises:
            InputError: If the form, the metric or the unit is wrong.

        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError(f'condition "{text}" must have the form METRIC[@SUBJECT]<NUMBER[%], such as "goodput<-2%"')
        name, subject, sign, number, unit = found.groups()
        if name not in METRICS:
            raise InputError(f'condition "{text}": unknown metric "{name}"; {nearest(name, list(METRICS))}')
        own = METRICS[name].unit
        if unit is not None and unit not in ("%", own):
            raise InputError(f'condition "{text}": {name} is in {own or "no unit"} or relative in %, not in {unit}')
        relative = unit == "%"
        bound = float(number) / 100.0 if relative else float(number)
        return cls(text, name, subject and subject.strip(), sign == ">", bound, relative)

    def covers(self, part: Difference | Missing) -> bool:
        """Whether the condition applies to a metric of a subject."""
        return part.metric == self.metric and self.subject in (None, part.subject)

    def is_met(self, difference: Difference) -> bool | None:
        """Whether the whole interval lies beyond the bound; `None` if there is no interval."""
        if difference.interval is None:
            return None
        interval = difference.relative_interval if self.is_relative else difference.interval
        if interval is None:
            # The baseline is 0, so each difference is beyond any relative bound in its direction.
            return difference.interval.low > 0.0 if self.is_upper else difference.interval.high < 0.0
        return interval.low > self.bound if self.is_upper else interval.high < self.bound


@dataclass(frozen=True)
class Check:
    """A condition and a part of the comparison that it applies to."""

    condition: Condition
    part: Difference | Missing
    met: bool | None
    """Whether the condition is met; `None` if the runs cannot decide it."""

    @property
    def sentence(self) -> str:
        """The outcome with its numbers."""
        part, condition = self.part, self.condition
        where = f"{part.metric} of {part.subject}" if part.subject else part.metric
        where = f"{where} at {part.point}" if part.point else where
        if isinstance(part, Missing):
            return f'{condition.text}: {where} has no value in "{part.side}"'
        if part.interval is None:
            return f'{condition.text}: {where} in "{part.side}" has no interval; it takes runs with two or more seeds'
        if condition.is_relative and part.relative is not None and part.relative_interval is not None:
            low, high = part.relative_interval.low, part.relative_interval.high
            shown = f"{100 * part.relative:+.2f} % (interval {100 * low:+.2f} to {100 * high:+.2f} %)"
        else:
            unit = f" {METRICS[part.metric].unit}".rstrip()
            shown = f"{part.difference:+.4g}{unit} ({part.interval.low:+.4g} to {part.interval.high:+.4g}{unit})"
        return f'{condition.text}: {where} in "{part.side}" changed by {shown}'

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "condition": self.condition.text,
            "side": self.part.side,
            "point": self.part.point,
            "subject": self.part.subject,
            "met": self.met,
        }


def check_all(
    conditions: Sequence[Condition], differences: Sequence[Difference], missing: Sequence[Missing]
) -> list[Check]:
    """Apply each condition to all parts of a comparison that it covers.

    Raises:
        InputError: If a condition covers nothing.

    """
    checks: list[Check] = []
    for condition in conditions:
        found = [Check(condition, part, condition.is_met(part)) for part in differences if condition.covers(part)]
        found += [Check(condition, part, None) for part in missing if condition.covers(part)]
        if not found:
            known = sorted({part.subject for part in differences if part.metric == condition.metric})
            if known and condition.subject is not None:
                raise InputError(
                    f'condition "{condition.text}": {condition.metric} has no subject "{condition.subject}"; '
                    f"{nearest(condition.subject, known)}"
                )
            raise InputError(f'condition "{condition.text}": these runs have no value of {condition.metric}')
        checks += found
    return checks
