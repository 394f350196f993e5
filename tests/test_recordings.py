"""Recordings of runs on real packets, and `anabranch replay`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from anabranch import Scenario, run
from anabranch._core.states import Difference, Replay
from anabranch.errors import InputError
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """\
title = "One way"
duration = "1 s"
warmup = "100 ms"

[[link]]
name = "one"
between = ["A", "B"]
rate = "2 Mbit/s"
delay = "10 ms"

[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a run in user space."""
    file = tmp_path_factory.mktemp("recordings") / "run.rec"
    run(Scenario.from_toml(SCENARIO, "one.toml"), world="user", record=file)
    return file


def test_recorded_run_is_repeated(recording: Path) -> None:
    ended = anabranch("replay", str(recording))
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second, verdict = ended.stdout.splitlines()
    assert first.startswith("recorded: anabranch run --world user, version ")
    assert "sent packets" in second
    assert verdict == "equal"
    outcome = json.loads(anabranch("replay", str(recording), "--json").stdout)
    assert outcome["equal"]
    assert set(outcome) == set(Replay.__annotations__)
    assert outcome["recorded"] == "user"
    assert outcome["sent_packets"] > 100
    assert outcome["difference"] is None
    assert 0.9 < outcome["duration_s"] < 60


def test_changed_scenario_is_a_difference(recording: Path, tmp_path: Path) -> None:
    content = recording.read_bytes()
    # The text of the scenario is canonical and contains its rate once.
    assert content.count(b"2 Mbit/s") == 1
    changed = tmp_path / "changed.rec"
    changed.write_bytes(content.replace(b"2 Mbit/s", b"3 Mbit/s"))
    ended = anabranch("replay", str(changed))
    assert ended.returncode == 1
    assert "first difference: packet " in ended.stdout
    difference = json.loads(anabranch("replay", str(changed), "--json").stdout)["difference"]
    assert set(difference) == set(Difference.__annotations__)
    assert difference["packet"] > 1
    assert difference["time_s"] > 0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\n\r\r\n", "is not a recording; make one with --record"),
        (b"anabrec\x07", "has version 7 of the format, but this program reads version 1"),
        (b"anabrec\x01", "is truncated: it ends after 0 sent packets"),
        (b"anabrec\x01\x02\x00\x09", "is damaged: the record that ends at byte 11 is invalid"),
    ],
)
def test_invalid_file_is_a_mistake(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "x.rec"
    file.write_bytes(content)
    ended = anabranch("replay", str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"anabranch: {file}: {sentence}")
    assert ended.stderr.count("\n") == 1


def test_truncated_recording_is_a_mistake(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.rec"
    file.write_bytes(recording.read_bytes()[:-20])
    ended = anabranch("replay", str(file))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is truncated: it ends after" in ended.stderr


def test_missing_file_is_a_mistake(tmp_path: Path) -> None:
    ended = anabranch("replay", str(tmp_path / "none.rec"))
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr


def test_recording_needs_the_world_user(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only runs in the world user can be recorded"):
        run(Scenario.from_toml(SCENARIO, "one.toml"), record=tmp_path / "x.rec")
    assert not (tmp_path / "x.rec").exists()


def test_unwritable_recording_is_a_mistake() -> None:
    with pytest.raises(InputError, match="cannot write"):
        run(Scenario.from_toml(SCENARIO, "one.toml"), world="user", record="/no/such/folder/x.rec")


def test_scenario_with_files_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("time_s,bit_per_s\n0,1e6\n1,2e6\n")
    text = SCENARIO.replace('"2 Mbit/s"', '{ trace = "rates.csv", format = "rate" }')
    scenario = Scenario.from_toml(text, str(tmp_path / "one.toml"))
    file = tmp_path / "x.rec"
    file.write_text("earlier")
    with pytest.raises(InputError, match="a recording cannot contain the files that the scenario names"):
        run(scenario, world="user", record=file)
    assert file.read_text() == "earlier"
