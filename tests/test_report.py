"""What a study says in the end: estimates, deviations, verdicts, tables, figures."""

from __future__ import annotations

import dataclasses
import io
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import matplotlib.image
import pytest
from rich.console import Console

import fake_simulator
import small_study
from anabranch.errors import RunFailed
from anabranch.report.markdown import table
from anabranch.report.terminal import print_points
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = small_study.write(tmp_path_factory.mktemp("report") / "study")
    study = load(folder)
    results = folder.parent / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    with read(results) as store:
        return Analysis(study, study.full, store.records)


def test_estimates_are_means_over_repetitions(analysis: Analysis) -> None:
    point = analysis.points()[0]
    samples = [d["flows"][0]["goodput_bps"] / 1e6 for d in analysis.documents(point)]
    found = analysis.estimates(point, "goodput")["F0"]
    assert found.centre == pytest.approx(sum(samples) / 3)
    assert found.count == 3


def test_deviations_are_relative_to_the_capacity(analysis: Analysis) -> None:
    chosen = [c for c in analysis.comparisons if c.published == 11.0]
    assert len(chosen) == 1
    assert chosen[0].deviation == pytest.approx((chosen[0].ours.centre - 11.0) / 20.0)


def test_summaries_cover_points_with_published_values(analysis: Analysis) -> None:
    by_group = {s.group: s for s in analysis.summaries}
    assert set(by_group) == {"reno", "cubic"}
    assert (by_group["reno"].values, by_group["reno"].points) == (2, 1)
    assert by_group["reno"].sum_median == pytest.approx((9.7 - 9.0) / 9.0)
    assert by_group["reno"].sums_agree == 0.0
    assert by_group["cubic"].sums_agree == 1.0


def test_sums_as_the_publication_prints_them(analysis: Analysis) -> None:
    published = analysis.study.published
    assert published is not None
    printed = dataclasses.replace(analysis.study, published=dataclasses.replace(published, printed="truncated"))
    records = {record.key: record for _, record in analysis.runs}
    by_group = {s.group: s for s in Analysis(printed, analysis.effort, records).summaries}
    # 5.2 and 4.5 are printed as 5 and 4: exactly what was published.
    assert by_group["reno"].sums_agree == 0.0
    assert by_group["reno"].sums_agree_as_printed == 1.0


def test_verdicts(analysis: Analysis) -> None:
    outcomes = {v.claim.id: (v.outcome, len(v.measured)) for v in analysis.verdicts}
    assert outcomes == {
        "share": ("pass", 2),
        "too much": ("fail", 4),
        "equal": ("pass", 4),
        "more capacity, more goodput": ("pass", 4),
    }


def test_a_claim_over_several_points_compares_each_with_its_own_counterpart(tmp_path: Path) -> None:
    claims = """
[[claim]]
id = "ratio"
text = "The first flow gets as much as the second at every capacity"
kind = "ratio"
of = ["F0"]
where = { capacity = [10, 20], congestion = "reno" }
expect = 9
tolerance = 0.1
against = { of = ["F1"] }
explanation = "It is not so."
"""
    study = load(small_study.write(tmp_path / "study", claims=claims))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    (verdict,) = found.verdicts
    assert len(verdict.measured) == 2
    for measured, capacity in zip(verdict.measured, (10, 20), strict=True):
        point = next(p for p in found.points() if p.values == {"capacity": capacity, "congestion": "reno"})
        flows = [found.centre(point, "goodput", flow) or 0.0 for flow in ("F0", "F1")]
        assert measured.value == pytest.approx(flows[0] / flows[1])
    assert "**Why ratio fails.** It is not so." in write_all(found, plan).read_text()


def test_a_claim_without_runs_is_not_run(analysis: Analysis) -> None:
    empty = Analysis(analysis.study, analysis.effort, {})
    assert {v.outcome for v in empty.verdicts} == {"not run"}


def test_everything_is_written(analysis: Analysis, tmp_path: Path) -> None:
    plan = Plan(analysis.study, analysis.effort, tmp_path, fake_simulator.simulate, "b1")
    report = write_all(analysis, plan).read_text()
    for part in ("# A study for tests", "## Deviations", "## Published statements", "figures/goodput.png",
                 "| 10 | reno | reno |", "**fail**", "build b1"):  # fmt: skip
        assert part in report
    picture = matplotlib.image.imread(tmp_path / "figures" / "goodput.png")
    assert picture.shape[0] > 300
    assert picture.std() > 0.05
    assert ET.parse(tmp_path / "figures" / "goodput.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "points.csv").read_text().count("\n") == 9


def test_figures_are_the_same_bytes_again(analysis: Analysis, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_all(analysis, Plan(analysis.study, analysis.effort, tmp_path / name, fake_simulator.simulate, "b1"))
    for kind in ("png", "svg"):
        files = [(tmp_path / name / "figures" / f"goodput.{kind}").read_bytes() for name in ("one", "two")]
        assert files[0] == files[1]


def test_windows_over_time(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", study=small_study.STUDY + small_study.WINDOWS)
    study = load(folder)
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        report = write_all(Analysis(study, study.full, store.records), plan).read_text()
    assert "figures/windows.png" in report
    picture = matplotlib.image.imread(plan.folder / "figures" / "windows.png")
    assert picture.shape[0] > 900
    assert picture.std() > 0.05
    assert {p.name for p in (plan.folder / "traces").iterdir()} == {"windows-1", "windows-2"}


def test_a_trace_of_another_run_is_refused(analysis: Analysis, tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", study=small_study.STUDY + small_study.WINDOWS)
    study = load(folder)
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate)
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.other, "b1")
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    with pytest.raises(RunFailed, match="came out differently"):
        write_all(found, plan)


def test_the_table_fits_eighty_columns(analysis: Analysis) -> None:
    output = io.StringIO()
    print_points(analysis, Console(file=output, width=80))
    text = output.getvalue()
    assert "published" not in text.splitlines()[0]
    for part in ("+0.0 %", "95 % CI", "Published statements", "not run"):
        assert (part in text) == (part not in ("+0.0 %", "not run"))
    assert max(len(line) for line in text.splitlines()) <= 80


def test_markdown_tables() -> None:
    assert table(["a", "b"], [["1", "x|y"], ["± 2 %", ""]]) == "| a | b |\n|---:|---|\n| 1 | x\\|y |\n| ± 2 % |  |"
