"""Published statements in words, as something that a run can be held against.

Kinds: `value` (within a tolerance of what is expected), `at_least`, `at_most`, `ratio` (of two quantities, within a
tolerance) and `order` (the first quantity is larger). A claim that covers several points holds if it holds at each
that the form of the study has, or, if it says so, of the smallest or the largest of them.

A value has a 95 % interval if repetitions differ. A claim passes or fails if the whole interval lies on one side of its
bounds, and is undecided otherwise; where all repetitions are equal, or there is one only, the value decides.

Worlds: `run` (a metric of finished runs), `theory` (a quantity that follows from the scenario, see
`anabranch.theory`) and `elsewhere` (of a machine or a network that nobody can have again: listed, and never held
against anything).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.stats import Bounds
from anabranch.study.needs import Needs, read_needs
from anabranch.sweep import matches, plain
from anabranch.theory import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.study.document import Table
    from anabranch.study.scope import Scope
    from anabranch.sweep import Point

KINDS = ("value", "at_least", "at_most", "ratio", "order")
WORLDS = ("run", "theory", "elsewhere")
EXTREMES = ("smallest", "largest")
OUTCOMES = ("pass", "fail", "undecided", "incomplete", "needs more", "not run")
"""Of a claim: undecided if a bound lies within an interval, incomplete if something is missing, "needs more" if the
form falls short of what the claim needs, "not run" if nothing of it was run."""
_SHOWN = 4  # of the points that a claim or a figure lacks


KEYS: dict[str, tuple[str, ...]] = {
    "value": ("expect", "tolerance"),
    "at_least": ("expect",),
    "at_most": ("expect",),
    "ratio": ("against", "expect", "tolerance"),
    "order": ("against",),
}
"""The keys that each kind needs beside the quantity."""


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
    """Why it fails or cannot be had, where that is known; reports show it only then."""
    world: str = "run"
    """One of `WORLDS`."""
    absolute: bool = False
    """Whether the estimates count without their sign."""
    extreme: str = ""
    """One of `EXTREMES` if the claim is about that value of all its points; "" if it is about each of them."""
    needs: Needs = field(default_factory=Needs)

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest value with which it holds."""
        match self.kind:
            case "at_least":
                return (self.expect, math.inf)
            case "at_most":
                return (-math.inf, self.expect)
            case "order":
                return (0.0, math.inf)
            case _:
                return (self.expect - self.tolerance, self.expect + self.tolerance)


@dataclass(frozen=True)
class Measured:
    """One comparison: what was measured where."""

    where: str
    value: float
    """The quantity itself, or the ratio of the two, or first minus second."""
    interval: Bounds | None
    """The 95 % interval of the value; `None` if the value decides."""
    outcome: str
    """One of: pass, fail, undecided."""


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured."""

    claim: Claim
    measured: tuple[Measured, ...]
    missing: tuple[str, ...]
    """What belongs to the claim and to this form of the study, and has no result."""
    left_out: tuple[str, ...]
    """What belongs to the claim, but not to this form of the study."""
    without: tuple[str, ...]
    """Where some runs have no value, and how many: the estimate is of the others alone."""
    begun: bool
    """Whether any point of the claim was run."""
    shortfall: str = ""
    """What this form of the study lacks of what the claim needs."""

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        if self.claim.world == "elsewhere" or not self.begun:
            return "not run"
        if self.shortfall:
            return "needs more"
        found = {measured.outcome for measured in self.measured}
        if "fail" in found:
            return "fail"
        if self.missing or not self.measured:
            return "incomplete"
        return "undecided" if "undecided" in found else "pass"

    @property
    def gaps(self) -> list[str]:
        """What was not measured, for people."""
        named = (
            ("needs", (self.shortfall,) if self.shortfall else ()),
            ("missing", self.missing),
            ("not in this form", self.left_out),
            ("runs without a value, left out", self.without),
        )
        return [f"{word}: {listed(items)}" for word, items in named if items]


class Estimates(Protocol):
    """Where a claim looks values up."""

    def points(self) -> Sequence[Point]:
        """All points that were measured."""

    def expected(self) -> Sequence[Point]:
        """All points of this form of the study, measured or not."""

    def centre(self, point: Point, metric: str, subject: str) -> float | None:
        """The estimate of a metric at a point; `None` where there is none."""

    def values(self, point: Point, metric: str, subject: str) -> Sequence[float]:
        """The values of a metric at a point, one for each run that has one."""

    def interval(self, first: Sequence[float], kind: str, second: Sequence[float], *, paired: bool) -> Bounds | None:
        """The 95 % interval of a centre, or of the difference ("order") or ratio of two; `None` without any spread."""

    def shortfall(self, claim: Claim) -> str:
        """What this form of the study lacks of what a claim needs; empty if nothing."""

    def theory(self, point: Point, name: str, subject: str) -> float | None:
        """A quantity of theory at a point, which needs no run; `None` if the subject has none."""

    def without(self, point: Point, metric: str, subject: str) -> str:
        """How many of a point's runs have no value of a metric where others have one, and where; empty if none."""


def read_claims(tables: Sequence[Table], scopes: Mapping[str, Scope]) -> tuple[Claim, ...]:
    """Read all tables [[claim]].

    Raises:
        InputError: If one has a mistake, or two have the same id.

    """
    claims: dict[str, Claim] = {}
    for table in tables:
        claim = read_claim(table, scopes)
        if claim.id in claims:
            raise table.error(f'there is another claim "{claim.id}"; ids must be unique', "id")
        claims[claim.id] = claim
    return tuple(claims.values())


def read_claim(table: Table, scopes: Mapping[str, Scope]) -> Claim:
    """Read a table [[claim]].

    Raises:
        InputError: If a key is missing, unknown, does not fit the kind, or names what is not there.

    """
    kind = table.choice("kind", KINDS)
    _check_keys(table, kind)
    world = table.choice("world", WORLDS, "run")
    quantity = _quantity(table, scopes, None, world)
    against = None
    if kind in ("ratio", "order"):
        inner = table.table("against")
        against = _quantity(inner, scopes, quantity, world)
        _check_counterpart(inner, quantity, against, scopes)
        _check_distinct(inner, quantity, against, scopes)
        inner.finish()
    claim = Claim(
        id=table.get("id", str),
        text=table.get("text", str),
        kind=kind,
        quantity=quantity,
        against=against,
        expect=math.nan if kind == "order" else _finite(table, "expect"),
        tolerance=_finite(table, "tolerance", least=0.0) if kind in ("value", "ratio") else 0.0,
        explanation=table.get("explanation", str, "").strip(),
        world=world,
        absolute=table.get("absolute", bool, False),
        extreme=table.choice("extreme", ("", *EXTREMES), ""),
        needs=read_needs(table),
    )
    table.finish()
    return claim


def _finite(table: Table, key: str, least: float = -math.inf) -> float:
    """A number that can be compared with."""
    value = table.get(key, float)
    if not math.isfinite(value) or value < least:
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise table.error(f'"{key}" has to be a finite number{bound}, not {value:g}', key)
    return value


def _check_distinct(table: Table, quantity: Quantity, against: Quantity, scopes: Mapping[str, Scope]) -> None:
    """Check that no point is compared with itself."""
    if (quantity.experiment, quantity.metric) != (against.experiment, against.metric):
        return
    # The counterpart differs where "where" of "against" names a value that the claim does not select.
    values = scopes[quantity.experiment].values
    for name, wanted in against.where.items():
        (other,) = wanted if isinstance(wanted, list) else [wanted]
        if not any(
            plain(value) == plain(other) and matches({name: value}, _of(quantity.where, name)) for value in values[name]
        ):
            return
    theirs = against.subjects * (len(quantity.subjects) if len(against.subjects) == 1 else 1)
    for own, other_subject in zip(quantity.subjects, theirs, strict=True):
        if own == other_subject:
            raise table.error(
                f'"against" is the quantity of the claim itself{f" for {own}" if own else ""}: name another flow in '
                '"of" or another value in "where"'
            )


def _of(where: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: where[name]} if name in where else {}


def _check_keys(table: Table, kind: str) -> None:
    """Check that a claim has what its kind needs, and nothing of another kind."""
    needed = KEYS[kind]
    possible = dict.fromkeys(key for keys in KEYS.values() for key in keys)
    wrong = sorted((key for key in possible if table.has(key) != (key in needed)), key=table.has, reverse=True)
    if wrong:
        listed_keys = " and ".join(f'"{key}"' for key in needed)
        key = wrong[0]
        what = f'"{key}" does not belong to' if table.has(key) else f'"{key}" is missing in'
        raise table.error(
            f'{what} a claim of kind "{kind}", which needs {listed_keys}', key if table.has(key) else None
        )


def _quantity(table: Table, scopes: Mapping[str, Scope], like: Quantity | None, world: str) -> Quantity:
    """A quantity; what a second one leaves out is as in the first, its place as where that is measured."""
    experiments = tuple(scopes)
    only = experiments[0] if len(experiments) == 1 else None
    scope = scopes[table.choice("experiment", experiments, like.experiment if like else only)]
    known, usual = (tuple(QUANTITIES), None) if world == "theory" else (tuple(scope.metrics), "goodput")
    metric = table.choice("metric", known, like.metric if like else usual)
    subjects = table.texts("of", list(like.subjects) if like else [""])
    if not subjects:
        raise table.error('"of" has to name what the claim is about', "of")
    return Quantity(
        experiment=scope.experiment,
        metric=metric,
        subjects=scope.subjects(table, "of", subjects, metric),
        where=scope.selection(table, "where"),
    )


def _check_counterpart(table: Table, quantity: Quantity, against: Quantity, scopes: Mapping[str, Scope]) -> None:
    """Check that there is one thing to compare with for each subject and point of a quantity."""
    if len(against.subjects) not in (1, len(quantity.subjects)):
        raise table.error(
            f'"of" in "against" has to name 1 or {len(quantity.subjects)}, one for each in the claim', "of"
        )
    for name, values in scopes[against.experiment].values.items():
        wanted = against.where.get(name)
        if isinstance(wanted, list) and len(wanted) != 1:
            raise table.error(f'"where" in "against" has to name one value of "{name}" to compare with', "where")
        if wanted is None and len(values) > 1 and name not in scopes[quantity.experiment].values:
            raise table.error(
                f'"against" leaves open which "{name}" of "{against.experiment}" is meant: add it to "where"'
            )


def evaluate(claim: Claim, estimates: Estimates) -> Verdict:
    """Hold a claim against the estimates of a study."""
    measured: list[Measured] = []
    missing: list[str] = []
    without: list[str] = []
    quantities = [q for q in (claim.quantity, claim.against) if q is not None]
    left_out = [text for q in quantities for text in _left_out(q, estimates)]
    ran = {point.key for point in estimates.points()}
    begun = claim.world == "theory"
    for point in estimates.expected() if claim.world != "elsewhere" else ():
        if point.experiment != claim.quantity.experiment or not matches(point.values, claim.quantity.where):
            continue
        begun = begun or point.key in ran
        place = ", ".join(f"{k} = {plain(v)}" for k, v in point.values.items())
        other = point if claim.against is None else _counterpart(claim.against, point, estimates)
        if other is None:
            left_out.append(f"what {place} is compared with")
            continue
        for index, subject in enumerate(claim.quantity.subjects):
            where = ", ".join(part for part in (place, subject) if part)
            value = _value(claim, point, other, index, estimates)
            if value is None:
                missing.append(where)
            else:
                measured.append(_measured(claim, where, value, _interval(claim, point, other, index, estimates)))
                without += _without(claim, point, other, index, estimates)
    if claim.extreme and measured:
        measured = [(min if claim.extreme == "smallest" else max)(measured, key=lambda m: m.value)]
    return Verdict(
        claim, tuple(measured), tuple(missing), tuple(dict.fromkeys(left_out)), tuple(dict.fromkeys(without)), begun,
        estimates.shortfall(claim),
    )  # fmt: skip


def _measured(claim: Claim, where: str, value: float, interval: Bounds | None) -> Measured:
    """A value with its outcome: that of the whole interval if there is one."""
    if interval is None:
        return Measured(where, value, None, "pass" if _holds(claim, value) else "fail")
    least, most = claim.bounds
    if least <= interval.low and interval.high <= most:
        outcome = "pass"
    elif interval.high < least or interval.low > most:
        outcome = "fail"
    else:
        outcome = "undecided"
    return Measured(where, value, interval, outcome)


def _interval(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> Bounds | None:
    """The 95 % interval of what a claim is about at a point."""
    if claim.world == "theory":
        return None
    first = estimates.values(point, claim.quantity.metric, _subject(claim.quantity, index))
    if claim.against is None:
        found = estimates.interval(first, claim.kind, (), paired=False)
        return _without_sign(found) if claim.absolute and found is not None else found
    second = estimates.values(other, claim.against.metric, _subject(claim.against, index))
    if claim.absolute:
        first, second = [abs(value) for value in first], [abs(value) for value in second]
    # Runs of the same point are the same runs.
    paired = point == other and len(first) == len(second)
    return estimates.interval(first, claim.kind, second, paired=paired)


def _without_sign(interval: Bounds) -> Bounds:
    ends = sorted((abs(interval.low), abs(interval.high)))
    return Bounds(0.0, ends[1]) if interval.low < 0.0 < interval.high else Bounds(*ends)


def _left_out(quantity: Quantity, estimates: Estimates) -> list[str]:
    """The values that a quantity names and that this form of the study does not have."""
    points = [p for p in estimates.expected() if p.experiment == quantity.experiment]
    return [
        f"{name} = {plain(value)}"
        for name, wanted in quantity.where.items()
        for value in (wanted if isinstance(wanted, list) else [wanted])
        if not any(matches(p.values, {name: value}) for p in points)
    ]


def _counterpart(against: Quantity, point: Point, estimates: Estimates) -> Point | None:
    """The point that differs only where `against` says so; `None` if this form of the study has none."""
    for other in estimates.expected():
        if other.experiment == against.experiment:
            free = {k: v for k, v in point.values.items() if k in other.values and k not in against.where}
            if matches(other.values, {**free, **against.where}):
                return other
    return None


def _value(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> float | None:
    """What a claim is about at a point: the quantity, or its ratio or difference to the other one."""
    value = _estimate(claim, claim.quantity, point, index, estimates)
    if claim.against is None or value is None:
        return value
    base = _estimate(claim, claim.against, other, index, estimates)
    if base is None:
        return None
    if claim.kind == "order":
        return value - base
    return value / base if base else math.inf


def _estimate(claim: Claim, quantity: Quantity, point: Point, index: int, estimates: Estimates) -> float | None:
    """One side of a claim at a point."""
    look_up = estimates.theory if claim.world == "theory" else estimates.centre
    value = look_up(point, quantity.metric, _subject(quantity, index))
    return abs(value) if claim.absolute and value is not None else value


def _without(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> list[str]:
    """Where what a claim was held against is the estimate of some runs only."""
    if claim.world == "theory":
        return []
    sides = [(claim.quantity, point), *([(claim.against, other)] if claim.against is not None else [])]
    return [text for q, at in sides if (text := estimates.without(at, q.metric, _subject(q, index)))]


def _subject(quantity: Quantity, index: int) -> str:
    """The subject that belongs to the claim's subject of this index: its own, or the only one."""
    return quantity.subjects[min(index, len(quantity.subjects) - 1)]


def listed(items: Sequence[str]) -> str:
    """The first few of a list, for people."""
    shown = "; ".join(items[:_SHOWN])
    return shown if len(items) <= _SHOWN else f"{shown} and {len(items) - _SHOWN} more"


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
