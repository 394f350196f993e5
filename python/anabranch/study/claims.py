"""Published statements, and their verdicts on the runs of a study.

Kinds: `value` (within a tolerance of an expected value), `at_least`, `at_most`, `ratio` and `difference` (of two
quantities, within a tolerance) and `order` (the first quantity is larger). A claim that covers several points holds if
it holds at each of them that the form of the study has. A claim with `extreme` is about the smallest or the largest of
them alone.

A value has an interval that aims at 95 % if repetitions differ. Where all repetitions are equal, or there is one only,
the value decides. Otherwise:

- A claim passes if the whole interval is within the bounds, at each point. No correction is due: if it is false at any
  point, it passes at that one with at most 2.5 %.
- It fails if the whole interval is outside, at any point. Each further comparison is another chance to fail by
  accident, so that the intervals that decide this are wider (Holm 1979).
- The largest of several values has at least the largest lower end of intervals that hold together, and at most the
  largest upper end of the single ones; the smallest likewise. The intervals are from a bootstrap of the largest
  deviation (`anabranch.extremes`), or those of the study with Bonferroni's correction below ten repetitions.

Worlds: `run` (a metric of finished runs), `theory` (a quantity that follows from the scenario, see
`anabranch.theory`) and `elsewhere` (of a machine or a network that is not available: listed without a verdict).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.stats import CONFIDENCE, Bounds
from anabranch.study.needs import Needs, read_needs
from anabranch.study.statistic import read_statistic, statistic_of
from anabranch.sweep import matches, plain
from anabranch.theory import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.extremes import Simultaneous
    from anabranch.study.document import Table
    from anabranch.study.keys import ClaimKeys, ClaimKind, QuantityKeys
    from anabranch.study.scope import Scope
    from anabranch.sweep import Point

OUTCOMES = ("pass", "fail", "undecided", "incomplete", "needs more", "not run")
"""Undecided if a bound lies within an interval, incomplete if a run or a value is missing, "needs more" if
the form has less than the claim needs, "not run" if none of its points was run."""
_MAX_SHOWN_POINTS = 4  # of those that a claim or a figure lacks


KEYS: dict[ClaimKind, tuple[str, ...]] = {
    "value": ("expect", "tolerance"),
    "at_least": ("expect",),
    "at_most": ("expect",),
    "ratio": ("against", "expect", "tolerance"),
    "difference": ("against", "expect", "tolerance"),
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
    kind: ClaimKind
    quantity: Quantity
    against: Quantity | None
    expect: float
    tolerance: float
    explanation: str = ""
    """Known reason why it fails or cannot be measured. Reports show it only if it does."""
    world: str = "run"
    """Origin of its values: "run", "theory" or "elsewhere"."""
    absolute: bool = False
    """Whether the estimates count without their sign."""
    extreme: str = ""
    """"smallest" or "largest" if the claim is about that value of all its points; "" if it is about each of them."""
    needs: Needs = field(default_factory=Needs)
    statistic: str = ""
    """"mean", "median" or "std" of the runs at a point; "" for the study's centre."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value with which the claim holds."""
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
    """One comparison of a claim, at one point and for one subject."""

    where: str
    value: float
    """The quantity itself, or the ratio of the two, or first minus second."""
    interval: Bounds | None
    """The interval of the value, which aims at 95 %; `None` if the value decides."""
    outcome: str
    """One of: pass, fail, undecided."""
    count: int = 0
    """Number of values from which the interval is computed; of two quantities, the smaller number; 0 for theory."""
    runs: int = 0
    """Number of runs that this form of the study has there; 0 in theory."""


@dataclass(frozen=True)
class Pair:
    """The values of both sides of a comparison."""

    kind: ClaimKind
    first: Sequence[float]
    second: Sequence[float] = ()
    paired: bool = False
    """Whether the n-th values of both sides are from the same run, or from runs with the same seed."""
    statistic: str = ""
    """"mean", "median" or "std", which is compared; "" for the study's centre."""


@dataclass(frozen=True)
class _Comparison:
    """A comparison that has no outcome yet."""

    where: str
    value: float
    pair: Pair | None
    """`None` in theory."""
    runs: int

    def interval(self, claim: Claim, estimates: Estimates, confidence: float = CONFIDENCE) -> Bounds | None:
        """The interval of the value."""
        found = None if self.pair is None else estimates.interval(self.pair, confidence)
        return _without_sign(found) if found is not None and claim.absolute and claim.against is None else found

    @property
    def count(self) -> int:
        """Number of values of the side with fewer."""
        if self.pair is None:
            return 0
        return min(len(self.pair.first), len(self.pair.second) if self.pair.second else len(self.pair.first))


@dataclass(frozen=True)
class Verdict:
    """A claim with its measurements."""

    claim: Claim
    measured: tuple[Measured, ...]
    missing: tuple[str, ...]
    """Points and runs of the claim, in this form of the study, that have no result."""
    left_out: tuple[str, ...]
    """Points of the claim that this form of the study does not have."""
    without: tuple[str, ...]
    """Points and numbers of runs without a value; the estimate uses the other runs."""
    begun: bool
    """Whether any point of the claim was run."""
    shortfall: str = ""
    """The part of the claim's needs that this form of the study lacks."""

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
        """The missing measurements, for people."""
        named = (
            ("needs", (self.shortfall,) if self.shortfall else ()),
            ("missing", self.missing),
            ("not in this form", self.left_out),
            ("runs without a value, left out", self.without),
        )
        return [f"{word}: {listed(items)}" for word, items in named if items]


class Estimates(Protocol):
    """The values of a study that claims compare."""

    def points(self) -> Sequence[Point]:
        """All points that were measured."""

    def expected(self) -> Sequence[Point]:
        """All points of this form of the study, measured or not."""

    def centre(self, point: Point, metric: str, subject: str) -> float | None:
        """The estimate of a metric at a point; `None` where there is none."""

    def values(self, point: Point, metric: str, subject: str) -> Sequence[float]:
        """The values of a metric at a point, one for each run that has one."""

    def interval(self, pair: Pair, confidence: float) -> Bounds | None:
        """The interval of a centre, or of the difference or ratio of two; `None` without any spread."""

    def simultaneous(self, pairs: Sequence[Pair]) -> Simultaneous | None:
        """Single and joint intervals of several quantities; `None` if there are too few values for them."""

    def shares_seeds(self, point: Point, other: Point) -> bool:
        """Whether the n-th values of two points are from runs with the same seed."""

    def runs_of(self, point: Point) -> tuple[int, int]:
        """The number of a point's finished runs, and the number that this form of the study has."""

    def shortfall(self, claim: Claim) -> str:
        """The part of a claim's needs that this form of the study lacks; empty if there is none."""

    def theory(self, point: Point, name: str, subject: str) -> float | None:
        """A quantity of theory at a point, which needs no run; `None` if the subject has none."""

    def without(self, point: Point, metric: str, subject: str) -> str:
        """Number of a point's runs that lack a value which others have, with point and subject; empty if none."""


def read_claims(tables: Sequence[Table[ClaimKeys]], scopes: Mapping[str, Scope]) -> tuple[Claim, ...]:
    """Read all tables [[claim]].

    Raises:
        InputError: If a claim has a mistake, or two claims have the same id.

    """
    claims: dict[str, Claim] = {}
    for table in tables:
        claim = read_claim(table, scopes)
        if not claim.id:
            raise table.error('"id" is empty; write a name, unique in the study', "id")
        if claim.id in claims:
            raise table.error(f'there is another claim "{claim.id}"; ids must be unique', "id")
        claims[claim.id] = claim
    return tuple(claims.values())


def read_claim(table: Table[ClaimKeys], scopes: Mapping[str, Scope]) -> Claim:
    """Read a table [[claim]].

    Raises:
        InputError: If a key does not fit the kind, or names something that does not exist.

    """
    keys = table.keys
    _check_keys(table)
    quantity = _quantity(table, scopes, None, keys.world)
    against = None
    if keys.against:
        inner = table.inner("against", keys.against)
        against = _quantity(inner, scopes, quantity, keys.world)
        _check_counterpart(inner, quantity, against, scopes)
        _check_distinct(inner, quantity, against, scopes)
    return Claim(
        id=keys.id,
        text=keys.text,
        kind=keys.kind,
        quantity=quantity,
        against=against,
        expect=_finite(table, "expect", math.nan),
        tolerance=_finite(table, "tolerance", 0.0, least=0.0),
        explanation=keys.explanation.strip(),
        world=keys.world,
        absolute=keys.absolute,
        extreme=keys.extreme or "",
        needs=read_needs(table),
        statistic=read_statistic(table, {q.metric for q in (quantity, against) if q}),
    )


def _finite(table: Table[ClaimKeys], key: str, usual: float, least: float = -math.inf) -> float:
    """A number that can be compared with."""
    if not table.has(key):
        return usual
    value: float = getattr(table.keys, key)
    if not math.isfinite(value) or value < least:
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise table.error(f'"{key}" has to be a finite number{bound}, not {value:g}', key)
    return value


def _check_distinct(
    table: Table[QuantityKeys], quantity: Quantity, against: Quantity, scopes: Mapping[str, Scope]
) -> None:
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


def _of(where: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {name: where[name]} if name in where else {}


def _check_keys(table: Table[ClaimKeys]) -> None:
    """Check that a claim has what its kind needs, and nothing of another kind."""
    kind = table.keys.kind
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


def _quantity(table: Table[QuantityKeys], scopes: Mapping[str, Scope], like: Quantity | None, world: str) -> Quantity:
    """A quantity; a second one takes the keys that it omits, and the line for errors, from the first."""
    keys, experiments = table.keys, tuple(scopes)
    only = experiments[0] if len(experiments) == 1 else ""
    scope = scopes[table.choice("experiment", keys.experiment or (like.experiment if like else only), experiments)]
    known, usual = (tuple(QUANTITIES), "") if world == "theory" else (tuple(scope.metrics), "goodput")
    metric = table.choice("metric", keys.metric or (like.metric if like else usual), known)
    subjects = keys.of if isinstance(keys.of, list) else list(like.subjects) if like else [""]
    if not subjects:
        raise table.error('"of" has to name what the claim is about', "of")
    return Quantity(
        experiment=scope.experiment,
        metric=metric,
        subjects=scope.subjects(table, "of", subjects, metric),
        where=scope.selection(table, keys.where),
    )


def _check_counterpart(
    table: Table[QuantityKeys], quantity: Quantity, against: Quantity, scopes: Mapping[str, Scope]
) -> None:
    """Check that each subject and point of a quantity has exactly one subject and point to be compared with."""
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
    """The verdict on a claim by the estimates of a study."""
    compared: list[_Comparison] = []
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
        place = _place(point)
        other = point if claim.against is None else _counterpart(claim.against, point, estimates)
        if other is None:
            left_out.append(f"the counterpart of {place}")
            continue
        missing += _missing_runs(claim, dict.fromkeys((point.key, other.key)), (point, other), estimates)
        for index, subject in enumerate(claim.quantity.subjects):
            where = ", ".join(part for part in (place, subject) if part)
            value = _value(claim, point, other, index, estimates)
            if value is None:
                missing.append(where)
                continue
            runs = 0 if claim.world == "theory" else estimates.runs_of(point)[1]
            compared.append(_Comparison(where, value, _pair(claim, point, other, index, estimates), runs))
            without += _without(claim, point, other, index, estimates)
    judge = _extreme if claim.extreme else _each
    return Verdict(
        claim, tuple(judge(claim, compared, estimates)), tuple(dict.fromkeys(missing)),
        tuple(dict.fromkeys(left_out)), tuple(dict.fromkeys(without)), begun, estimates.shortfall(claim),
    )  # fmt: skip


def _place(point: Point) -> str:
    return ", ".join(f"{k} = {plain(v)}" for k, v in point.values.items())


def _missing_runs(
    claim: Claim, keys: Mapping[str, None], points: Sequence[Point], estimates: Estimates
) -> Iterator[str]:
    """A text for each point of a comparison of which some runs, but not all, are missing."""
    for key in keys if claim.world == "run" else ():
        point = next(point for point in points if point.key == key)
        finished, wanted = estimates.runs_of(point)
        if 0 < finished < wanted:
            yield f"{wanted - finished} of {wanted} runs ({_place(point)})"


def _each(claim: Claim, compared: Sequence[_Comparison], estimates: Estimates) -> list[Measured]:
    """The outcome of each comparison of a claim that has to hold at all of them."""
    intervals = [c.interval(claim, estimates) for c in compared]
    failed = _failed(claim, [c for c, i in zip(compared, intervals, strict=True) if i is not None], estimates)
    return [
        Measured(c.where, c.value, i, _outcome(claim, c.value, i, may_fail=c in failed), c.count, c.runs)
        for c, i in zip(compared, intervals, strict=True)
    ]


def _failed(claim: Claim, open_ones: Sequence[_Comparison], estimates: Estimates) -> list[_Comparison]:
    """The comparisons that are outside the bounds at 95 % for all together (Holm's step-down procedure)."""
    remaining, failed = list(open_ones), list[_Comparison]()
    while remaining:
        confidence = 1.0 - (1.0 - CONFIDENCE) / len(remaining)
        found = [c for c in remaining if _is_outside(claim, c.interval(claim, estimates, confidence))]
        if not found:
            break
        failed += found
        remaining = [c for c in remaining if c not in found]
    return failed


def _extreme(claim: Claim, compared: Sequence[_Comparison], estimates: Estimates) -> list[Measured]:
    """The outcome of the smallest or the largest of several values."""
    if not compared:
        return []
    sign = -1.0 if claim.extreme == "smallest" else 1.0
    shown = max(compared, key=lambda c: sign * c.value)
    single, joint = _single_and_joint(claim, compared, estimates)
    interval = None
    if any(ends.low < ends.high for ends in single):
        near = max(min(sign * ends.low, sign * ends.high) for ends in joint)
        far = max(max(sign * ends.low, sign * ends.high) for ends in single)
        low, high = sorted((sign * near, sign * far))
        # The coverage depends on the number of points and on the distances between them.
        interval = Bounds(low, high, math.nan)
    outcome = _outcome(claim, shown.value, interval, may_fail=True)
    count = min(c.count for c in compared)
    return [Measured(shown.where, shown.value, interval, outcome, count, shown.runs)]


def _single_and_joint(
    claim: Claim, compared: Sequence[_Comparison], estimates: Estimates
) -> tuple[list[Bounds], list[Bounds]]:
    """Intervals that hold one by one, and intervals that hold together."""
    pairs = [c.pair for c in compared if c.pair is not None]
    found = estimates.simultaneous(pairs) if len(pairs) == len(compared) else None
    if found is None:
        together = 1.0 - (1.0 - CONFIDENCE) / len(compared)
        single, joint = ([_ends(c, claim, estimates, level) for c in compared] for level in (CONFIDENCE, together))
    elif claim.absolute and claim.against is None:
        single, joint = ([_without_sign(ends) for ends in each] for each in (found.single, found.joint))
    else:
        single, joint = found.single, found.joint
    return single, joint


def _ends(compared: _Comparison, claim: Claim, estimates: Estimates, confidence: float) -> Bounds:
    """The interval of a comparison; the value for both ends if there is no spread."""
    return compared.interval(claim, estimates, confidence) or Bounds(compared.value, compared.value, math.nan)


def _outcome(claim: Claim, value: float, interval: Bounds | None, *, may_fail: bool) -> str:
    """Outcome of a value: that of the whole interval if there is one."""
    if interval is None:
        return "pass" if _holds(claim, value) else "fail"
    least, most = claim.bounds
    if least <= interval.low and interval.high <= most:
        return "pass"
    return "fail" if may_fail and _is_outside(claim, interval) else "undecided"


def _is_outside(claim: Claim, interval: Bounds | None) -> bool:
    least, most = claim.bounds
    return interval is not None and (interval.high < least or interval.low > most)


def _pair(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> Pair | None:
    """The values that a comparison comes from."""
    if claim.world == "theory":
        return None
    first = estimates.values(point, claim.quantity.metric, _subject(claim.quantity, index))
    if claim.against is None:
        return Pair(claim.kind, first, statistic=claim.statistic)
    second = estimates.values(other, claim.against.metric, _subject(claim.against, index))
    if claim.absolute:
        first, second = [abs(value) for value in first], [abs(value) for value in second]
    # A run without a value would shift all later pairs.
    is_whole = len(first) == len(second) == estimates.runs_of(point)[0]
    paired = is_whole and estimates.shares_seeds(point, other)
    return Pair(claim.kind, first, second, paired, claim.statistic)


def _without_sign(interval: Bounds) -> Bounds:
    low, high = sorted((abs(interval.low), abs(interval.high)))
    return Bounds(0.0 if interval.low < 0.0 < interval.high else low, high, interval.coverage)


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
    """The point that differs only in the keys of `against`; `None` if this form of the study has none."""
    for other in estimates.expected():
        if other.experiment == against.experiment:
            free = {k: v for k, v in point.values.items() if k in other.values and k not in against.where}
            if matches(other.values, {**free, **against.where}):
                return other
    return None


def _value(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> float | None:
    """The value of a claim at a point: the quantity, or its ratio or difference to the other one."""
    value = _estimate(claim, claim.quantity, point, index, estimates)
    if claim.against is None or value is None:
        return value
    base = _estimate(claim, claim.against, other, index, estimates)
    if base is None:
        return None
    if claim.kind != "ratio":
        return value - base
    return value / base if base else math.inf


def _estimate(claim: Claim, quantity: Quantity, point: Point, index: int, estimates: Estimates) -> float | None:
    """One side of a claim at a point."""
    subject = _subject(quantity, index)
    if claim.statistic:
        return statistic_of(claim.statistic, estimates.values(point, quantity.metric, subject), claim.absolute)
    look_up = estimates.theory if claim.world == "theory" else estimates.centre
    value = look_up(point, quantity.metric, subject)
    return abs(value) if claim.absolute and value is not None else value


def _without(claim: Claim, point: Point, other: Point, index: int, estimates: Estimates) -> list[str]:
    """The points and subjects at which an estimate of a claim covers some runs only."""
    if claim.world == "theory":
        return []
    sides = [(claim.quantity, point), *([(claim.against, other)] if claim.against is not None else [])]
    return [text for q, at in sides if (text := estimates.without(at, q.metric, _subject(q, index)))]


def _subject(quantity: Quantity, index: int) -> str:
    """The subject of a quantity that is compared at this index: a quantity with one subject has it at every index."""
    return quantity.subjects[min(index, len(quantity.subjects) - 1)]


def listed(items: Sequence[str]) -> str:
    """The first few of a list, for people."""
    shown = "; ".join(items[:_MAX_SHOWN_POINTS])
    return shown if len(items) <= _MAX_SHOWN_POINTS else f"{shown} and {len(items) - _MAX_SHOWN_POINTS} more"


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
