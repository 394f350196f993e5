"""The section of a study's report with the first findings of each experiment."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

import small_study
from anabranch._core.simulator import build_fingerprint, simulate
from anabranch.report import first_findings, study_page
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read
from command import anabranch as command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """
duration = "3 s"
warmup = "0.5 s"
[[link]]
name = "a"
between = ["S", "D"]
rate = "8 Mbit/s"
delay = "20 ms"
queue = { kind = "fifo", limit = "60 packets" }
[[link]]
name = "b"
between = ["S", "D"]
rate = "6 Mbit/s"
delay = "15 ms"
queue = { kind = "fifo", limit = "40 packets" }
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
"""
STUDY = """
title = "Buffers of two links"
about = "A flow over two links."
metric = "goodput"
[full]
repetitions = 2
[quick]
repetitions = 1
[parameter.buffer]
label = "Receive buffer"
unit = "kB"
values = [20, 30, 4000]
set = { "flow.F.receive_buffer" = "{buffer} kB" }
[experiment.both]
title = "Both links"
scenario = "net.toml"
over = ["buffer"]
[experiment.single]
title = "Losses"
scenario = "net.toml"
over = ["buffer"]
set = { "link.a.loss" = { model = "bernoulli", rate = 0.03 } }
values = { buffer = [4000] }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("findings") / "study"
    found.mkdir()
    (found / "net.toml").write_text(SCENARIO, encoding="utf-8")
    (found / "study.toml").write_text(STUDY, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    study = load(folder)
    results = folder.parent / "results"
    small_study.execute_quietly(study, results, simulate, build=build_fingerprint())
    return Plan(study, study.full, results, simulate, build_fingerprint())


@pytest.fixture
def analysis(plan: Plan) -> Iterator[Analysis]:
    with read(plan.folder) as store:
        yield Analysis(plan.study, plan.effort, store.records)


def test_findings_are_counted_by_experiment(analysis: Analysis) -> None:
    (both, table), (losses, lossy) = first_findings.tables(analysis)
    assert (both, losses) == ("Both links", "Losses")
    assert [row[:2] for row in table.rows] == [
        ["receive buffer too small", "2"], ["nothing to mend: the links are full", "1"],
    ]  # fmt: skip
    assert "receive buffer of 20 kB" in table.rows[0][3]
    assert lossy.rows[0][0] in ("link loses packets at random", "congestion control")
    assert table.note == "3 of 3 points."


def test_command_of_a_finding_measures_its_remedy(
    analysis: Analysis, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = first_findings.tables(analysis)[0][1].rows[0][-1]
    done = command(*shlex.split(first)[1:], "--reps", "1")
    assert done.returncode == 0, done.stderr
    assert "1. The receive buffer of 20 kB is too small" in " ".join(done.stdout.split())


def test_report_has_the_section(analysis: Analysis, plan: Plan) -> None:
    text = write_all(analysis, plan).read_text(encoding="utf-8")
    assert "## First findings" in text
    assert "| receive buffer too small | 2 |" in text
    assert "<h2>First findings</h2>" in study_page.page_of(analysis, {}, plan.build)
