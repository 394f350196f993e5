"""Verdicts on claims: pass and fail need an interval wholly on one side of the bound, and enough runs."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from scipy import stats

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.report.markdown import write
from anabranch.report.terminal import form, tally
from anabranch.stats import estimate, interval_of, interval_of_difference, interval_of_ratio
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute
from anabranch.study.store import StoredRun, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLAIM = """
[[claim]]
id = "claim"
text = "The first flow has its share"
of = ["F0"]
where = {{ capacity = 10, congestion = "reno" }}
{more}
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StoredRun]]:
    """The runs of both forms of the study, which do not depend on its claims."""
    folder = tmp_path_factory.mktemp("runs")
    study = load(small_study.write(folder / "study"))
    records: dict[str, StoredRun] = {}
    with ExitStack() as stack:
        for effort in (study.full, study.quick):
            plan = Plan(study, effort, folder / effort.name, fake_simulator.simulate, "b1", 1)
            execute(plan, Silent(), resume=False)
            records |= stack.enter_context(read(plan.folder)).records
        yield records


class Analyse:
    """Evaluates a claim on the stored runs."""

    def __init__(self, folder: Path, stored: dict[str, StoredRun]) -> None:
        self.folder = folder
        self._stored = stored

    def __call__(self, more: str, *, quick: bool = False, repetitions: int | None = None) -> Analysis:
        study = load(small_study.write(self.folder / "study", claims=CLAIM.format(more=more)))
        return Analysis(study, study.effort(quick, repetitions), self._stored)

    def outcome(self, more: str) -> str:
        (verdict,) = self(more).verdicts
        return verdict.outcome


@pytest.fixture
def analyse(tmp_path: Path, stored: dict[str, StoredRun]) -> Analyse:
    return Analyse(tmp_path, stored)


@pytest.fixture
def mean_and_reach(analyse: Analyse) -> tuple[float, float]:
    found = analyse('kind = "at_least"\nexpect = 1')
    ours = found.estimates(found.points()[0], "goodput")["F0"]
    return ours.centre, ours.high - ours.centre


@pytest.mark.parametrize(
    ("kind", "steps", "expected"),
    [
        ("at_least", -1.1, "pass"), ("at_least", -0.9, "undecided"), ("at_least", 0.9, "undecided"),
        ("at_least", 1.1, "fail"), ("at_most", 1.1, "pass"), ("at_most", 0.9, "undecided"),
        ("at_most", -0.9, "undecided"), ("at_most", -1.1, "fail"),
    ],
)  # fmt: skip
def test_bound_within_the_interval_decides_nothing(
    analyse: Analyse, mean_and_reach: tuple[float, float], kind: str, steps: float, expected: str
) -> None:
    mean, reach = mean_and_reach
    assert analyse.outcome(f'kind = "{kind}"\nexpect = {mean + steps * reach!r}') == expected


@pytest.mark.parametrize(
    ("shift", "tolerance", "expected"),
    [(0.0, 1.1, "pass"), (0.0, 0.5, "undecided"), (2.0, 1.5, "undecided"), (4.0, 1.0, "fail")],
)
def test_tolerance_has_to_hold_the_whole_interval(
    analyse: Analyse, mean_and_reach: tuple[float, float], shift: float, tolerance: float, expected: str
) -> None:
    mean, reach = mean_and_reach
    more = f'kind = "value"\nexpect = {mean + shift * reach!r}\ntolerance = {tolerance * reach!r}'
    assert analyse.outcome(more) == expected


@pytest.mark.parametrize(
    ("steps", "tolerance", "expected"),
    [(0.0, 1.1, "pass"), (0.0, 0.5, "undecided"), (2.0, 1.5, "undecided"), (4.0, 1.0, "fail")],
)
def test_difference_has_to_be_within_its_tolerance(
    analyse: Analyse, steps: float, tolerance: float, expected: str
) -> None:
    found = analyse('kind = "at_least"\nexpect = 1')
    runs = found.samples(found.points()[0], "goodput")
    own = estimate([a - b for a, b in zip(runs["F0"], runs["F1"], strict=True)], "mean", "t")
    reach = own.high - own.centre
    more = f'kind = "difference"\nexpect = {own.centre + steps * reach!r}\ntolerance = {tolerance * reach!r}\n'
    shown = analyse(more + 'against = { of = ["F1"] }')
    assert [verdict.outcome for verdict in shown.verdicts] == [expected]
    (measured,) = shown.verdicts[0].measured
    assert measured.value == pytest.approx(own.centre)
    assert measured.interval is not None
    assert (measured.interval.low, measured.interval.high) == pytest.approx((own.low, own.high))


def test_report_shows_the_interval_with_the_value(analyse: Analyse, tmp_path: Path) -> None:
    found = analyse('kind = "at_least"\nexpect = 1')
    (verdict,) = found.verdicts
    (measured,) = verdict.measured
    ours = found.estimates(found.points()[0], "goodput")["F0"]
    assert measured.interval is not None
    assert (measured.interval.low, measured.interval.high) == pytest.approx((ours.low, ours.high))
    report = write(found, [], Plan(found.study, found.effort, tmp_path, fake_simulator.simulate, "b1")).read_text()
    assert f"{ours.centre:.2f} [{ours.low:.2f}, {ours.high:.2f}] (≥ 75 %), n = 3 of 3 runs" in report


def test_single_repetition_is_decided_by_its_value(analyse: Analyse) -> None:
    (verdict,) = analyse('kind = "at_least"\nexpect = 1', repetitions=1).verdicts
    assert (verdict.outcome, verdict.measured[0].interval) == ("pass", None)


def test_flows_of_the_same_runs_are_paired(analyse: Analyse, tmp_path: Path) -> None:
    found = analyse('kind = "order"\nagainst = { of = ["F1"] }')
    (verdict,) = found.verdicts
    samples = found.samples(found.points()[0], "goodput")
    paired = interval_of_difference(samples["F0"], samples["F1"], "mean", paired=True)
    assert verdict.measured[0].interval == paired
    assert paired is not None
    expected = stats.ttest_rel(samples["F0"], samples["F1"]).confidence_interval()
    assert (paired.low, paired.high) == pytest.approx((expected.low, expected.high))


def test_independent_runs_have_the_interval_of_welch() -> None:
    draw = random.Random(1)
    first, second = [draw.gauss(10, 1) for _ in range(8)], [draw.gauss(9, 3) for _ in range(5)]
    found = interval_of_difference(first, second, "mean", paired=False)
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_samples_without_spread_have_no_interval() -> None:
    assert interval_of([3.0], "mean", "t") is None
    assert interval_of([3.0, 3.0], "median", "order-statistics") is None
    assert interval_of_difference([3.0, 3.0], [2.0, 2.0], "mean", paired=True) is None
    assert interval_of_difference([3.0], [2.0], "mean", paired=False) is None
    assert interval_of_ratio([0.0, 0.0], [2.0, 3.0], "mean", paired=True) is None


def test_ratio_of_changing_signs_has_no_interval() -> None:
    assert interval_of_ratio([-0.724, 0.961472], [-0.411232, 0.422816], "mean", paired=True) is None


@pytest.mark.parametrize("paired", [True, False])
def test_ratio_interval_contains_the_true_ratio(paired: bool) -> None:
    draw, held = random.Random(7), 0
    for _ in range(400):
        common = [draw.gauss(0, 1) * paired for _ in range(6)]
        first, second = ([mean + c + draw.gauss(0, 0.5) for c in common] for mean in (12.0, 8.0))
        found = interval_of_ratio(first, second, "mean", paired=paired)
        held += found is not None and found.low <= 1.5 <= found.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("needs", "quick", "repetitions", "lacks"),
    [
        ('"full"', True, None, "the full form"),
        ('"full"', False, None, ""),
        ('"full"', False, 2, "the full form"),
        ('{ duration = "20 s" }', True, None, "runs of 20 s, has 5 s"),
        ('{ duration = "20 s" }', False, None, ""),
        ("{ repetitions = 3 }", True, None, "3 repetitions, has 2"),
        ('{ duration = "5 s", repetitions = 2 }', True, None, ""),
    ],
)
def test_too_short_form_needs_more_runs(
    analyse: Analyse, needs: str, quick: bool, repetitions: int | None, lacks: str
) -> None:
    more = f'kind = "at_least"\nexpect = 1\nneeds = {needs}'
    found = analyse(more, quick=quick, repetitions=repetitions)
    (verdict,) = found.verdicts
    assert (verdict.outcome, verdict.shortfall) == ("needs more" if lacks else "pass", lacks)
    assert verdict.gaps == ([f"needs: {lacks}"] if lacks else [])


def test_report_names_its_form_and_claims_without_verdict(analyse: Analyse, tmp_path: Path) -> None:
    found = analyse('kind = "at_least"\nexpect = 1\nneeds = "full"', quick=True)
    assert tally(found) == "0 of 1 statements pass; 1 needs the full form."
    assert form(found) == "Quick form: 4 runs of 4."
    report = write(found, [], Plan(found.study, found.effort, tmp_path, fake_simulator.simulate, "b1")).read_text()
    assert "Quick form: 4 runs of 4." in report
    assert "1 needs the full form" in report


LEAST = 'kind = "at_least"\nexpect = 1\n'


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (LEAST + 'needs = "long"', '"needs" cannot be "long"'),
        (LEAST + 'needs = { time = "3 s" }', '"time" is not known here'),
        (LEAST + 'needs = { duration = "3" }', 'a time such as "300 s"'),
        (LEAST + "needs = { repetitions = 4 }", "more than the full form: 4 repetitions, has 3"),
        (LEAST + 'needs = { duration = "21 s" }', "more than the full form: runs of 21 s, has 20 s"),
        ('kind = "at_least"\nagainst = {}', '"against" does not belong to a claim of kind "at_least"'),
        ('kind = "at_least"\nagainst = {}', 'which needs "expect"'),
        ('kind = "order"\nexpect = 1\nagainst = {}', '"expect" does not belong to a claim of kind "order"'),
        ('kind = "value"\nexpect = 1', '"tolerance" is missing in a claim of kind "value"'),
        ('kind = "value"\nexpect = 1', 'which needs "expect" and "tolerance"'),
        ('kind = "ratio"\nexpect = 1\ntolerance = 1', '"against" is missing in a claim of kind "ratio"'),
    ],
)
def test_wrong_claim_is_reported(tmp_path: Path, more: str, message: str) -> None:
    folder = small_study.write(tmp_path / "study", claims=CLAIM.format(more=more))
    with pytest.raises(InputError) as caught:
        load(folder)
    assert message in str(caught.value)
    assert "claims.toml:" in str(caught.value)
