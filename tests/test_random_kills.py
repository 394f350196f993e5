"""Kills of random workers, front ends and schedulers lose no finished run.

`ANABRANCH_LONG=1` kills a hundred processes instead of eight, which takes about half an hour.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fake_simulator
import small_study
from anabranch.study.definition import load
from anabranch.study.store import FILE, read
from dask_machines import Machines

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
LOCAL_KILLS, DASK_KILLS = (60, 40) if os.environ.get("ANABRANCH_LONG") else (5, 3)
RUNS_PER_KILL = 12
SEED = 11
END_TIMEOUT_S = 600.0

PROGRAM = """
import sys
from pathlib import Path
import fake_simulator
from anabranch._core import simulator
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute

if __name__ == "__main__":
    folder, results, place = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    study = load(folder)
    build = simulator.build_fingerprint()
    execute(Plan(study, study.full, results, fake_simulator.slow, build, 2, place=place), Silent(), resume=True)
"""


class FrontEnd:
    """A study in a separate process, which is started again until all runs have ended."""

    def __init__(self, folder: Path, place: str, kills: int) -> None:
        text = small_study.STUDY.replace("repetitions = 3", f"repetitions = {kills * RUNS_PER_KILL // 4}")
        self.study = load(small_study.write(folder / "study", study=text))
        self.results = folder / "results"
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        self._command = [sys.executable, str(folder / "program.py"), str(folder / "study"), str(self.results), place]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
            "FAKE_MARKS": str(folder / "marks"),
            "FAKE_SECONDS": "0.1",
        }
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the front end and start it again when its lock is free."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def saved(self) -> set[bytes]:
        """The whole lines of the store."""
        file = self.results / FILE
        content = file.read_bytes() if file.is_file() else b""
        return set(content[: content.rfind(b"\n") + 1].splitlines())

    def wait_for(self, lines: int) -> None:
        """Wait until the store has more lines than this, or the front end has ended."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while len(self.saved()) <= lines and self.process.poll() is None:
            assert time.monotonic() < deadline, "the study does not get on"
            time.sleep(0.02)

    def finish(self) -> None:
        """Go on until a front end ends by itself; runs that were killed twice have failed, and run again."""
        for _ in range(3):
            assert self.process.wait(END_TIMEOUT_S) == 0
            with read(self.results) as store:
                if len(store.records) == len(self.study.runs(self.study.full)):
                    return
            self.process = self._start()
        raise AssertionError("runs are missing after three resumes")


def kill_all(front: FrontEnd, draw: random.Random, kills: int, victims: list[Callable[[], None]]) -> None:
    """Kill random victims, each after a run has ended; no saved line may be missing later."""
    earlier: set[bytes] = set()
    for _ in range(kills):
        front.wait_for(len(earlier))
        time.sleep(draw.uniform(0.0, 0.5))
        before = front.saved()
        assert earlier <= before
        draw.choice(victims)()
        if front.process.poll() is not None:
            front.process = front._start()
        earlier = before
    front.finish()
    assert earlier <= front.saved()


def check_rows(front: FrontEnd) -> None:
    """Every run has one row, equal to that of a study without kills."""
    whole = front.results.with_name("whole")
    small_study.execute_quietly(front.study, whole, fake_simulator.simulate)
    with read(front.results) as ours, read(whole) as expected:
        assert len(ours.records) == len(front.study.runs(front.study.full))
        documents = [{key: row.checked().document for key, row in s.records.items()} for s in (ours, expected)]
    assert documents[0] == documents[1]


def kill_child(front: FrontEnd, draw: random.Random) -> None:
    """Kill a random worker process of a front end."""
    children = Path(f"/proc/{front.process.pid}/task/{front.process.pid}/children")
    with suppress(OSError, IndexError):
        os.kill(int(draw.choice(children.read_text().split())), 9)


@pytest.mark.slow
def test_killed_workers_and_parents_lose_no_row(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    front = FrontEnd(tmp_path, "", LOCAL_KILLS)
    try:
        kill_all(front, draw, LOCAL_KILLS, [front.kill, lambda: kill_child(front, draw)])
    finally:
        front.process.kill()
        front.process.wait()
    check_rows(front)


@pytest.mark.slow
def test_killed_cluster_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, sys.path)]))
    monkeypatch.setenv("FAKE_MARKS", str(tmp_path / "marks"))
    monkeypatch.setenv("FAKE_SECONDS", "0.1")
    machines = Machines()
    machines.add_worker()
    machines.add_worker()

    def replace_worker() -> None:
        machines.kill_worker()
        machines.add_worker()

    front = FrontEnd(tmp_path, machines.address, DASK_KILLS)
    try:
        victims = [front.kill, replace_worker, machines.restart_scheduler]
        kill_all(front, random.Random(SEED), DASK_KILLS, victims)
    finally:
        front.process.kill()
        front.process.wait()
        machines.end()
    check_rows(front)
