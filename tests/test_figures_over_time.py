"""Goodput, round-trip times and queues over time: values by hand, and figures of studies and of single runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pytest

import anabranch
import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.plot import queues, rates
from anabranch.plot.over_time import TracedRun
from anabranch.report.write import draw_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan, request_of
from anabranch.study.store import read
from anabranch.traces import Traces

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure as Canvas

    from anabranch._core.document import Document
    from anabranch.sweep import Point

FIGURE = """
[[figure]]
name = "over-time"
title = "Over time"
kind = "{kind}"
where = {{ capacity = 10 }}
columns = "congestion"
window = [2.0, 12.0]
{more}
"""
RED = 'queue = { kind = "red", limit = "50 packets", min = "5 packets", max = "20 packets" }'
SCENARIO = (
    small_study.SCENARIO.replace('"20 s"', '"3 s"')
    .replace('"2 s"', '"1 s"')
    .replace('queue = { kind = "fifo", limit = "50 packets" }', RED)
)


def write_traces(folder: Path) -> Traces:
    """Reads of two flows and round-trip times of two paths, by hand."""
    folder.mkdir()
    rows = ["0.1,F0,forward,read,0,125000", "0.9,F0,forward,read,0,125000", "1.5,F0,forward,read,0,50000",
            "1.5,F0,forward,write,0,9999999", "1.5,F0,reverse,read,0,9999999",
            "1.6,F1,forward,read,0,75000"]  # fmt: skip
    head = "time_s,flow,direction,event,offset_bytes,length_bytes"
    (folder / "transfers.csv").write_text("\n".join([head, *rows]))
    rows = ["0.2,F0,A,1,1,40000,1", "0.4,F0,A,1,1,60000,1", "2.5,F0,A,1,1,20000,1", "1.2,F1,B,1,1,30000,1"]
    head = "time_s,flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes"
    (folder / "paths.csv").write_text("\n".join([head, *rows]))
    rows = ["0.1,F0,A,0,250000,new-data", "0.2,F0,B,0,250000,new-data", "0.3,F0,B,0,250000,reinjection",
            "0.4,F0,,0,0,congestion-window"]  # fmt: skip
    (folder / "decisions.csv").write_text("\n".join(["time_s,flow,path,offset_bytes,length_bytes,reason", *rows]))
    return Traces(folder)


def test_goodput_of_intervals_is_that_by_hand(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "traces")
    found = rates.curves("goodput", traces, [], rates.edges_of((0.0, 2.0), 1.0))
    assert {name: list(values) for name, values in found.items()} == {
        ("F0", ""): pytest.approx([2.0, 0.4]),
        ("F0", "A"): pytest.approx([2.0, 0.0]),
        ("F0", "B"): pytest.approx([2.0, 0.0]),
        ("F1", ""): pytest.approx([0.0, 0.6]),
        ("", ""): pytest.approx([2.0, 1.0]),
    }
    assert list(rates.curves("goodput", traces, ["F1"], rates.edges_of((0.0, 2.0), 1.0))) == [("F1", "")]


def test_round_trip_time_holds_until_its_next_sample(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "traces")
    found = rates.curves("rtt", traces, [], rates.edges_of((0.0, 3.0), 1.0))
    assert list(found["F0", "A"]) == pytest.approx([50.0, 60.0, 20.0])
    assert list(found["F1", "B"]) == pytest.approx([np.nan, 30.0, 30.0], nan_ok=True)


def test_run_without_reads_has_no_goodput_over_time(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "traces")
    (tmp_path / "traces" / "transfers.csv").unlink()
    with pytest.raises(InputError, match="only the simulator writes it"):
        rates.curves("goodput", traces, [], rates.edges_of((0.0, 2.0), 1.0))


def drawn(folder: Path, kind: str, more: str = "", *, has_transfers: bool = True) -> Canvas:
    study = load(small_study.write(folder / "study", study=small_study.STUDY + FIGURE.format(kind=kind, more=more)))
    small_study.execute_quietly(study, folder / "results", fake_simulator.simulate)
    figure = study.figures[-1]
    with read(folder / "results") as store:
        analysis = Analysis(study, study.full, store.records)

        def traced(point: Point, repetition: int) -> TracedRun:
            run = [run for run, _ in analysis.runs if run.point.key == point.key][repetition]
            traces = folder / "traces" / f"{run.seed}"
            request = request_of(study, run)
            fake_simulator._write_traces(traces, random.Random(request.seed))
            if not has_transfers:
                (traces / "transfers.csv").unlink()
            red = {"name": "bottleneck", "queue": {"min": "5 packets", "max": "20 packets"}}
            return TracedRun(Traces(traces), cast("Document", {"scenario": {"link": [red]}}))

        canvas = figure.kind.draw(figure, analysis, traced)
    assert canvas is not None
    assert canvas.get_suptitle() == "Over time"
    assert len(canvas.axes) == 2
    return canvas


def test_study_draws_goodput_per_interval(tmp_path: Path) -> None:
    axes = drawn(tmp_path, "time").axes[0]
    heights = sorted({round(float(np.median(np.asarray(line.get_ydata())))) for line in axes.lines})
    assert heights == [2, 5, 10, 15]  # paths, the two flows, and their sum
    assert len(np.asarray(axes.lines[0].get_xdata())) == 10
    assert not axes.collections


def test_column_without_data_states_the_reason(tmp_path: Path) -> None:
    axes = drawn(tmp_path, "time", has_transfers=False).axes[0]
    assert not axes.lines
    assert "no goodput over time" in axes.get_title().replace("\n", " ")


def test_study_draws_the_mean_of_all_runs_with_a_band(tmp_path: Path) -> None:
    axes = drawn(tmp_path, "time", 'repetitions = "all"\ninterval = 0.5\nsubjects = ["F0"]').axes[0]
    assert len(axes.collections) == len(axes.lines) == 3
    assert len(np.asarray(axes.lines[0].get_xdata())) == 20


def test_study_draws_round_trips(tmp_path: Path) -> None:
    canvas = drawn(tmp_path, "time", 'quantity = "rtt"')
    assert canvas.axes[0].get_ylabel() == "Round-trip time [ms]"
    assert {tuple(np.asarray(line.get_ydata())) for line in canvas.axes[0].lines} == {(20.0,) * 10}


def test_study_draws_queues_with_thresholds(tmp_path: Path) -> None:
    canvas = drawn(tmp_path, "queues")
    heights = [np.asarray(line.get_ydata()) for line in canvas.axes[0].lines]
    assert max(heights[0]) == 39
    assert [float(h[0]) for h in heights[1:]] == [5.0, 20.0]
    labels = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert labels == ["bottleneck/forward", "smaller threshold of RED", "larger threshold of RED"]


def test_report_has_figures_over_time(tmp_path: Path) -> None:
    text = small_study.STUDY + FIGURE.format(kind="time", more='repetitions = "all"')
    study = load(small_study.write(tmp_path / "study", study=text))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1", 1)
    small_study.execute_quietly(study, plan.folder, plan.backend)
    with read(plan.folder) as store:
        drawn = draw_all(Analysis(study, study.full, store.records), plan)
    assert "over-time" in drawn
    assert sorted(f.name for f in (plan.folder / "traces").iterdir()) == [f"over-time-{n}" for n in range(1, 7)]


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("time", 'quantity = "speed"', '"quantity" cannot be "speed"'),
        ("time", "interval = 0.05", "a number of seconds from 0.1 to 1, not 0.05"),
        ("time", 'repetitions = "most"', '"repetitions" cannot be "most"'),
        ("time", 'subjects = ["F7"]', '"subjects" has to name a flow, not "F7"'),
        ("queues", 'subjects = ["F0"]', '"subjects" has to name LINK/DIRECTION, not "F0"'),
        ("queues", "interval = 0.5", '"interval" belongs to figures of kind time, not "queues"'),
    ],
)
def test_wrong_figure_over_time_is_refused(tmp_path: Path, kind: str, more: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(small_study.write(tmp_path / "study", study=small_study.STUDY + FIGURE.format(kind=kind, more=more)))
    assert message in str(caught.value)
    assert "study.toml:" in str(caught.value)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> anabranch.Result:
    folder = tmp_path_factory.mktemp("traces")
    return anabranch.run(anabranch.Scenario.from_toml(SCENARIO), seed=1, trace=folder)


def test_goodput_over_time_adds_up_to_that_of_the_run(result: anabranch.Result) -> None:
    found = rates.curves("goodput", result.traces, [], rates.edges_of((1.0, 3.0), 0.5))
    for flow in result.document["flows"]:
        # Out-of-order data counts for the run before the application reads it.
        buffered = flow["reordering_buffer_bytes"]
        assert buffered is not None
        slack = buffered["max"] * 8e-6 / 2.0
        assert float(found[flow["name"], ""].mean()) == pytest.approx(flow["goodput_bps"] * 1e-6, abs=slack)


@pytest.mark.parametrize("kind", ["goodput", "rtt", "queues"])
def test_run_is_drawn_over_time(
    result: anabranch.Result, tmp_path: Path, kind: Literal["goodput", "rtt", "queues"]
) -> None:
    figure = result.plot(tmp_path / "run.png", kind=kind)
    assert (tmp_path / "run.png").stat().st_size > 5000
    assert len(figure.axes[0].lines) >= 2
    heights = [float(np.nanmax(np.asarray(line.get_ydata(), dtype=float))) for line in figure.axes[0].lines]
    if kind == "queues":
        assert heights[-2:] != heights[:2]
        assert {5.0, 20.0} <= set(heights)
    assert min(heights) > 0.0


def test_thresholds_of_both_directions_are_found() -> None:
    forward: dict[str, Any] = {"kind": "red", "min": "5 packets", "max": "20 packets"}
    link = {"name": "l", "queue": forward, "reverse": {"queue": {"kind": "fifo", "limit": "9 packets"}}}
    assert queues.thresholds({"link": [link]}) == {"l/forward": (5, 20)}
    assert queues.thresholds({"link": [{**link, "reverse": {}}]}) == {"l/forward": (5, 20), "l/reverse": (5, 20)}
