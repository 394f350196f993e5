"""Claims about the median or the standard deviation of runs, and reports that show both."""

from __future__ import annotations

import json
import math
import random
import statistics
from typing import TYPE_CHECKING

import pytest

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.report.markdown import write
from anabranch.report.terminal import expectation
from anabranch.report.verdicts import document
from anabranch.spread import interval_of_spread, interval_of_spread_difference, interval_of_spread_ratio
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = """
[[claim]]
id = "claim"
text = "The first flow has its share"
of = ["F0"]
where = {{ capacity = 10, congestion = "reno" }}
{more}
"""


def analysed(folder: Path, more: str, study: str = small_study.STUDY) -> Analysis:
    found = load(small_study.write(folder / "study", study=study, claims=CLAIM.format(more=more)))
    small_study.execute_quietly(found, folder / "results", fake_simulator.simulate)
    with read(folder / "results") as store:
        analysis = Analysis(found, found.full, store.records)
        assert len(analysis.verdicts) == 1
    return analysis


@pytest.mark.parametrize(("statistic", "of"), [("std", statistics.stdev), ("median", statistics.median)])
def test_claim_is_about_its_statistic(tmp_path: Path, statistic: str, of: object) -> None:
    found = analysed(tmp_path, f'kind = "at_least"\nexpect = -1\nstatistic = "{statistic}"')
    (verdict,) = found.verdicts
    values = found.samples(found.points()[0], "goodput")["F0"]
    assert callable(of)
    assert verdict.measured[0].value == pytest.approx(of(values))
    interval = verdict.measured[0].interval
    assert interval is not None
    assert interval.low <= of(values) * 1.5
    assert interval.high >= of(values) * 0.5
    name = {"std": "standard deviation"}.get(statistic, statistic)
    assert expectation(verdict.claim) == f"≥ -1 ({name})"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('kind = "at_least"\nexpect = 1\nstatistic = "variance"', '"statistic" cannot be "variance"'),
        ('kind = "at_least"\nexpect = 1\nstatistic = "std"\nextreme = "largest"', 'combined with "extreme"'),
        ('kind = "order"\nstatistic = "std"\nagainst = { metric = "throughput" }', "compares one metric, not"),
        (
            'kind = "at_least"\nexpect = 1\nstatistic = "std"\nworld = "theory"\nmetric = "fair-max-min"',
            "a quantity of theory",
        ),
    ],
)
def test_wrong_statistic_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(small_study.write(tmp_path / "study", claims=CLAIM.format(more=more)))
    assert message in str(caught.value)
    assert "claims.toml:" in str(caught.value)


def test_unknown_spread_is_refused(tmp_path: Path) -> None:
    text = 'spread = "range"\n' + small_study.STUDY
    with pytest.raises(InputError, match=r'study.toml:1: "spread" cannot be "range"'):
        load(small_study.write(tmp_path / "study", study=text))


def test_report_shows_deviation_and_median_on_request(tmp_path: Path) -> None:
    found = analysed(tmp_path, 'kind = "at_least"\nexpect = 1', 'spread = "std"\n' + small_study.STUDY)
    plan = Plan(found.study, found.effort, tmp_path, fake_simulator.simulate, "b1")
    report = write(found, [], plan).read_text(encoding="utf-8")
    values = found.samples(found.points()[0], "goodput")["F0"]
    row = f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f} | {statistics.median(values):.2f} | 3 |"
    assert row in report


def test_interval_of_a_deviation_has_its_confidence() -> None:
    draw = random.Random(3)
    for count in (5, 15):
        wrong = 0
        for _ in range(500):
            found = interval_of_spread([draw.gauss(10.0, 2.0) for _ in range(count)], 0.95)
            assert found is not None
            wrong += not found.low <= 2.0 <= found.high
        # 5 %, and three standard errors of 500 draws.
        assert wrong / 500 < 0.05 + 0.03


@pytest.mark.parametrize(("ratio", "true"), [(True, 0.5), (False, -2.0)])
def test_interval_between_deviations_holds_the_truth(ratio: bool, true: float) -> None:
    draw, wrong = random.Random(4), 0
    for _ in range(500):
        first = [draw.gauss(10.0, 2.0) for _ in range(12)]
        second = [draw.gauss(10.0, 4.0) for _ in range(12)]
        if ratio:
            found = interval_of_spread_ratio(first, second, paired=False, confidence=0.95)
        else:
            found = interval_of_spread_difference(first, second, 0.95)
        assert found is not None
        wrong += not found.low <= true <= found.high
    assert wrong / 500 < 0.05 + 0.03


def test_two_values_decide_nothing_about_a_deviation() -> None:
    found = interval_of_spread([1.0, 2.0], 0.95)
    assert found is not None
    assert (found.low, found.high) == (0.0, math.inf)
    assert interval_of_spread([2.0, 2.0, 2.0], 0.95) is None
    between = interval_of_spread_difference([1.0, 2.0], [1.0, 5.0], 0.95)
    assert between is not None
    assert (between.low, between.high) == (-math.inf, math.inf)


def test_verdict_fields_are_json_values(tmp_path: Path) -> None:
    found = analysed(tmp_path, 'kind = "at_least"\nexpect = 1\nneeds = { repetitions = 2 }')
    content = json.loads(json.dumps(document(found), allow_nan=False))
    assert (content["form"], content["runs"], content["summary"]) == ("full", 12, "1 of 1 statements pass.")
    (verdict,) = content["verdicts"]
    assert (verdict["id"], verdict["outcome"], verdict["low"], verdict["high"]) == ("claim", "pass", 1.0, None)
    assert (verdict["measured"][0]["values"], verdict["measured"][0]["coverage"]) == (3, 0.75)
    assert verdict["measured"][0]["low"] < verdict["measured"][0]["value"] < verdict["measured"][0]["high"]
