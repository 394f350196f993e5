"""A run over time: traces as frames, their plot, and a scenario from standard input."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal

import matplotlib.image
import numpy as np
import polars as pl
import pytest

import anabranch
import small_study
from command import anabranch as command

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = small_study.SCENARIO.replace('"20 s"', '"3 s"').replace('"2 s"', '"1 s"')


@pytest.fixture
def result(tmp_path: Path) -> anabranch.Result:
    return anabranch.run(anabranch.Scenario.from_toml(SCENARIO), seed=1, trace=tmp_path / "traces")


def test_traces_are_frames(result: anabranch.Result) -> None:
    traces = result.traces
    for frame in (traces.paths, traces.buffers, traces.queues):
        assert frame["time_s"].is_sorted()
        assert frame["time_s"].max() <= 3.0  # type: ignore[operator]
    paths = traces.paths.filter(pl.col("flow") == "F0")
    assert paths["cwnd_bytes"].max() >= result.paths.row(0, named=True)["cwnd_max_bytes"]
    assert traces.queues["link"].unique().to_list() == ["bottleneck"]
    assert traces.decisions.height == 0


def test_run_without_traces_names_the_option() -> None:
    result = anabranch.run(anabranch.Scenario.from_toml(SCENARIO))
    with pytest.raises(anabranch.InputError, match='run it with trace="FOLDER"'):
        result.plot()


def test_missing_traces_are_reported(result: anabranch.Result) -> None:
    (result.traces.folder / "paths.csv").unlink()
    with pytest.raises(anabranch.InputError, match="cannot be read: No such file"):
        _ = result.traces.paths


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_plot_is_written(result: anabranch.Result, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"run.{kind}"
    figure = result.plot(file, flows=["F0"], window=(0.5, 2.5), width="column")
    assert file.stat().st_size > 5000
    assert figure.get_figwidth() >= 3.5
    assert figure.axes[0].get_xlim() == (0.5, 2.5)
    assert len(figure.axes[1].lines) == 1
    assert figure.axes[0].get_title() == "Two flows"


def test_window_of_whole_numbers_is_drawn(result: anabranch.Result) -> None:
    assert result.plot(window=(1, 2)).axes[0].get_xlim() == (1.0, 2.0)


@pytest.mark.parametrize("kind", ["windows", "sequences"])
def test_window_ends_with_the_run(result: anabranch.Result, kind: Literal["windows", "sequences"]) -> None:
    figure = result.plot(kind=kind, window=(2.0, 100.0))
    lines = [line for axes in figure.axes for line in axes.lines]
    assert max((float(np.max(line.get_xdata(), initial=0.0)) for line in lines), default=0.0) <= 3.0


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((3.0, 4.0), "the window begins at 3 s, but the run ends at 3 s"),
        ((2.0, 1.0), "end after that"),
        ((-1.0, 1.0), "begin at 0 s or later"),
        ((1.0, float("nan")), "two times in seconds"),
        ((1.0,), "two times in seconds"),
    ],
)
def test_wrong_window_is_reported(result: anabranch.Result, window: Any, message: str) -> None:
    with pytest.raises(anabranch.InputError, match=message):
        result.plot(window=window)


def test_plot_options_need_a_file(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    for options in (["--plot-window", "1", "2"], ["--plot-kind", "windows"]):
        done = command("run", str(tmp_path / "scenario.toml"), *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "need --plot FILE" in done.stderr


def test_window_beyond_the_run_is_refused_before_it(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    plot = str(tmp_path / "run.png")
    done = command("run", str(tmp_path / "scenario.toml"), "--plot", plot, "--plot-window", "100", "200")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the window begins at 100 s, but the run ends at 3 s" in done.stderr


def test_plot_shows_data_sequence_by_path(tmp_path: Path) -> None:
    text = SCENARIO.replace('protocol = "tcp"', 'protocol = "mptcp"\npaths = "ndiffports:2"')
    assert text != SCENARIO
    result = anabranch.run(anabranch.Scenario.from_toml(text), seed=1, trace=tmp_path / "traces")
    figure = result.plot(tmp_path / "run.png", kind="sequences", window=(1.0, 2.0))
    given = result.traces.decisions.drop_nulls("path").filter(pl.col("time_s").is_between(1.0, 2.0))
    assert given.height > 100
    marks = [len(np.asarray(line.get_xdata())) for axes in figure.axes for line in axes.lines[:-1]]
    assert sum(marks) == given.height
    assert len(figure.axes) == given["flow"].n_unique()
    drawn = [text.get_text() for text in figure.legends[0].get_texts()]
    assert drawn[-2:] == ["repeated", "read"]


def test_plot_of_unknown_data_is_refused(result: anabranch.Result, tmp_path: Path) -> None:
    with pytest.raises(anabranch.InputError, match='there is no flow "F2" in this run'):
        result.plot(flows=["F2"])
    with pytest.raises(anabranch.InputError, match=r"must end in \.png, \.svg or \.pdf"):
        result.plot(tmp_path / "run.jpg")
    with pytest.raises(anabranch.InputError, match="cannot be written: No such file"):
        result.plot(tmp_path / "nowhere" / "run.png")


def test_command_line_writes_a_plot(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    done = command("run", str(tmp_path / "scenario.toml"), "--plot", str(tmp_path / "run.png"))
    assert done.returncode == 0, done.stderr
    assert matplotlib.image.imread(tmp_path / "run.png").std() > 0.05
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.png", "scenario.toml"]
    for window in (("2", "1"), ("nan", "2"), ("1", "nan"), ("1", "inf")):
        said = command(
            "run", str(tmp_path / "scenario.toml"), "--plot", str(tmp_path / "run.png"), "--plot-window", *window
        )
        assert (said.returncode, said.stderr.count("\n")) == (2, 1), said.stderr
    done = command("run", str(tmp_path / "scenario.toml"), "--plot", str(tmp_path / "run.jpg"))
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (SCENARIO.encode(), 0, "Two flows"),
        (SCENARIO.replace("Mbit/s", "Mbps").encode(), 2, "anabranch: standard input:8: rate of link"),
        (b"\xff\xfe", 2, "anabranch: standard input: is not text in UTF-8"),
    ],
)
def test_scenario_is_read_from_standard_input(content: bytes, status: int, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anabranch", "run", "-"], input=content, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == status
    assert says in (done.stdout + done.stderr).decode()


def test_examples_are_in_the_package() -> None:
    names = [line.split()[0] for line in command("examples").stdout.splitlines()]
    assert "two-flows" in names
    anabranch.Scenario.from_file(command("examples", "cellular-trace").stdout.strip())
    done = command("examples", "two-flow")
    assert done.returncode == 2
    assert 'did you mean "two-flows"?' in done.stderr


def test_manual_page_has_every_command() -> None:
    page = command("man").stdout
    for name in ("run", "study run", "study list", "study report", "list", "schema", "bench", "examples", "man"):
        assert f".SS anabranch {name} " in page
    assert r".B \-\-plot FILE" in page
