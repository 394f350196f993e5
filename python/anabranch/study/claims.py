"""Published statements in words, as something that a run can be held against.

Kinds: `value` (within a tolerance of what is expected), `at_least`, `at_most`, `ratio` (of two quantities, within a
tolerance) and `order` (the first quantity is larger). A claim that covers several points holds if it holds at each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.metrics import METRICS
from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.study.document import Table
    from anabranch.sweep import Point

KINDS = ("value", "at_least", "at_most", "ratio", "order")


@dataclass(frozen=True)
class Quantity:
    """A metric of some subjects at some points."""

    experiment: str
    metric: str
    subjects: tuple[str, ...]
    where: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A published statement."""

    id: str
    text: str
    kind: str
    quantity: Quantity
    against: Quantity | None
    expect: float
    tolerance: float
    explanation: str = ""
    """Why it fails, where that is known; reports show it only then."""


@dataclass(frozen=True)
class Measured:
    """One comparison: what was measured where."""

    where: str
    value: float
    """The quantity itself, or the ratio of the two, or first minus second."""
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured."""

    claim: Claim
    measured: tuple[Measured, ...]

    @property
    def outcome(self) -> str:
        """One of: pass, fail, or "not run" if no point of the claim was measured."""
        if not self.measured:
            return "not run"
        return "pass" if all(m.holds for m in self.measured) else "fail"


class Estimates(Protocol):
    """Where a claim looks values up."""

    def points(self) -> Sequence[Point]:
        """All points that were measured."""

    def centre(self, point: Point, metric: str, subject: str) -> float | None:
        """The estimate of a metric at a point; `None` where there is none."""


def read_claim(table: Table, experiments: list[str]) -> Claim:
    """Read a table [[claim]].

    Raises:
        InputError: If a key is missing, unknown, or does not fit the kind.

    """
    kind = table.choice("kind", KINDS)
    quantity = _quantity(table, experiments, None)
    against = None
    if kind in ("ratio", "order"):
        if not table.has("against"):
            raise table.error(f'a claim of kind "{kind}" compares with another quantity: add "against"')
        inner = table.table("against")
        against = _quantity(inner, experiments, quantity)
        inner.finish()
    claim = Claim(
        id=table.get("id", str),
        text=table.get("text", str),
        kind=kind,
        quantity=quantity,
        against=against,
        expect=math.nan if kind == "order" else table.get("expect", float),
        tolerance=table.get("tolerance", float) if kind in ("value", "ratio") else 0.0,
        explanation=table.get("explanation", str, "").strip(),
    )
    table.finish()
    return claim


def _quantity(table: Table, experiments: list[str], like: Quantity | None) -> Quantity:
    """A quantity; what a second one leaves out is as in the first, its place as where that is measured."""
    only = experiments[0] if len(experiments) == 1 else None
    where = table.selection("where")
    return Quantity(
        experiment=table.choice("experiment", tuple(experiments), like.experiment if like else only),
        metric=table.choice("metric", tuple(METRICS), like.metric if like else "goodput"),
        subjects=tuple(table.texts("of", list(like.subjects) if like else [""])),
        where=where,
    )


def evaluate(claim: Claim, estimates: Estimates) -> Verdict:
    """Hold a claim against the estimates of a study."""
    measured: list[Measured] = []
    for point in estimates.points():
        if point.experiment != claim.quantity.experiment or not matches(point.values, claim.quantity.where):
            continue
        for index, subject in enumerate(claim.quantity.subjects):
            value = estimates.centre(point, claim.quantity.metric, subject)
            if value is None:
                continue
            if claim.against is not None:
                value = _compared(claim, claim.against, point, index, value, estimates)
                if value is None:
                    continue
            where = ", ".join([f"{k} = {plain(v)}" for k, v in point.values.items()] + [subject][: bool(subject)])
            measured.append(Measured(where, value, _holds(claim, value)))
    return Verdict(claim, tuple(measured))


def _compared(
    claim: Claim, against: Quantity, point: Point, index: int, value: float, estimates: Estimates
) -> float | None:
    """Ratio or difference to the other quantity at the point that differs only where `against` says so."""
    free = {k: v for k, v in point.values.items() if k not in against.where}
    for other in estimates.points():
        if other.experiment != against.experiment or not matches(other.values, {**free, **against.where}):
            continue
        subject = against.subjects[min(index, len(against.subjects) - 1)]
        base = estimates.centre(other, against.metric, subject)
        if base is not None:
            return value - base if claim.kind == "order" else value / base if base else math.inf
    return None


def _holds(claim: Claim, value: float) -> bool:
    match claim.kind:
        case "at_least":
            return value >= claim.expect
        case "at_most":
            return value <= claim.expect
        case "order":
            return value > 0.0
        case _:
            return abs(value - claim.expect) <= claim.tolerance
