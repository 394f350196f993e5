"""Benchmarks: their scenarios are valid, their numbers add up, and a missing ns-3 or compiler is reported."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import small_study
from anabranch._core.simulator import Request, validate
from anabranch.bench import htsim, measure, ns3, peers, rows
from anabranch.bench.measure import Speed
from anabranch.errors import InputError, RunFailed
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.store import read
from command import anabranch

HAS_NS3 = Path("/usr/include/ns3/core-module.h").is_file()


@pytest.mark.parametrize("name", sorted(measure.scenarios()))
def test_scenarios_are_valid(name: str) -> None:
    validate(measure.scenarios()[name])


@pytest.mark.parametrize("flows", measure.SCALE_FLOWS)
def test_scenarios_of_many_flows_are_valid(flows: int) -> None:
    validate(measure.many_flows(flows))


def shortened(request: Request, duration: str) -> Request:
    return Request(request.scenario, request.file, (*request.overrides, f'duration="{duration}"'))


def test_measurement_adds_up() -> None:
    speed = measure.measure("S2", shortened(measure.scenarios()["S2"], "10 s"), 2)
    assert 5_000 < speed.packets < 9_000
    assert speed.events > speed.packets
    assert sum(speed.goodput_bps) < 10e6
    assert speed.packets_per_s == pytest.approx(speed.packets / speed.wall_s)
    assert speed.cost_ns == pytest.approx(1e9 / speed.packets_per_s)


def test_spread_is_relative_to_the_fastest_run() -> None:
    def speed(wall_s: float) -> measure.Speed:
        return measure.Speed("x", 1000, 2000, wall_s, 0, (1.0,))

    assert measure.spread([speed(1.0), speed(1.3), speed(1.1)]) == pytest.approx(0.3)


@pytest.mark.slow
def test_generated_store_has_all_rows(tmp_path: Path) -> None:
    study = small_study.write(tmp_path / "study")
    found = anabranch("bench", "--store", "10", "--study", str(study), "--json")
    assert (found.returncode, found.stderr) == (0, "")
    measured = json.loads(found.stdout)
    assert measured["rows"] == 12
    assert measured["file_bytes"] > 12_000
    assert [cost["step"] for cost in measured["costs"]] == ["rows", "resume check", "report"]
    assert all(cost["cpu_s"] > 0 and cost["peak_bytes"] > 2**20 for cost in measured["costs"])


def test_generated_rows_differ_and_name_no_real_build(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    rows.fill(str(study.folder), 3, tmp_path)
    with read(tmp_path / "study" / "full") as store:
        analysis = Analysis(study, study.full, store.records)
    assert (len(analysis.runs), analysis.missing, analysis.builds) == (12, 0, {rows.BUILD})
    assert [stored.document["seed"] for _, stored in analysis.runs] == [run.seed for run, _ in analysis.runs]
    point = analysis.points()[0]
    goodputs = analysis.samples(point, "goodput")["F0"]
    assert len(set(goodputs)) == 3
    assert max(goodputs) < 1.11 * min(goodputs)


def test_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match="needs a C\\+\\+ compiler"):
        ns3.build(tmp_path)


def test_missing_ns3_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/g++")
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    with pytest.raises(InputError, match='install the package "libns3-dev"'):
        ns3.build(tmp_path)


def test_failed_program_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "dumbbell"
    program.write_text("#!/bin/sh\necho no luck >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(RunFailed, match="failed: no luck"):
        ns3.measure("S2", program)


def copy_of_htsim(folder: Path, *, with_library: bool) -> Path:
    """A folder with the names of htsim's files."""
    sources = folder / "copy" / "sim"
    sources.mkdir(parents=True)
    for header in htsim._HEADERS:
        (sources / header).touch()
    if with_library:
        (sources / htsim._LIBRARY).touch()
    return folder / "copy"


def test_htsim_without_its_library_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sim: libhtsim\.a is missing; build htsim there first"):
        htsim.build(copy_of_htsim(tmp_path, with_library=False), tmp_path)


def test_htsim_without_a_compiler_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match="the comparison with htsim needs a C\\+\\+ compiler"):
        htsim.build(copy_of_htsim(tmp_path, with_library=True), tmp_path)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_program_that_does_not_compile_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"the htsim program does not compile: .*error"):
        htsim.build(copy_of_htsim(tmp_path, with_library=True), tmp_path)


def test_remarks_of_a_program_are_skipped(tmp_path: Path) -> None:
    program = tmp_path / "dumbbell"
    row = '{"goodput_bps": [1e6], "packets": 9, "events": 20, "wall_s": 3}'
    program.write_text(f"#!/bin/sh\necho a remark\necho '{row}'\n", encoding="utf-8")
    program.chmod(0o755)
    assert peers.run("htsim", "S1", program) == Speed("S1", 9, 20, 3.0, 0, (1e6,))


@pytest.mark.skipif("HTSIM" not in os.environ, reason="HTSIM names no copy of htsim")
def test_both_simulators_fill_the_bottleneck() -> None:
    ours, theirs = htsim.compare(Path(os.environ["HTSIM"]), 1, 60.0)
    assert ours.packets == pytest.approx(theirs.packets, rel=0.03)


@pytest.mark.skipif(not HAS_NS3, reason="ns-3 is not installed")
def test_both_simulators_carry_the_same(tmp_path: Path) -> None:
    theirs = ns3.measure("S2", ns3.build(tmp_path), 60.0)
    ours = measure.measure("S2", shortened(measure.scenarios()["S2"], "60 s"), 1)
    assert sum(ours.goodput_bps) == pytest.approx(sum(theirs.goodput_bps), rel=0.05)
