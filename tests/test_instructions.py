"""Counted instructions: callgrind's format, comparison with stored counts, and messages."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from anabranch._core.simulator import build_kind, native_file, validate
from anabranch.bench import callgrind, instructions, profile
from anabranch.bench.measure import scenarios
from anabranch.errors import InputError, RunFailed
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

HAS_VALGRIND = shutil.which("valgrind") is not None

OUTPUT = """\
# callgrind format
events: Ir D1mr
ob=(1) {library}
fl=(1) ???
fn=(1) step
0 100 7
+3 20
cob=(2) /usr/lib/libc.so.6
cfi=(1)
cfn=(2) malloc
calls=4 0
* 40 1
cfn=(3) inner
calls=9 0
* 5000
cob=(3) /usr/bin/python3.11
cfn=(4) callback
calls=1 0
* 9999
ob=(2)
fn=(2)
0 30 1
ob=(1)
fn=(3)
0 5000
fn=(1)
-1 1
totals: 15000
"""


def counted(name: str, instructions_: int) -> instructions.Count:
    return instructions.Count(name, 1000, instructions_, 0)


def write_counts(file: Path, costs: dict[str, int], environment: str | None) -> None:
    named = {name: {"packets": 1000, "instructions": cost} for name, cost in costs.items()}
    builds = {build_kind(): {"environment": environment, "scenarios": named}}
    file.write_text(json.dumps({"format": instructions.FORMAT, "builds": builds}), encoding="utf-8")


def test_costs_of_the_library_and_its_calls_are_read(tmp_path: Path) -> None:
    out, library = tmp_path / "out", tmp_path / "native.so"
    out.write_text(OUTPUT.format(library=library), encoding="utf-8")
    found = callgrind.read(out, library)
    assert found.functions == {"step": [121, 7], "malloc": [40, 1], "inner": [5000, 0]}
    assert (found.instructions, found.total("D1mr"), found.allocations) == (5161, 8, 4)


@pytest.mark.parametrize("name", [*instructions.guarded(), *profile.chosen()])
def test_scenarios_are_valid(name: str) -> None:
    validate({**profile.chosen(), **instructions.guarded()}[name])


def test_growth_above_two_percent_fails() -> None:
    known = instructions.Stored("rustc", {"A": 100.0, "B": 100.0, "C": 100.0})
    counts = [counted("A", 101_900), counted("B", 102_100), counted("C", 50_000), counted("new", 1)]
    compared = instructions.compare(counts, known)
    assert [(c.count.name, c.is_met) for c in compared] == [("A", True), ("B", False), ("C", True)]
    assert compared[1].growth == pytest.approx(0.021)


def test_stored_counts_keep_other_builds(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    other = {"environment": "rustc 1.0", "scenarios": {}}
    file.write_text(json.dumps({"format": instructions.FORMAT, "builds": {"other": other}}), encoding="utf-8")
    instructions.store(file, [counted("A", 5000)])
    assert json.loads(file.read_text(encoding="utf-8"))["builds"]["other"] == other
    assert instructions.stored(file) == instructions.Stored(instructions.environment(), {"A": 5.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read it: No such file or directory; write it with --write-baseline"),
        ("7", "no file with instruction counts"),
        ('{"format": 0, "builds": {}}', "no file with instruction counts"),
        (json.dumps({"format": 1, "builds": {build_kind(): {}}}), f'"builds.{build_kind()}" has not the form'),
    ],
)
def test_unusable_baseline_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "counts.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    found = anabranch("bench", "--baseline", str(file))
    assert found.returncode == 2
    assert f"{file}: {message}" in found.stderr


def test_counts_of_another_compiler_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    write_counts(file, {"S1": 1}, "rustc 0.1")
    found = anabranch("bench", "--baseline", str(file))
    assert (found.returncode, found.stdout) == (0, "")
    assert found.stderr.startswith(f"skipped: {file}: counts of rustc 0.1, not of ")


def test_two_measurements_at_once_are_refused() -> None:
    found = anabranch("bench", "--baseline", "x", "--store", "5")
    assert found.returncode == 2
    assert "--store and --baseline are different measurements; give one of them" in found.stderr


def test_missing_valgrind_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match='install the package "valgrind"'):
        instructions.count("S1", instructions.guarded()["S1"])


@pytest.mark.skipif(not HAS_VALGRIND, reason="valgrind is not installed")
@pytest.mark.slow
def test_counts_repeat() -> None:
    request = instructions.shortened(scenarios()["S2"], 1)
    first, second = (instructions.count("S2", request) for _ in range(2))
    assert first.packets == second.packets > 500
    assert first.instructions == pytest.approx(second.instructions, rel=1e-3)
    assert first.instructions > 1000 * first.packets


@pytest.mark.skipif(not HAS_VALGRIND, reason="valgrind is not installed")
def test_failed_run_under_valgrind_is_reported() -> None:
    request = instructions.shortened(scenarios()["S2"], -1)
    with pytest.raises(RunFailed, match=r"the run under valgrind failed: .*duration"):
        instructions.profiled(request, native_file())


def test_heap_profile_lists_functions_of_our_crates() -> None:
    found = profile.heap_of(
        {
            "ftbl": ["[root]", "0x1: malloc (in x.so)", "0x2: anabranch_tcp::push (a.rs:1)", "0x3: python (p.c:1)"],
            "pps": [{"fs": [1, 2, 3], "mb": 100}, {"fs": [1, 3], "mb": 999}, {"fs": [1, 2], "mb": 5}],
        }
    )
    assert (found.peak_bytes, found.places) == (105, {"anabranch_tcp::push (a.rs:1)": 105})
