"""A study in two worlds, side by side: cells, deviations, gaps, late runs, the report and its figures."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import shutil
from typing import TYPE_CHECKING

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

import fake_simulator
import small_study
from anabranch.plot import world_comparison as drawing
from anabranch.plot.kinds import KINDS
from anabranch.report.world_comparison import print_all, write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute
from anabranch.study.store import read
from anabranch.study.world_comparison import WorldComparison
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anabranch._core.document import Document, HostFacts
    from anabranch._core.simulator import Request
    from anabranch.study.model import Effort, Study

KERNEL: HostFacts = fake_simulator.completed({"kernel": "6.18", "lateness": {"overloaded": False}}, "HostFacts")


def _with_goodputs(request: Request, shares: tuple[float, float], host: HostFacts | None = None) -> Document:
    """A document in which the flows have these shares of the capacity, in every repetition."""
    document = fake_simulator.simulate(request)
    settings = dict(s.split("=", 1) for s in request.overrides)
    capacity = float(settings["link.bottleneck.rate"].strip('"').split()[0]) * 1e6
    for flow, share in zip(document["flows"], shares, strict=True):
        flow["goodput_bps"] = capacity * share
    document["host"] = host
    return document


def simulated(request: Request) -> Document:
    """The first flow gets half of the capacity, the second four tenths."""
    return _with_goodputs(request, (0.5, 0.4))


def measured(request: Request) -> Document:
    """The first flow gets three tenths of the capacity, the second six tenths."""
    return _with_goodputs(request, (0.3, 0.6), KERNEL)


def noisy(request: Request) -> Document:
    """The double's values, with the noise of the seed, on a machine that kept up."""
    return {**fake_simulator.simulate(request), "host": KERNEL}


def late(request: Request) -> Document:
    """The double's values, but with cubic the machine did not keep up."""
    overloaded = any("cubic" in setting for setting in request.overrides)
    return {
        **measured(request),
        "host": fake_simulator.completed({"lateness": {"overloaded": overloaded}}, "HostFacts"),
    }


def _analysis(study: Study, effort: Effort, folder: Path, backend: Callable[[Request], Document]) -> Analysis:
    execute(Plan(study, effort, folder, backend, "b1"), Silent(), resume=False)
    with read(folder) as store:
        return Analysis(study, effort, store.records)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load(small_study.write(tmp_path / "study"))


def _comparison(
    study: Study, tmp_path: Path, kernel: Callable[[Request], Document] = measured, effort: Effort | None = None
) -> WorldComparison:
    chosen = effort or study.full
    return WorldComparison(
        study,
        {
            "sim": _analysis(study, study.full, tmp_path / "full", simulated),
            "kernel": _analysis(study, chosen, tmp_path / "full-kernel", kernel),
        },
    )


def _printed(comparison: WorldComparison) -> str:
    output = io.StringIO()
    print_all(comparison, Console(file=output, width=80))
    return output.getvalue()


def test_every_cell_has_published_simulated_and_kernel(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path)
    assert comparison.columns == ["published", "sim", "kernel"]
    assert comparison.pairs == [("sim", "published"), ("kernel", "published"), ("kernel", "sim")]
    assert len(comparison.cells) == 8
    cell = next(c for c in comparison.cells if c.published == 11.0)
    # 20 Mbit/s: 10 simulated, 6 on the kernel, 11 published; deviations are shares of the 20.
    assert [cell.value(column) for column in comparison.columns] == pytest.approx([11.0, 10.0, 6.0])
    assert [cell.deviation(*pair) for pair in comparison.pairs] == pytest.approx([-0.05, -0.25, -0.2])
    unpublished = next(c for c in comparison.cells if c.published is None)
    assert [unpublished.deviation(*pair) is None for pair in comparison.pairs] == [True, True, False]


def test_deviations_are_grouped_by_control(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path)
    assert list(comparison.groups) == ["reno", "cubic", "All"]
    found = comparison.distance(comparison.groups["All"], "sim", "published")
    assert found is not None
    # Of 10: 5 against 5, and 4 against 4. Of 20: 10 against 11, and 8 against 8. Deviations: 0, 0, 0.05, 0.
    assert (found.values, found.points) == (4, 2)
    assert (found.median, found.largest) == pytest.approx((0.0, 0.05))
    assert found.p90 == pytest.approx(0.035)
    # 9 and 9 are equal; 18 and 19 differ by 5.3 %, which is within 6 %.
    assert found.sums_agree == 1.0
    between = comparison.distance(comparison.groups["reno"], "kernel", "sim")
    assert between is not None
    # Cells without a published value are included: 3 against 5 and 6 against 4, and twice these at twice the capacity.
    assert (between.values, between.points, between.sums_agree) == (4, 2, 1.0)
    assert (between.median, between.p90) == pytest.approx((0.2, 0.2))


def test_table_names_tables_of_the_publication(tmp_path: Path) -> None:
    published = "table,capacity,cc,flow,mbps\nA.1,10,reno,0,5\nA.1,10,reno,1,4\nA.2,20,cubic,0,11\nA.2,20,cubic,1,8\n"
    text = small_study.STUDY.replace('value_column = "mbps"', 'value_column = "mbps"\ntable_column = "table"')
    study = load(small_study.write(tmp_path / "study", study=text, published=published))
    comparison = _comparison(study, tmp_path)
    assert list(comparison.groups) == ["Table A.1", "Table A.2", "reno", "cubic", "All"]
    assert [len(cells) for cells in comparison.groups.values()] == [2, 2, 4, 4, 8]
    assert [s.group for s in comparison.analyses["sim"].summaries] == ["Table A.1", "Table A.2", "reno", "cubic"]


def test_missing_cells_are_shown_but_not_counted(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path, effort=dataclasses.replace(study.full, values={"capacity": (10, 40)}))
    assert [(c.point.values["capacity"], sorted(c.worlds)) for c in comparison.cells[::4]] == [
        (10, ["kernel", "sim"]), (20, ["sim"]), (40, ["kernel"]),
    ]  # fmt: skip
    assert len(comparison.compared) == 4
    assert {c.point.values["capacity"] for c in comparison.compared} == {10}
    text = write_all(comparison, tmp_path / "comparison").read_text()
    assert "over the 4 of 12 cells that every world has" in text
    assert "4 cells have no value simulated. 4 cells have no value of the kernel." in text
    assert "| 20 | cubic | cubic | 11 | 10.00 | all equal | – | – | -5.0 % | – | – |" in text
    assert "| 40 | reno | reno | – | – | – | 12.00 | all equal | – | – | – |" in text


def test_disjoint_worlds_have_no_deviations(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path, effort=dataclasses.replace(study.full, values={"capacity": (40,)}))
    assert comparison.groups == {}
    assert comparison.distance([], "kernel", "sim") is None
    assert "over the 0 of 12 cells" in _printed(comparison)


def test_each_world_has_an_interval(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('centre = "mean"', 'centre = "median"')
    study = load(small_study.write(tmp_path / "study", study=text))
    comparison = WorldComparison(
        study,
        {
            "sim": _analysis(study, study.full, tmp_path / "full", fake_simulator.simulate),
            "kernel": _analysis(study, dataclasses.replace(study.full, repetitions=1), tmp_path / "kernel", noisy),
        },
    )
    assert {(c.worlds["sim"].count, c.worlds["kernel"].count) for c in comparison.cells} == {(3, 1)}
    assert all(math.isnan(c.worlds["kernel"].low) for c in comparison.cells)
    report = write_all(comparison, tmp_path / "comparison").read_text()
    assert "| sim. ≥ 75 % CI | kernel Mbit/s | kernel CI |" in report
    assert "Simulated: full form, 12 runs of 12, build b1. Median with its confidence interval" in report
    assert "Kernel: full form, 4 runs of 4, build b1. Median; without a second repetition" in report
    rows = list(csv.DictReader((tmp_path / "comparison" / "cells.csv").open(encoding="utf-8")))
    assert [(r["sim_runs"], r["kernel_runs"], r["kernel_low"]) for r in rows] == [("3", "1", "NaN")] * 8


def test_missing_runs_are_reported_with_the_command(study: Study, tmp_path: Path) -> None:
    whole = _comparison(study, tmp_path)
    kernel = whole.analyses["kernel"]
    some = {record.key: record for run, record in kernel.runs if run.repetition < 3}
    comparison = WorldComparison(study, {**whole.analyses, "kernel": Analysis(study, study.full, some)})
    assert "Kernel: full form, 8 runs of 12" in _printed(comparison)
    assert "Run the missing ones: study run study --world kernel --resume." in _printed(comparison)


def test_late_runs_are_marked_but_not_counted(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path, late)
    assert {c.point.values["congestion"] for c in comparison.compared} == {"reno"}
    assert [dict(c.late) for c in comparison.cells if c.late] == [{"kernel": 3}] * 4
    assert list(comparison.groups) == ["reno", "All"]
    for text in (_printed(comparison), write_all(comparison, tmp_path / "comparison").read_text()):
        assert "† marks 4 cells with 6 runs on a machine that did not keep up" in text
        assert "6.00 †" in text
        assert text.count(" †") == 4
    rows = list(csv.DictReader((tmp_path / "comparison" / "cells.csv").open(encoding="utf-8")))
    assert sorted(r["kernel_late"] for r in rows) == ["0"] * 4 + ["3"] * 4


def test_worlds_compare_without_published_values(tmp_path: Path) -> None:
    text = (
        small_study.STUDY[: small_study.STUDY.index("[published]")]
        + small_study.STUDY[small_study.STUDY.index("[[figure]]") :]
    )
    study = load(small_study.write(tmp_path / "study", study=text))
    comparison = _comparison(study, tmp_path)
    assert comparison.columns == ["sim", "kernel"]
    # Without a capacity, the simulated value is the divisor.
    assert {round(c.deviation("kernel", "sim") or 0.0, 9) for c in comparison.cells} == {-0.4, 0.5}
    assert list(comparison.groups) == [
        "A study for tests", "Congestion control: reno", "Congestion control: cubic", "All",
    ]  # fmt: skip
    assert "published" not in write_all(comparison, tmp_path / "comparison").read_text()


def test_figures_have_both_worlds_in_each_panel(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path, late)
    canvas = drawing.draw(study.figures[0], comparison)
    assert canvas is not None
    reno, cubic = canvas.axes
    for axes in (reno, cubic):
        drawn = {(str(line.get_marker()), tuple(np.asarray(line.get_ydata()))) for line in axes.lines}
        assert {("o", (5.0, 10.0)), ("o", (4.0, 8.0)), ("x", (3.0, 6.0)), ("x", (6.0, 12.0))} <= drawn
    # A late point is pale, and no line passes through it.
    assert {line.get_alpha() for line in reno.lines if line.get_marker() == "x"} == {None}
    pale = [line for line in cubic.lines if line.get_marker() == "x"]
    assert [(line.get_alpha(), line.get_linestyle()) for line in pale] == [(0.35, "None")] * 2
    (legend,) = canvas.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [
        "F0",
        "reno",
        "simulated",
        "kernel",
        "machine did not keep up",
        "published: Author 2000",
        "Capacity",
    ]


def test_bars_become_marks_and_other_kinds_are_omitted(study: Study, tmp_path: Path) -> None:
    comparison = _comparison(study, tmp_path)
    bars = dataclasses.replace(study.figures[0], kind=KINDS["bar"])
    canvas = drawing.draw(bars, comparison)
    assert canvas is not None
    (line, *_) = [line for line in canvas.axes[0].lines if line.get_marker() == "o"]
    assert line.get_linestyle() == "None"
    for kind in ("box", "cdf", "heat", "windows"):
        assert drawing.draw(dataclasses.replace(bars, kind=KINDS[kind]), comparison) is None
    assert drawing.draw(dataclasses.replace(bars, where={"capacity": [1]}), comparison) is None


def test_command_finds_both_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_study.write(tmp_path / "mine")
    assert anabranch("study", "run", "mine", "--quick", "--jobs", "1").returncode == 0
    both = ("study", "report", "mine", "--quick", "--world", "kernel, sim")
    done = anabranch(*both)
    assert done.returncode == 2
    assert (
        'results/mine/quick-kernel: holds no runs yet; start with "anabranch study run mine --quick --world kernel"'
        in done.stderr
    )
    shutil.copytree("results/mine/quick", "results/mine/quick-kernel")
    done = anabranch(*both)
    assert done.returncode == 0, done.stderr
    assert "Kernel: quick form, 4 runs of 4, duration = 5 s" in done.stdout
    assert "results/mine/quick-sim-kernel/report.md" in done.stdout
    folder = tmp_path / "results" / "mine" / "quick-sim-kernel"
    assert matplotlib.image.imread(folder / "figures" / "goodput.png").std() > 0.05
    assert "![goodput](figures/goodput.png)" in (folder / "report.md").read_text()


@pytest.mark.parametrize(("worlds", "says"), [("moon", "'moon' is not one of 'sim', 'user', 'kernel'"), ("sim,", "''")])
def test_unknown_world_is_refused(worlds: str, says: str) -> None:
    done = anabranch("study", "report", "worlds", "--world", worlds)
    assert done.returncode == 2
    assert says in done.stderr
