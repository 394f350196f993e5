"""Quantities that follow from a scenario by arithmetic: against results worked by hand, and as subjects of claims."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch
import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.fairness.allocation import ALLOCATIONS
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.library import find
from anabranch.study.store import read
from anabranch.theory import QUANTITIES

ROOT = Path(__file__).parent.parent

TWO_PATHS = """
title = "Two paths"
duration = "20 s"
warmup = "2 s"

[[link]]
name = "near"
between = ["A", "B"]
rate = "8 Mbit/s"
delay = "10 ms"

[[link]]
name = "far"
between = ["A", "B"]
rate = "2 Mbit/s"
delay = "50 ms"
reverse = { rate = "1 Mbit/s", delay = "100 ms" }

[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "mptcp"
rto_min = "200 ms"
"""


def value(quantity: str, text: str, subject: str = "F") -> float:
    return QUANTITIES[quantity].of(anabranch.Scenario.from_toml(text))[subject]


def test_virtual_buffer_uses_the_longest_forward_path() -> None:
    # 2 · 10 Mbit/s · 50 ms; the reverse path does not count.
    assert value("virtual-buffer", TWO_PATHS) == pytest.approx(125.0)
    assert value("virtual-buffer", TWO_PATHS.replace('name = "F"', 'name = "F"\ndirection = "reverse"')) == (
        pytest.approx(2 * 9e6 * 0.1 / 8e3)
    )


def test_virtual_buffer_counts_a_shared_link_once() -> None:
    shared = TWO_PATHS.replace('"A", "B"', '"A", "M"') + '[[link]]\nname = "out"\nbetween = ["M", "B"]\n'
    assert value("virtual-buffer", shared + 'rate = "4 Mbit/s"\ndelay = "0 ms"\n') == pytest.approx(50.0)


def test_booked_memory_is_the_sum_over_paths() -> None:
    # Only two address pairs have a route: that of the near link and that of the far link.
    assert value("booked-memory", TWO_PATHS) == pytest.approx((3 * 0.15 + 0.2) * 10e6 / 8e6)
    slow = TWO_PATHS.replace('rto_min = "200 ms"', 'rto_min = "1 s"')
    assert value("booked-memory", slow) == pytest.approx((3 * 0.15 + 1.0) * 10e6 / 8e6)
    fast = TWO_PATHS.replace('rto_min = "200 ms"', 'rto_min = "100 ms"')
    assert value("booked-memory", fast) == pytest.approx((3 * 0.15 + 0.15) * 10e6 / 8e6)


def test_fair_rates_match_the_allocations() -> None:
    fair = anabranch.fair(anabranch.Scenario.from_toml(TWO_PATHS))
    for name in ALLOCATIONS:
        assert value(f"fair-{name}", TWO_PATHS) == pytest.approx(fair.allocations[name]["F"] * 1e-6)
        assert value(f"fair-{name}-total", TWO_PATHS, "") == pytest.approx(fair.allocations[name]["F"] * 1e-6)


def test_every_quantity_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "studies.md").read_text(encoding="utf-8")
    spelt = {name for name in QUANTITIES if not name.startswith("fair-")}
    assert [name for name in sorted(spelt) if f"`{name}`" not in page] == []
    assert "`fair-NAME`" in page
    assert "`fair-NAME-total`" in page


@pytest.mark.parametrize(
    ("study", "claim", "measured"),
    [
        ("becke2014-paths", "becke-memory-ratio", [6.0]),
        ("becke2014-fairness", "becke-fig6.2-uncoupled", [8.0, 8.0, 8.0]),
        ("becke2014-fairness", "becke-fig6.3-subflow", [20.0]),
        ("becke2014-scheduling", "becke-7.3.3-virtual-bdp", [187.5]),
    ],
)
def test_theory_of_becke_holds_without_runs(study: str, claim: str, measured: list[float]) -> None:
    chosen = find(study)
    for effort in (chosen.quick, chosen.full):
        verdict = next(v for v in Analysis(chosen, effort, {}).verdicts if v.claim.id == claim)
        assert verdict.outcome == "pass"
        assert [m.value for m in verdict.measured] == pytest.approx(measured)


CLAIMS = """
[[claim]]
id = "fair"
text = "Each has half of the link"
kind = "value"
world = "theory"
metric = "fair-link-flow"
of = ["F0", "F1"]
where = { congestion = "reno" }
expect = 5
tolerance = 6

[[claim]]
id = "not here"
text = "On another machine it was less"
kind = "at_most"
world = "elsewhere"
of = ["F0"]
expect = 0
explanation = "That machine is gone."

[[claim]]
id = "largest"
text = "At some capacity the two are far apart"
kind = "at_most"
absolute = true
extreme = "largest"
metric = "deviation"
of = ["F0"]
where = { congestion = "reno" }
expect = 1

[[claim]]
id = "order"
text = "Without their signs the two deviations are the same, so that neither is larger"
kind = "order"
absolute = true
metric = "deviation"
of = ["F0"]
where = { congestion = "reno" }
against = { of = ["F1"] }
"""

NOTHING_RUN = '\n[experiment.unrun]\nscenario = "scenario.toml"\nover = ["congestion"]\ntheory = true\n'


def test_claims_on_theory_are_judged_without_runs(tmp_path: Path) -> None:
    claims = CLAIMS.replace('kind = "', 'experiment = "pair"\nkind = "')
    text = small_study.STUDY.replace('title = "Goodput', 'experiment = "pair"\ntitle = "Goodput') + NOTHING_RUN
    study = load(small_study.write(tmp_path / "study", study=text, claims=claims))
    assert {run.point.experiment for run in study.runs(study.full)} == {"pair"}
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    verdicts = {v.claim.id: v for v in found.verdicts}
    assert {name: v.outcome for name, v in verdicts.items()} == {
        "fair": "pass", "not here": "not run", "largest": "pass", "order": "fail",
    }  # fmt: skip
    assert [m.value for m in verdicts["fair"].measured] == pytest.approx([5.0, 5.0, 10.0, 10.0])
    assert verdicts["not here"].measured == ()
    (largest,) = verdicts["largest"].measured
    points = [p for p in found.points() if p.values["congestion"] == "reno"]
    deviations = [found.centre(p, "deviation", "F0") or 0.0 for p in points]
    assert len(deviations) == 2
    assert largest.value == -min(deviations) > -max(deviations) > 0.0
    assert [m.value for m in verdicts["order"].measured] == pytest.approx([0.0, 0.0])
    report = write_all(found, plan).read_text()
    assert "**Why not here is not run.** That machine is gone." in report
    assert "≤ 1 (largest without sign)" in report


def test_unknown_theory_quantity_is_refused(tmp_path: Path) -> None:
    wrong = CLAIMS.replace('"fair-link-flow"', '"goodput"').replace('kind = "', 'experiment = "pair"\nkind = "')
    with pytest.raises(InputError, match="fair-link-subflow"):
        load(small_study.write(tmp_path / "study", claims=wrong))
