"""The report of a study: estimates, deviations, verdicts, tables, figures."""

from __future__ import annotations

import dataclasses
import io
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import matplotlib.image
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from rich.text import Text

import fake_simulator
import small_study
from anabranch._core.simulator import Request
from anabranch.errors import RunFailed
from anabranch.report.markdown import table
from anabranch.report.terminal import print_points, print_result
from anabranch.report.write import write_all
from anabranch.results import Result
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch._core.document import Document


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
    runs = [stored for run, stored in analysis.runs if run.point == point]
    samples = [stored.document["flows"][0]["goodput_bps"] / 1e6 for stored in runs]
    found = analysis.estimates(point, "goodput")["F0"]
    assert found.centre == pytest.approx(sum(samples) / 3)
    assert found.count == 3


def quiet(request: Request) -> Document:
    """The double of the simulator without noise: the seed has no effect."""
    return fake_simulator.simulate(dataclasses.replace(request, seed=7))


def test_repetitions_that_cannot_differ_are_flagged(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    plan = Plan(study, study.full, tmp_path / "results", quiet, "b1")
    small_study.execute_quietly(study, plan.folder, quiet)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    output = io.StringIO()
    print_points(found, Console(file=output, width=80))
    for text in (output.getvalue(), write_all(found, plan).read_text()):
        assert "all equal" in text
        assert "± 0.00" not in text
        assert "At 4 of 4 points all repetitions have the same values in every" in text


def test_repetitions_that_differ_are_not_flagged(analysis: Analysis) -> None:
    assert analysis.alike == []
    assert analysis.intervals.startswith(
        "Mean with its confidence interval: Student's t, which encloses it with 95 % if"
    )


def test_median_has_an_interval_of_the_median(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('centre = "mean"', 'centre = "median"')
    study = load(small_study.write(tmp_path / "study", study=text))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    runs = [stored for run, stored in found.runs if run.point == found.points()[0]]
    samples = sorted(stored.document["flows"][0]["goodput_bps"] / 1e6 for stored in runs)
    ours = found.estimates(found.points()[0], "goodput")["F0"]
    assert (ours.low, ours.centre, ours.high) == pytest.approx(samples)
    report = write_all(found, plan).read_text()
    assert f"| {samples[1]:.2f} | {samples[0]:.2f} – {samples[2]:.2f} |" in report
    assert "| ≥ 75 % CI |" in report
    assert "3 repetitions. Median with its confidence interval: order statistics" in report
    assert "75 % with 3 runs, 95 % takes six runs" in report


def fallen(request: Request) -> Document:
    """The double of the simulator, but with some seeds a flow falls back to plain TCP."""
    document = fake_simulator.simulate(request)
    document["flows"][1]["fallback"] = (request.seed or 0) % 2 == 0
    return document


def test_runs_whose_flows_fell_back_are_counted(analysis: Analysis, tmp_path: Path) -> None:
    assert analysis.silences == []
    study = load(small_study.write(tmp_path / "study"))
    small_study.execute_quietly(study, tmp_path / "results", fallen)
    with read(tmp_path / "results") as store:
        found = Analysis(study, study.full, store.records)
    assert 0 < len(found.silences) == sum(run.seed % 2 == 0 for run, _ in found.runs) < len(found.runs)
    assert found.silences[0].startswith('"F1" fell back to plain TCP')


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


def test_sums_are_rounded_as_in_the_publication(analysis: Analysis) -> None:
    published = analysis.study.published
    assert published is not None
    printed = dataclasses.replace(analysis.study, published=dataclasses.replace(published, printed="truncated"))
    records = {record.key: record for _, record in analysis.runs}
    by_group = {s.group: s for s in Analysis(printed, analysis.effort, records).summaries}
    # 5.2 and 4.5 are printed as 5 and 4, which are the published values.
    assert by_group["reno"].sums_agree == 0.0
    assert by_group["reno"].sums_agree_as_printed == 1.0


def test_claims_have_the_expected_verdicts(analysis: Analysis) -> None:
    outcomes = {v.claim.id: (v.outcome, len(v.measured)) for v in analysis.verdicts}
    assert outcomes == {
        "share": ("pass", 2),
        "too much": ("fail", 4),
        "equal": ("undecided", 4),
        "more capacity, more goodput": ("pass", 4),
    }


def test_claim_compares_each_point_with_its_counterpart(tmp_path: Path) -> None:
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


def test_claim_without_runs_is_not_run(analysis: Analysis) -> None:
    empty = Analysis(analysis.study, analysis.effort, {})
    assert {v.outcome for v in empty.verdicts} == {"not run"}


CLAIM = """
[[claim]]
id = "some"
text = "The first flow gets something everywhere"
kind = "at_least"
metric = "path-goodput"
of = ["F0/A", "F0/Nope"]
where = { capacity = [10, 20], congestion = "reno" }
expect = 1
"""


def test_claim_on_a_missing_value_is_incomplete(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study", claims=CLAIM))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    (verdict,) = found.verdicts
    assert (verdict.outcome, len(verdict.measured)) == ("incomplete", 2)
    assert len(verdict.missing) == 2
    report = write_all(found, plan).read_text()
    assert "missing: capacity = 10, congestion = reno, F0/Nope; capacity = 20" in report
    assert "0 of 1 statements pass (1 incomplete)." in report


def test_claim_names_its_missing_points(tmp_path: Path) -> None:
    claims = CLAIM.replace(', "F0/Nope"', "")
    study = load(small_study.write(tmp_path / "study", claims=claims))
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate)
    with read(tmp_path / "results") as store:
        records = store.records
    whole = Analysis(study, study.full, records)
    assert [(v.outcome, v.gaps) for v in whole.verdicts] == [("pass", [])]
    some = {r.key: r for run, r in whole.runs if run.point.values["capacity"] == 10}
    (verdict,) = Analysis(study, study.full, some).verdicts
    assert (verdict.outcome, verdict.missing) == ("incomplete", ("capacity = 20, congestion = reno, F0/A",))
    # The quick form has no 20 Mbit/s: the verdict uses the remaining points, and the report lists the missing one.
    quick = dataclasses.replace(study.quick, sets={}, repetitions=3)
    (verdict,) = Analysis(study, quick, records).verdicts
    assert (verdict.outcome, verdict.gaps) == ("pass", ["not in this form: capacity = 20"])


BACK = """
[[figure]]
name = "back"
metric = "recovery-time"
x = "capacity"
columns = "congestion"
"""


def test_runs_without_a_value_are_reported(tmp_path: Path) -> None:
    """A flow that never recovers has no recovery time, so a mean over the other flows would be too low."""
    study_text = small_study.STUDY + BACK
    claims = """
[[claim]]
id = "back"
text = "The flow recovers within 3 s"
kind = "at_most"
metric = "recovery-time"
of = ["F0"]
where = { capacity = 10, congestion = "reno" }
expect = 3
"""
    study = load(small_study.write(tmp_path / "study", study=study_text, claims=claims))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.sometimes_recovering, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.sometimes_recovering)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    (verdict,) = found.verdicts
    recovered: list[float | None] = [r.document["flows"][0]["recovery_s"] for run, r in found.runs
                 if run.point.values == {"capacity": 10, "congestion": "reno"}]  # fmt: skip
    lost = recovered.count(None)
    assert 0 < lost < len(recovered) == 3
    place = f"{lost} of 3 (capacity = 10, congestion = reno, F0)"
    assert (verdict.outcome, verdict.gaps) == ("pass", [f"runs without a value, left out: {place}"])
    report = write_all(found, plan).read_text()
    assert f"<br>runs without a value, left out: {place}" in report
    assert f'Figure "back" leaves out runs without a value: {place}' in report


def test_figure_of_an_unknown_path_is_refused(tmp_path: Path) -> None:
    text = (
        small_study.STUDY
        + """
[[figure]]
name = "paths"
metric = "path-goodput"
x = "capacity"
columns = "congestion"
subjects = ["F0/A", "F0/Z"]
"""
    )
    study = load(small_study.write(tmp_path / "study", study=text))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        report = write_all(Analysis(study, study.full, store.records), plan).read_text()
    assert 'Figure "paths" asks for F0/Z, which no run has.' in report


def test_empty_sums_have_no_deviation(tmp_path: Path) -> None:
    published = "capacity,cc,flow,mbps\n10,reno,0,0\n10,reno,1,0\n"
    study = load(small_study.write(tmp_path / "study", published=published))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        report = write_all(Analysis(study, study.full, store.records), plan).read_text()
    assert "| – of 0 | – | – |" in report


def test_report_writes_all_files(analysis: Analysis, tmp_path: Path) -> None:
    plan = Plan(analysis.study, analysis.effort, tmp_path, fake_simulator.simulate, "b1")
    report = write_all(analysis, plan).read_text()
    for part in ("# A study for tests", "## Deviations", "## Published statements", "figures/goodput.png",
                 "| 10 | reno | reno |", "**fail**", "build b1",
                 "2 of 4 statements pass (1 fail, 1 undecided)."):  # fmt: skip
        assert part in report
    picture = matplotlib.image.imread(tmp_path / "figures" / "goodput.png")
    assert picture.shape[0] > 300
    assert picture.std() > 0.05
    assert ET.parse(tmp_path / "figures" / "goodput.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "points.csv").read_text().count("\n") == 9


def test_published_values_keep_their_digits(tmp_path: Path) -> None:
    published = small_study.PUBLISHED.replace("0,11", "0,10.96")
    study = load(small_study.write(tmp_path / "study", published=published))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    output = io.StringIO()
    print_points(found, Console(file=output, width=80))
    assert "10.96" in output.getvalue()
    report = write_all(found, plan).read_text()
    assert "| 10.96 |" in report
    assert "| 8 |" in report


def test_link_with_drops_only_is_shown() -> None:
    document = fake_simulator.simulate(Request("", "x.toml"))
    (link,) = document["links"]
    link.update({"packets": 0, "drops_by_cause": {}})
    document["links"] = [{**link, "name": "outage", "drops": 12}, {**link, "name": "unused", "drops": 0}]
    output = io.StringIO()
    for flow in document["flows"]:
        flow["paths"] = []
    print_result(Result(document), Console(file=output, width=80))
    assert "outage" in output.getvalue()
    assert "unused" not in output.getvalue()


def test_axis_labels_stand_below_their_markers(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('values = ["reno", "cubic"]', 'values = ["reno", "cubic", "olia"]')
    text = text.replace("labels = {", 'values = { congestion = ["olia", "reno"] }\nlabels = {', 1)
    text = text.replace('x = "capacity"\ncolumns = "congestion"', 'x = "congestion"\ncolumns = "capacity"')
    study = load(small_study.write(tmp_path / "study", study=text))
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate)
    with read(tmp_path / "results") as store:
        records = store.records
    whole = Analysis(study, study.full, records)
    # The first word is missing in one panel: the second word stays in its place.
    some = {r.key: r for run, r in whole.runs if run.point.values != {"capacity": 20, "congestion": "olia"}}
    found = Analysis(study, study.full, some)
    canvas = study.figures[0].kind.draw(study.figures[0], found, None)
    assert canvas is not None
    for axes, capacity in zip(canvas.axes, (10, 20), strict=True):
        labels = dict(zip(axes.get_xticks(), (t.get_text() for t in axes.get_xticklabels()), strict=True))
        assert list(labels.values()) == ["olia", "reno"]
        drawn = axes.lines[0]
        by_word = {labels[x]: y for x, y in np.asarray(drawn.get_xydata())}
        points = [p for p in found.points() if p.values["capacity"] == capacity]
        assert by_word == {p.values["congestion"]: found.centre(p, "goodput", "F0") for p in points}


def test_figures_are_the_same_bytes_again(analysis: Analysis, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_all(analysis, Plan(analysis.study, analysis.effort, tmp_path / name, fake_simulator.simulate, "b1"))
    for kind in ("png", "svg", "pdf"):
        files = [(tmp_path / name / "figures" / f"goodput.{kind}").read_bytes() for name in ("one", "two")]
        assert files[0] == files[1]


def test_figure_shows_windows_over_time(tmp_path: Path) -> None:
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


def test_trace_of_another_run_is_refused(analysis: Analysis, tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", study=small_study.STUDY + small_study.WINDOWS)
    study = load(folder)
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate)
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.other, "b1")
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
    with pytest.raises(RunFailed, match="came out differently"):
        write_all(found, plan)


def test_runs_of_another_build_are_named_or_omitted(analysis: Analysis, tmp_path: Path) -> None:
    records = {
        record.key: record._replace(build="b0") if run.repetition == 1 else record for run, record in analysis.runs
    }
    found = Analysis(analysis.study, analysis.effort, records)
    report = write_all(found, Plan(found.study, found.effort, tmp_path, fake_simulator.simulate, "b1")).read_text()
    assert "Not all runs are of this build of the simulator, b1; runs by build: b0 (4), b1 (8)." in report
    report = write_all(found, Plan(found.study, found.effort, tmp_path, fake_simulator.simulate, "b2")).read_text()
    assert "of this build of the simulator, b2" in report
    own = Analysis(analysis.study, analysis.effort, records, "b1")
    assert (len(own.runs), own.missing, own.stale, own.builds) == (8, 4, 4, {"b1"})
    plan = Plan(own.study, own.effort, tmp_path, fake_simulator.simulate, "b1")
    assert "Not all runs" not in write_all(own, plan).read_text()


def test_table_fits_eighty_columns(analysis: Analysis) -> None:
    output = io.StringIO()
    print_points(analysis, Console(file=output, width=80, force_terminal=True, no_color=True))
    text = Text.from_ansi(output.getvalue()).plain
    assert "published" not in text.splitlines()[0]
    for part in ("+0.0 %", "≥ 75 % CI", "Published statements", "not run"):
        assert (part in text) == (part not in ("+0.0 %", "not run"))
    assert max(len(line) for line in text.splitlines()) <= 80


def test_tables_are_written_as_markdown() -> None:
    assert table(["a", "b"], [["1", "x|y"], ["± 2 %", ""]]) == "| a | b |\n|---:|---|\n| 1 | x\\|y |\n| ± 2 % |  |"


def test_batch_size_does_not_change_tables(analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for batch in (5000, 5):
        monkeypatch.setattr("anabranch.study.analysis._BATCH", batch)
        files = frames.write(analysis, tmp_path)
        tables.append([pl.read_parquet(file) for file in files if file.suffix == ".parquet"])
    for whole, parts in zip(*tables, strict=True):
        assert whole.equals(parts)


def test_points_have_a_row_for_each_metric_in_use(analysis: Analysis) -> None:
    text = small_study.STUDY + (
        '\n[[figure]]\nname = "delay"\nmetric = "delivery-delay-p95"\nx = "capacity"\ncolumns = "congestion"\n'
    )
    folder = analysis.study.folder.parent / "metrics"
    study = load(small_study.write(folder / "study", study=text))
    small_study.execute_quietly(study, folder / "results", fake_simulator.simulate)
    with read(folder / "results") as store:
        found = Analysis(study, study.full, store.records)
        table = frames.points(found)
    assert table["metric"].unique(maintain_order=True).to_list() == ["goodput", "delivery-delay-p95"]
    assert table.height == 2 * 2 * len(found.points())
    delays = table.filter(pl.col("metric") == "delivery-delay-p95")
    assert delays["unit"].unique().to_list() == ["ms"]
    assert delays["ours"].to_list() == pytest.approx([30.0] * delays.height)
    assert delays["published"].null_count() == delays.height
    goodputs = table.filter(pl.col("metric") == "goodput").row(0, named=True)
    samples = found.samples(found.points()[0], "goodput")["F0"]
    assert goodputs["mean"] == pytest.approx(np.mean(samples))
    assert goodputs["median"] == pytest.approx(np.median(samples))
    assert goodputs["std"] == pytest.approx(np.std(samples, ddof=1))
    assert goodputs["n"] == 3
