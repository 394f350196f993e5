"""Tables at a terminal and in pipes: a number is shown completely, or a note names the omitted column."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

import anabranch
from anabranch import limits
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import print_result

if TYPE_CHECKING:
    from pathlib import Path

PATHS = """
title = "Two paths"
duration = "5 s"

[[link]]
name = "a-link-with-a-long-name"
between = ["S", "D"]
rate = "20 Mbit/s"
delay = "10 ms"

[[link]]
name = "another-link-with-a-long-name"
between = ["S", "D"]
rate = "1 Gbit/s"
delay = "200 ms"

[[flow]]
name = "multipath"
from = "S"
to = "D"
protocol = "mptcp"
congestion = "olia"
paths = "fullmesh"

[[flow]]
name = "single"
from = "D"
to = "S"
protocol = "tcp"
"""


def shown(result: anabranch.Result, width: int, *, terminal: bool) -> str:
    output = io.StringIO()
    print_result(result, Console(file=output, width=width, force_terminal=terminal, no_color=True))
    return Text.from_ansi(output.getvalue()).plain


@pytest.fixture(scope="module")
def result() -> anabranch.Result:
    return anabranch.run(anabranch.Scenario.from_toml(PATHS), seed=1)


def test_pipe_gets_every_number_whole(result: anabranch.Result) -> None:
    text = shown(result, 80, terminal=False)
    for flow in result.document["flows"]:
        assert flow["delivery_delay_s"] is not None
        assert f" {flow['delivery_delay_s']['p95'] * 1e3:.1f} " in text
        assert f" {flow['throughput_bps'] / 1e6:.3f} " in text
        for path in flow["paths"]:
            assert f" {path['goodput_bps'] / 1e6:.3f} " in text
    assert "No room" not in text
    assert "a-link-with-a-long-name" in text


def test_narrow_terminal_names_omitted_columns(result: anabranch.Result) -> None:
    text = shown(result, 80, terminal=True)
    assert max(len(line) for line in text.splitlines()) <= 80
    note = " ".join(text[text.index("No room here for: ") :].partition(".\n")[0].split())
    assert "Delay p95 ms, Limited app s" in note or "Delay p95 ms, Limited cwnd s" in note
    assert "Window" not in shown(result, 92, terminal=True).partition("No room")[2].partition("\n")[0]
    assert any(line.strip() == "a-link-with-a-long-name" or line.split()[:1] == ["a-link-with-a-long-name"]
               for line in text.splitlines())  # fmt: skip


def test_piped_line_does_not_end_in_blanks(result: anabranch.Result) -> None:
    assert not [line for line in shown(result, 80, terminal=False).splitlines() if line != line.rstrip()]


def test_reinjections_have_a_column_and_a_sentence(result: anabranch.Result) -> None:
    assert "Reinj." not in shown(result, 200, terminal=False)
    document = copy.deepcopy(result.document)
    paths = document["flows"][0]["paths"]
    paths[0]["data_packets"], paths[0]["reinjections"] = 1000, 51
    paths[1]["data_packets"], paths[1]["reinjections"] = 1000, 50
    text = shown(anabranch.Result(document), 200, terminal=False)
    assert " Reinj. " in text
    (row,) = [line for line in text.splitlines() if line.strip().startswith("multipath")]
    assert " 101 " in row
    sentences = [line for line in text.splitlines() if "reinjections" in line]
    assert sentences == [
        f'51 of 1,000 data packets on path "{paths[0]["name"]}" of "multipath" (5 %) were reinjections: copies of data '
        "that another path had carried."
    ]


def test_goodput_above_arrivals_is_marked(result: anabranch.Result) -> None:
    assert result.remarks == []
    document = copy.deepcopy(result.document)
    flow = document["flows"][0]
    flow["paths"][0]["goodput_bps"], flow["paths"][1]["goodput_bps"], flow["goodput_bps"] = 20e6, 10e6, 31.5e6
    text = shown(anabranch.Result(document), 200, terminal=False)
    assert " 31.500* " in text
    assert '* 1.500 Mbit/s of the goodput of "multipath" arrived before measuring began at ' in text
    assert "its paths carried 30.000 Mbit/s" in text


def test_wide_terminal_shows_all_columns(result: anabranch.Result) -> None:
    assert "No room" not in shown(result, 160, terminal=True)


@given(
    st.lists(st.tuples(st.text("abc> ", max_size=40), *[st.floats(0, 1e9)] * 4), min_size=1, max_size=5),
    st.integers(10, 120),
    st.booleans(),
)
def test_tables_show_numbers_completely(
    rows: list[tuple[str, float, float, float, float]], width: int, terminal: bool
) -> None:
    sheet = Sheet([Column("name", words=True), *(Column(f"c{i}", spare=i) for i in range(4))])
    for name, *numbers in rows:
        sheet.add(name, *(f"{n:.3f}" for n in numbers))
    output = io.StringIO()
    sheet.print(Console(file=output, width=width, force_terminal=terminal, no_color=True))
    text = " ".join(Text.from_ansi(output.getvalue()).plain.split())
    table, _, note = text.partition("No room here for:")
    words = table.split()
    for i in range(4):
        said = f"c{i}" in note.replace(".", ",").replace(",", " ").split()
        assert said != (f"c{i}" in words)
        assert said or all(f"{row[1 + i]:.3f}" in words for row in rows)


@given(
    st.lists(st.tuples(*[st.text("ab .1日\n", max_size=9)] * 3), max_size=4),
    st.text("ab ", min_size=1, max_size=30).filter(lambda title: not title.isspace()),
)
def test_tables_in_pipes_look_as_on_a_terminal(rows: list[tuple[str, str, str]], title: str) -> None:
    sheet = Sheet([Column("name", words=True), Column("a\nMbit/s"), Column("text", words=True)], title)
    for row in rows:
        sheet.add(*row)
    piped, shown = io.StringIO(), io.StringIO()
    sheet.print(Console(file=piped, width=200))
    sheet.print(Console(file=shown, width=200, force_terminal=True, color_system=None))
    assert piped.getvalue() == "\n".join(line.rstrip() for line in shown.getvalue().split("\n"))


def test_square_brackets_are_printed() -> None:
    output = io.StringIO()
    sheet = Sheet([Column("name", words=True)])
    sheet.add("[red]x[/red]")
    sheet.print(Console(file=output, width=80))
    assert "[red]x[/red]" in output.getvalue()


def test_times_by_cause_have_columns(result: anabranch.Result) -> None:
    text = shown(result, 200, terminal=False)
    flow = result.document["flows"][0]
    causes = limits.shown(result.document)
    assert "congestion-avoidance" in causes
    (row,) = [line for line in text.splitlines() if line.split()[:1] == [flow["name"]]]
    assert [float(cell) for cell in row.split()[-len(causes) :]] == [
        round(flow["limited_s"][c] or 0.0, 1) for c in causes
    ]
    for cause in causes:
        assert f"{limits.CAUSES[cause].split()[-1]} s" in text or limits.CAUSES[cause] in text


def test_figure_shows_each_path_by_cause(result: anabranch.Result, tmp_path: Path) -> None:
    result.plot(tmp_path / "limits.svg", kind="limits")
    text = (tmp_path / "limits.svg").read_text(encoding="utf-8")
    rows = list(limits.rows(result.document))
    assert all(f">{row.path or row.flow}<" in text for row in rows)
    assert "congestion-avoidance" in text
    for row in rows:
        assert sum(time or 0.0 for time in row.times.values()) > 0.0


def test_aggregate_has_the_possible_rate(result: anabranch.Result) -> None:
    text = shown(result, 200, terminal=False)
    together = sum(flow["goodput_bps"] for flow in result.document["flows"])
    assert f"Together: {together / 1e6:.3f} of 1040.0 Mbit/s possible." in text
    (row,) = [line for line in text.splitlines() if line.strip().startswith("multipath")]
    assert " 1020.0 " in row


def test_answers_and_reverse_data_have_columns(result: anabranch.Result) -> None:
    assert "Answers" not in shown(result, 200, terminal=False)
    asks = PATHS + 'workload = { kind = "request-response", response = "10 kB", count = 3 }\n'
    run = anabranch.run(anabranch.Scenario.from_toml(asks), seed=1)
    text = shown(run, 200, terminal=False)
    flow = run.document["flows"][-1]
    assert flow["answers"] == 3
    for number in (f"{flow['response_time_s']['p95'] * 1e3:.1f}", f"{flow['reverse_goodput_bps'] / 1e6:.3f}"):
        assert f" {number} " in text
    assert "Answers" in text


@pytest.mark.parametrize("most", ["0.9", '"60 packets"', "0.5", '"50 packets"'])
def test_queue_limit_below_red_threshold_has_a_remark(most: str) -> None:
    queue = '{ kind = "red", limit = "100 packets", min = 0.1, gentle = true, max = ' + most + " }"
    scenario = anabranch.Scenario.from_toml(PATHS).with_settings(
        (f"link.a-link-with-a-long-name.queue={queue}", "duration=0.1 s")
    )
    cut_off = [line for line in anabranch.run(scenario).remarks if "cuts gentle RED off" in line]
    assert len(cut_off) == ("5" not in most)
