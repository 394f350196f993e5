"""Titles, names and values are text in figures, at the terminal and in Markdown, with any characters."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.console import Console

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.plot.style import SETTINGS, legend
from anabranch.report.markdown import table
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import print_points
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("title", ["from $5_ to $6_", "Delay [ms] of [/x]", "a | b", "a\\nb"])
def test_titles_are_not_markup_in_any_output(tmp_path: Path, title: str) -> None:
    text = small_study.STUDY
    for old in ("A pair of flows", "Goodput of two flows", "A study for tests"):
        text = text.replace(old, title)
    text = text.replace('label = "Capacity"', f'label = "{title}"').replace('F1 = "reno"', f'F1 = "{title}"')
    study, results = load(small_study.write(tmp_path / "study", study=text)), tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    with read(results) as store:
        analysis = Analysis(study, study.full, store.records)
        report = write_all(analysis, Plan(study, study.full, results, fake_simulator.simulate, "b1")).read_text()
        output = StringIO()
        print_points(analysis, Console(file=output, width=400))
    assert all(line in output.getvalue() for line in study.title.split("\n"))
    assert report.startswith(f"# {study.title.replace(chr(10), ' ')}\n")
    assert (results / "figures" / "goodput.svg").is_file()
    rows = [line for line in report.splitlines() if line.startswith("| 10 |")]
    assert len(rows) == 4
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_markdown_cells_escape_separators() -> None:
    assert table(["a|b", "c\nd"], [["x|y", "z\n2"]]).splitlines() == [
        r"| a\|b | c d |", "|---|---|", r"| x\|y | z 2 |",
    ]  # fmt: skip


def test_title_of_a_table_is_not_markup() -> None:
    output = StringIO()
    sheet = Sheet([Column("a long heading that has room")], "Losses [/s] [red]")
    sheet.add("1")
    sheet.print(Console(file=output))
    assert "Losses [/s] [red]" in output.getvalue()


def test_long_legend_leaves_the_panel_visible() -> None:
    with mpl.rc_context(cast("Any", SETTINGS)):
        figure = Figure(figsize=(3.5, 3.0), layout="constrained")
        axes = figure.subplots()
        handles = [Line2D([], [], label=f"a flow with a long name, number {i} " + "x" * 60) for i in range(40)]
        legend(figure, handles, 5)
        figure.draw_without_rendering()
        inches = axes.get_window_extent().height / figure.dpi
    assert inches > 1.0


@pytest.mark.parametrize(("where", "is_refused"), [("", True), ("\nwhere = { capacity = 20 }", False)])
def test_logarithmic_axis_refuses_values_up_to_0(tmp_path: Path, where: str, is_refused: bool) -> None:
    text = small_study.STUDY.replace("values = [10, 20]", "values = [0, 10, 20]")
    text = text.replace('x = "capacity"', f'x = "capacity"\nlog_x = true{where}')
    text = text.replace('relative_to = "capacity"\n', "")
    folder = small_study.write(tmp_path / "study", study=text)
    if not is_refused:
        load(folder)
        return
    with pytest.raises(InputError, match=r'study\.toml:\d+: "capacity" is 0 at a point, which a logarithmic axis'):
        load(folder)
