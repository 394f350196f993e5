"""The study engine against a double of the simulator: workers, interruptions, resuming, changed studies."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import fake_simulator
import small_study
from anabranch.errors import InputError, RunFailed
from anabranch.report.write import write_all
from anabranch.study import engine
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute
from anabranch.study.local import Limits, LocalPool
from anabranch.study.store import FILE, read
from anabranch.study.worker import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch._core.simulator import Request
    from anabranch.study.engine import Progress
    from anabranch.study.model import Run
    from anabranch.study.worker import Backend

HERE = Path(__file__).parent

PROGRAM = """
import sys
from pathlib import Path
import fake_simulator, small_study
from anabranch.study.definition import load

if __name__ == "__main__":
    study = load(Path(sys.argv[1]))
    jobs = int(sys.argv[3])
    outcome = small_study.execute_quietly(study, Path(sys.argv[2]), fake_simulator.slow, jobs=jobs, resume=True)
    print(outcome.reused, outcome.finished, outcome.interrupted)
"""


def analyse(folder: Path, results: Path) -> Analysis:
    study = load(folder)
    with read(results) as store:
        return Analysis(study, study.full, store.records)


def start(folder: Path, results: Path, marks: Path, seconds: str = "0.1", jobs: int = 2) -> subprocess.Popen[str]:
    """Run the study in a separate process that the test can kill; every started run writes a marker file."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        "FAKE_MARKS": str(marks),
        "FAKE_SECONDS": seconds,
    }
    script = folder / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(script), str(folder), str(results), str(jobs)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished_lines(results: Path) -> int:
    file = results / FILE
    return max(0, file.read_bytes().count(b"\n") - 1) if file.is_file() else 0


def wait_for(results: Path, runs: int) -> None:
    wait_until(lambda: finished_lines(results) >= runs)


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300.0
    while not happened():
        assert time.monotonic() < deadline, "the study does not get on"
        time.sleep(0.01)


def children(process: subprocess.Popen[str]) -> list[int]:
    """The live child processes of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            # State and parent follow the name, which may contain any characters.
            _, state, parent = f"{entry.name} {(entry / 'stat').read_text().rpartition(')')[2]}".split()[:3]
            if int(parent) == process.pid and state != "Z":
                found.append(int(entry.name))
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait until its children have ended without a signal from the test."""
    workers = children(process)
    assert workers
    process.kill()
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_study_runs_and_reports_all_points(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    study = load(folder)
    outcome = small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate, jobs=2)
    assert (outcome.total, outcome.finished, outcome.reused) == (12, 12, 0)
    analysis = analyse(folder, tmp_path / "results")
    assert (len(analysis.runs), analysis.missing, analysis.stale) == (12, 0, 0)


def test_worker_count_does_not_change_the_report(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    study = load(folder)
    tables = []
    for jobs in (1, 8):
        results = tmp_path / f"results{jobs}"
        small_study.execute_quietly(study, results, fake_simulator.simulate, jobs=jobs)
        write_all(analyse(folder, results), Plan(study, study.full, results, fake_simulator.simulate, "b1"))
        tables.append([(results / name).read_bytes() for name in ("runs.parquet", "links.parquet", "points.csv")])
    assert tables[0] == tables[1]


def test_rows_are_runs_times_flows_times_paths(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    study = load(folder)
    results = tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    write_all(analyse(folder, results), Plan(study, study.full, results, fake_simulator.simulate, "b1"))
    frame = pl.read_parquet(results / "runs.parquet")
    assert frame.height == 12 * 2 * 2
    assert {"experiment", "capacity", "congestion", "repetition", "seed", "digest", "build", "flow_name",
            "flow_goodput_bps", "path_name", "path_srtt_mean_s"} <= set(frame.columns)  # fmt: skip


def test_killed_study_resumes_without_loss(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks)
    wait_for(results, 3)
    kill(process)
    saved = finished_lines(results)
    assert 3 <= saved < 12
    marks.write_text("")
    output, _ = start(folder, results, marks).communicate(timeout=300)
    assert output.split() == [str(saved), str(12 - saved), "False"]
    begun = marks.read_text().split()
    assert len(begun) == len(set(begun)) == 12 - saved
    whole = tmp_path / "whole"
    small_study.execute_quietly(load(folder), whole, fake_simulator.simulate)
    documents = [[r.document for _, r in analyse(folder, where).runs] for where in (results, whole)]
    assert documents[0] == documents[1]


class Hesitating:
    """A pool whose second run ends long after the first one."""

    capacity = 2

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock
        self._waiting: dict[int, Request] = {}
        self._turns = itertools.count()

    def submit(self, ticket: int, request: Request) -> None:
        self._waiting[ticket] = request

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        self._clock[0] += timeout_s
        if 0 < next(self._turns) < 10:
            return []
        ticket = next(iter(self._waiting))
        return [(ticket, Outcome(fake_simulator.simulate(self._waiting.pop(ticket))))]

    def kill(self) -> None: ...

    def close(self) -> None: ...


def test_ended_run_is_on_disk_while_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    saved: list[float] = []
    flushed: list[tuple[float, int]] = []
    results = tmp_path / "results"
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append((clock[0], finished_lines(results))))
    monkeypatch.setattr(engine, "_pool", lambda plan, jobs: Hesitating(clock))

    class Watching(Silent):
        def advance(self, progress: Progress) -> None:
            saved.append(clock[0])

    study = load(small_study.write(tmp_path / "study"))
    execute(Plan(study, study.full, results, fake_simulator.simulate, "b1"), Watching(), resume=False)
    first = next(at for at, runs in flushed if runs >= 1)
    assert first - saved[0] <= 0.8 < saved[1] - saved[0]
    assert flushed[-1][1] == 12


def test_workers_do_not_outlive_a_killed_study(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks)
    wait_for(results, 1)
    kill(process)
    assert len(marks.read_text().split()) < 12


def test_interrupt_lets_begun_runs_finish(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks, "0.2")
    wait_for(results, 1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    reused, finished, interrupted = output.split()
    assert (reused, interrupted) == ("0", "True")
    assert int(finished) == finished_lines(results) == len(marks.read_text().split()) < 12


def test_interrupt_of_one_worker_waits_for_one_run(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks, "2", jobs=1)
    wait_until(lambda: marks.is_file() and bool(marks.read_text()))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    # One run was in progress, and another one was queued for the worker.
    assert (output.split(), marks.read_text().count("\n")) == (["0", "1", "True"], 1)


def test_terminal_interrupt_stops_starting_workers(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    process = start(folder, tmp_path / "results", tmp_path / "marks", jobs=8)
    # The new session holds only the study and its workers, from before they import anything.
    wait_until(lambda: len(children(process)) > 4)
    os.killpg(process.pid, signal.SIGINT)
    output, said = process.communicate(timeout=300)
    assert output.split()[2] == "True"
    assert said == "\nanabranch: interrupted; waiting for running runs, Ctrl-C again ends at once\n"


def test_terminated_study_leaves_no_process_or_output(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks, "600")
    wait_until(lambda: marks.is_file() and bool(marks.read_text()))
    workers = children(process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (128 + signal.SIGTERM, "")
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_second_interrupt_ends_at_once_with_a_message(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results, marks = tmp_path / "results", tmp_path / "marks"
    process = start(folder, results, marks, "60")
    wait_until(lambda: marks.is_file() and bool(marks.read_text()))
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said += process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert said.split("\n") == [
        "", "anabranch: interrupted; waiting for running runs, Ctrl-C again ends at once",
        "", "anabranch: interrupted again; unfinished runs are lost, go on with --resume", "",
    ]  # fmt: skip


def test_full_disk_message_names_the_file(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    results = tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    for name in ("runs.parquet", "points.csv"):
        (results / name).symlink_to("/dev/full")
        sentence = re.escape(f"{results / name}: cannot be written: No space left on device")
        with pytest.raises(RunFailed, match=sentence):
            write_all(
                analyse(tmp_path / "study", results), Plan(study, study.full, results, fake_simulator.simulate, "b1")
            )
        (results / name).unlink()


def test_resume_runs_the_changed_points(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results = tmp_path / "results"
    small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    small_study.write(folder, study=small_study.STUDY.replace("values = [10, 20]", "values = [10, 20, 30]"))
    outcome = small_study.execute_quietly(load(folder), results, fake_simulator.simulate, resume=True)
    assert (outcome.total, outcome.reused, outcome.finished) == (18, 12, 6)
    small_study.write(folder, scenario=small_study.SCENARIO.replace("5 ms", "6 ms"))
    outcome = small_study.execute_quietly(load(folder), results, fake_simulator.simulate, resume=True)
    assert (outcome.reused, outcome.finished) == (0, 12)
    assert analyse(folder, results).stale == 18


def test_resume_with_another_build_runs_everything_again(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results = tmp_path / "results"
    small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    again = small_study.execute_quietly(load(folder), results, fake_simulator.simulate, resume=True, build="b2")
    assert (again.reused, again.finished) == (0, 12)
    assert analyse(folder, results).builds == {"b2"}


def test_without_resume_earlier_runs_are_moved_aside(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results = tmp_path / "results"
    small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    outcome = small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    assert (outcome.reused, outcome.finished) == (0, 12)
    assert (results / "runs.earlier-1.jsonl").is_file()


def test_failed_runs_are_named_and_the_others_kept(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    outcome = small_study.execute_quietly(load(folder), tmp_path / "results", fake_simulator.broken, jobs=2)
    assert outcome.finished + len(outcome.failures) == 12
    assert outcome.failures
    assert "pair: capacity = " in outcome.failures[0]
    assert "RuntimeError: out of luck" in outcome.failures[0]


def test_invalid_scenario_is_refused_before_any_change(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results = tmp_path / "results"
    small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    before = (results / FILE).read_bytes()
    small_study.write(folder, study=small_study.STUDY.replace("[10, 20]", "[10, -20]"), claims="")
    with pytest.raises(InputError, match=r'"-20 Mbit/s"'):
        small_study.execute_quietly(load(folder), results, fake_simulator.dying)
    assert [p.name for p in results.iterdir()] == [FILE]
    assert (results / FILE).read_bytes() == before


def test_mistake_found_by_a_run_ends_the_study(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study", study=small_study.STUDY.replace("[10, 20]", "[-10, 20]")))
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1", check=lambda _: None)
    with pytest.raises(InputError, match="negative"):
        execute(plan, Silent(), resume=False)


def test_empty_selection_is_refused(tmp_path: Path) -> None:
    text = small_study.STUDY.replace("labels = {", "quick = { capacity = [] }\nlabels = {", 1)
    study = load(small_study.write(tmp_path / "study", study=text))
    plan = Plan(study, study.quick, tmp_path / "results", fake_simulator.simulate, "b1")
    with pytest.raises(InputError, match="nothing to run: the quick form leaves every experiment out"):
        execute(plan, Silent(), resume=False)


def test_second_run_keeps_the_runs_of_the_first(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    results = tmp_path / "results"
    small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    before = (results / FILE).read_bytes()
    with read(results), pytest.raises(InputError, match="in use by another run"):
        small_study.execute_quietly(load(folder), results, fake_simulator.simulate)
    assert [p.name for p in results.iterdir()] == [FILE]
    assert (results / FILE).read_bytes() == before


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run with the smallest seed; some doubles of the simulator make this run fail."""
    study = load(small_study.write(tmp_path / "study"))
    first = min(study.runs(study.full), key=lambda run: run.seed)
    monkeypatch.setenv("FAKE_VICTIM", str(first.seed))
    return first


@pytest.mark.parametrize("jobs", [1, 3])
def test_deadly_run_is_named_and_others_finish(tmp_path: Path, victim: Run, jobs: int) -> None:
    study, results = load(tmp_path / "study"), tmp_path / "results"
    outcome = small_study.execute_quietly(study, results, fake_simulator.dying_on_one, jobs=jobs)
    assert outcome.failures == [f"{victim.title}: its worker died twice (exit status 3)"]
    assert (outcome.finished, outcome.interrupted) == (11, False)
    again = small_study.execute_quietly(study, results, fake_simulator.dying_on_one, jobs=jobs, resume=True)
    assert (again.reused, again.finished, len(again.failures)) == (11, 0, 1)


def test_study_ends_if_every_run_kills_its_worker(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    outcome = small_study.execute_quietly(study, tmp_path / "results", fake_simulator.dying, jobs=2)
    assert (outcome.finished, len(outcome.failures)) == (0, 12)


def test_workers_that_cannot_start_are_reported(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    with pytest.raises(RunFailed, match=r"die at their start \(exit status 3\).*--resume"):
        small_study.execute_quietly(study, tmp_path / "results", fake_simulator.Unloadable(), jobs=2)


@pytest.mark.parametrize(
    ("backend", "limits", "reason"),
    [
        (fake_simulator.hanging_on_one, Limits(timeout_s=3.0), "took longer than --run-timeout 3"),
        (fake_simulator.greedy_on_one, Limits(memory_bytes=250_000_000), "needed more memory than --run-memory 250"),
    ],
)
def test_run_beyond_its_limit_is_named(
    tmp_path: Path, victim: Run, backend: Backend, limits: Limits, reason: str
) -> None:
    study = load(tmp_path / "study")
    plan = Plan(study, study.full, tmp_path / "results", backend, "b1", 2, limits=limits)
    outcome = execute(plan, Silent(), resume=False)
    assert outcome.failures == [f"{victim.title}: {reason}"]
    assert outcome.finished == 11


class InterruptedLate(Silent):
    """Sends Ctrl-C when a number of runs have ended."""

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def advance(self, progress: Progress) -> None:
        if progress.ended == self._runs:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("after", [3, 11])
def test_interrupt_skips_only_the_stuck_run(
    tmp_path: Path, victim: Run, after: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def is_victim(pool: LocalPool) -> dict[int, float]:
        return {ticket: 60.0 for ticket in under_way(pool) if ticket == 0}

    under_way = LocalPool.under_way
    monkeypatch.setattr(LocalPool, "under_way", is_victim)
    study = load(tmp_path / "study")
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.hanging_on_one, "b1", 2)
    outcome = execute(plan, InterruptedLate(after), resume=False)
    assert (outcome.finished, outcome.interrupted) == (11, False)
    assert outcome.failures[0].startswith(f"{victim.title}: skipped by Ctrl-C after 60 s; the slowest other run took ")
    assert capfd.readouterr().err == (
        f"\nanabranch: skipped after 60 s: {victim.title}; the other runs go on, Ctrl-C again stops the study\n"
    )


def test_time_left_covers_the_slowest_run() -> None:
    progress = engine.Progress(total=12, reused=2)
    assert progress.left_s(1.0) is None
    progress.finished, progress.failures, progress.slowest_s = 7, ["one"], 30.0
    assert progress.left_s(8.0) == 30.0
    assert progress.left_s(800.0) == 200.0
    progress.finished = 9
    assert progress.left_s(800.0) == 0.0
