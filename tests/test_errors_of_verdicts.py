"""At a true boundary, wrong verdicts are rare for any number of points. With missing runs, a claim has no verdict.

`ANABRANCH_LONG=1` draws 2,000 times for each of twelve numbers of points and runs, which takes hours.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import fake_simulator
import small_study
from anabranch.extremes import Samples, simultaneous_intervals
from anabranch.report.terminal import measurements
from anabranch.stats import MIN_BOOTSTRAP, Bounds, estimate, interval_of, interval_of_difference
from anabranch.study.analysis import Analysis
from anabranch.study.claims import Claim, Pair, Quantity, evaluate
from anabranch.study.definition import load
from anabranch.study.store import FILE, read
from anabranch.sweep import Point

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.extremes import Simultaneous
    from anabranch.stats import Centre
    from anabranch.study.keys import ClaimKind


class Drawn:
    """Estimates of normal values: flow F and flow G at some points."""

    def __init__(self, draw: random.Random, points: int, runs: int, centre: Centre, shifts: Sequence[float]) -> None:
        self._centre = centre
        self._points = [Point("e", "s.toml", {"a": a}, ()) for a in range(points)]
        self._values = {
            (a, flow): [draw.gauss(10.0 + shifts[a] * (flow == "F"), 2.0) for _ in range(runs)]
            for a in range(points)
            for flow in "FG"
        }

    def points(self) -> list[Point]:
        return self._points

    def expected(self) -> list[Point]:
        return self._points

    def values(self, point: Point, metric: str, subject: str) -> list[float]:
        del metric
        return self._values[int(point.values["a"]), subject]

    def centre(self, point: Point, metric: str, subject: str) -> float:
        return estimate(self.values(point, metric, subject), self._centre).centre

    def interval(self, pair: Pair, confidence: float) -> Bounds | None:
        if pair.kind == "order":
            return interval_of_difference(
                pair.first, pair.second, self._centre, paired=pair.paired, confidence=confidence
            )
        return interval_of(pair.first, self._centre, "t" if self._centre == "mean" else "order-statistics", confidence)

    def simultaneous(self, pairs: Sequence[Pair]) -> Simultaneous | None:
        return simultaneous_intervals([Samples(p.first, p.second, p.paired) for p in pairs], self._centre)

    def shares_seeds(self, point: Point, other: Point) -> bool:
        return point == other

    def runs_of(self, point: Point) -> tuple[int, int]:
        count = len(self.values(point, "", "F"))
        return count, count

    def shortfall(self, claim: Claim) -> str:
        del claim
        return ""

    def theory(self, point: Point, name: str, subject: str) -> float | None:
        raise NotImplementedError

    def without(self, point: Point, metric: str, subject: str) -> str:
        del point, metric, subject
        return ""


def quantity(flow: str) -> Quantity:
    return Quantity("e", "goodput", (flow,), {})


def claim(kind: ClaimKind, *, extreme: str = "") -> Claim:
    against = quantity("G") if kind == "order" else None
    return Claim("c", "t", kind, quantity("F"), against, 10.0, 0.0, extreme=extreme)


IS_LONG = bool(os.environ.get("ANABRANCH_LONG"))
DRAWS = 2_000 if IS_LONG else 200
ALL_SIZES = [(points, runs) for points in (1, 4, 10) for runs in (3, 5, 10, 30)]
EXTREMES = [("at_most", "largest"), ("at_least", "largest"), ("at_most", "smallest"), ("order", "largest")]
DRAWS_WITH_RESAMPLES = DRAWS if IS_LONG else 50


def limit(draws: int) -> float:
    """5 % and three standard errors of the draws."""
    return 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize("centre", ["mean", "median"])
@pytest.mark.parametrize(("points", "runs"), ALL_SIZES if IS_LONG else [(1, 3), (4, 5), (10, 3), (4, 10)])
@pytest.mark.parametrize(("kind", "extreme"), [("at_least", ""), ("order", ""), *EXTREMES[: 4 if IS_LONG else 1]])
def test_wrong_verdicts_at_a_boundary_are_rare(
    kind: ClaimKind, extreme: str, points: int, runs: int, centre: Centre
) -> None:
    draw = random.Random(5)
    draws = DRAWS_WITH_RESAMPLES if extreme and runs >= MIN_BOOTSTRAP else DRAWS
    found = Counter(
        evaluate(claim(kind, extreme=extreme), Drawn(draw, points, runs, centre, [0.0] * points)).outcome
        for _ in range(draws)
    )
    assert found["pass"] / draws < limit(draws)
    assert found["fail"] / draws < limit(draws)


def test_claim_with_one_false_point_passes_rarely() -> None:
    draw = random.Random(6)
    found = Counter(
        evaluate(claim("at_least"), Drawn(draw, 4, 10, "mean", [-0.1, 20.0, 20.0, 20.0])).outcome for _ in range(200)
    )
    assert found["pass"] / 200 < 0.05 + 0.046


def test_clear_points_are_decided() -> None:
    draw = random.Random(7)
    assert evaluate(claim("at_least"), Drawn(draw, 10, 5, "mean", [20.0] * 10)).outcome == "pass"
    verdict = evaluate(claim("at_least"), Drawn(draw, 10, 5, "mean", [-20.0, *[20.0] * 9]))
    assert (verdict.outcome, [m.outcome for m in verdict.measured]) == ("fail", ["fail", *["pass"] * 9])
    assert (
        evaluate(claim("at_least", extreme="largest"), Drawn(draw, 4, 5, "mean", [-20.0, 20.0, 0, 0])).outcome == "pass"
    )
    assert (
        evaluate(claim("at_most", extreme="largest"), Drawn(draw, 4, 5, "mean", [-20.0, 20.0, 0, 0])).outcome == "fail"
    )


def test_missing_runs_leave_a_claim_incomplete(tmp_path: Path) -> None:
    text = '[[claim]]\nid = "c"\ntext = "t"\nkind = "at_least"\nof = ["F0"]\nexpect = 1\n'
    study, results = load(small_study.write(tmp_path / "study", claims=text)), tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    with read(results) as store:
        (whole,) = Analysis(study, study.full, store.records).verdicts
        lines = (results / FILE).read_bytes().splitlines(keepends=True)
    assert whole.outcome == "pass"
    assert all(", n = 3 of 3 runs (capacity = " in line for line in measurements(whole))
    second = b"congestion = reno, repetition 2"
    (results / FILE).write_bytes(b"".join(line for line in lines if second not in line))
    with read(results) as store:
        (verdict,) = Analysis(study, study.full, store.records).verdicts
    assert verdict.outcome == "incomplete"
    assert any(", n = 2 of 3 runs (capacity = 10, congestion = reno" in line for line in measurements(verdict))
    assert any("missing: 1 of 3 runs (capacity = 10, congestion = reno)" in line for line in measurements(verdict))
