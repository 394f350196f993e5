"""Labelled runs: cases of splits, the Parquet file, the scores of answers without runs, and both baselines."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING

import polars as pl
import pytest

from anabranch import InputError
from anabranch.bench import limitation_scores, seven_rules
from anabranch.bench.answers import METHODS, Answered, Choice, Tally
from anabranch.bench.explain import FAULTS
from anabranch.bench.labelled import TWO_FAULTS, LabelledRun, Remedy, cases, labelled, read, write
from anabranch.explain.captured import Captures
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

STATES = "time_s,flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes\n"
BUFFERS = "time_s,flow,peer_window_bytes\n0.0,F,20000\n"


@pytest.fixture(scope="module")
def runs() -> list[LabelledRun]:
    # The first cases have no fault, a small receive buffer and a small send buffer.
    return list(labelled("build", 3, 0))


@pytest.fixture(scope="module")
def file(runs: list[LabelledRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("labelled") / "runs.parquet"
    assert write(runs, str(found)) == len(runs)
    return found


def run_with(*remedies: Remedy) -> LabelledRun:
    return LabelledRun("test", 1, 0, "none", "", (), {}, {}, {}, remedies)  # type: ignore[typeddict-item]


def test_cases_of_a_split_do_not_depend_on_their_number() -> None:
    few, many = (list(islice(cases("build", count, 1), 2)) for count in (2, 50))
    assert few == many


def test_splits_have_different_cases_of_the_same_faults() -> None:
    build, test = (list(cases(split, len(FAULTS) + 3, 1)) for split in ("build", "test"))
    assert [case.fault for case in build] == [case.fault for case in test] == [*FAULTS, *[TWO_FAULTS] * 3]
    assert all(one.scenario != other.scenario for one, other in zip(build, test, strict=True))
    for case in build[-3:]:
        case.scenario.validate()


def test_file_keeps_the_runs(runs: list[LabelledRun], file: Path) -> None:
    assert read([str(file)]) == runs
    assert read([str(file)], "build") == runs


def test_label_has_the_gain_of_every_remedy(runs: list[LabelledRun]) -> None:
    send_buffer = next(each for each in runs[2].remedies if each.kind == "send-buffer")
    assert runs[2].gain_of_settings(send_buffer.settings) == send_buffer.gain == runs[2].best > 0.1
    assert runs[2].gain_of_settings(("flow.F.receive_buffer=1 MB",)) == -math.inf
    kinds = [each.kind for each in runs[2].remedies]
    assert kinds.count("scheduler") == 4


def test_split_without_runs_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match='no labelled run of the split "test"'):
        read([str(file)], "test")


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, table = tmp_path / "text.parquet", tmp_path / "table.parquet"
    text.write_text("no table")
    pl.DataFrame({"split": ["build"]}).write_parquet(table)
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read([str(text)])
    with pytest.raises(InputError, match='lacks the column "seed"'):
        read([str(table)])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read([str(tmp_path / "none.parquet")])


def test_answers_name_the_planted_buffers(runs: list[LabelledRun]) -> None:
    for method in METHODS[:2]:
        answered = [Answered(run, method.choose(run)) for run in runs]
        assert all(each.is_right for each in answered), [each.choices for each in answered]


@pytest.mark.parametrize(
    ("gains", "chosen", "is_right", "regret"),
    [
        ([0.5, 0.46], 0.46, True, 0.04),
        ([0.5, 0.4], 0.4, False, 0.1),
        ([0.5], None, False, 0.5),
        ([0.5], -0.2, False, 0.5),
        ([0.08], None, True, 0.08),
        ([0.08], 0.08, False, 0.0),
        ([math.inf], math.inf, True, 0.0),
        ([math.inf], 3.0, False, 1.0),
        ([], None, True, 0.0),
    ],
)
def test_choice_is_scored_by_its_gain(gains: list[float], chosen: float | None, is_right: bool, regret: float) -> None:
    run = run_with(*(Remedy("kind", (f"key={gain}",), gain) for gain in gains))
    answered = Answered(run, (Choice("kind", chosen),))
    assert answered.is_right == is_right
    assert answered.regret == pytest.approx(regret)
    assert not Answered(run, (Choice("other", -1.0),)).is_right


def test_tally_counts_by_fault() -> None:
    helpful, full = run_with(Remedy("a", ("k=1",), 0.5)), run_with()
    right, wrong = Choice("a", 0.5), Choice("b", 0.0)
    tally = Tally("m", (Answered(helpful, (wrong, right)), Answered(helpful, (right,)), Answered(full, (wrong,))))
    assert (tally.right, tally.among, tally.capacity) == (1, 2, (0, 1))
    assert tally.by_fault() == {"none": (1, 3)}
    assert tally.regret == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(
    ("states", "lengths", "vote"),
    [
        # 10 kB in flight during round trips of 100 ms: the rate is constant and near its maximum.
        ([(0.0, 10_000), (1.0, 10_000)], 1_000, "bandwidth"),
        ([(0.0, 19_000), (1.0, 19_000)], 1_000, "receiver"),
    ],
)
def test_seven_rules_vote_for_each_round_trip(
    tmp_path: Path, states: list[tuple[float, int]], lengths: int, vote: str
) -> None:
    rows = "".join(f"{time_s},F,p,50000,,100000,{flight}\n" for time_s, flight in states)
    (tmp_path / "paths.csv").write_text(STATES + rows)
    (tmp_path / "buffers.csv").write_text(BUFFERS)
    sent = "".join(f"{number / 100 + 0.001:.3f},F,p,{lengths},new-data\n" for number in range(100))
    (tmp_path / "decisions.csv").write_text("time_s,flow,path,length_bytes,reason\n" + sent)
    votes = seven_rules.votes(tmp_path, {"flows": [{"name": "F"}]})  # type: ignore[typeddict-item]
    assert seven_rules.named(votes) == vote
    assert sum(votes.values()) in (10, 11)


def test_seven_rules_accept_a_path_that_opens_again(tmp_path: Path) -> None:
    rows = "0.0,F,p,50000,,100000,10000\n0.3,F,p,50000,,,0\n0.6,F,p,50000,,100000,10000\n"
    (tmp_path / "paths.csv").write_text(STATES + rows)
    (tmp_path / "buffers.csv").write_text(BUFFERS)
    (tmp_path / "decisions.csv").write_text("time_s,flow,path,length_bytes,reason\n0.1,F,p,1000,new-data\n")
    # Three round trips before 0.3 s; the run ends before a round trip from 0.6 s on does.
    votes = seven_rules.votes(tmp_path, {"flows": [{"name": "F"}]})  # type: ignore[typeddict-item]
    assert sum(votes.values()) == 3


def test_seven_rules_name_no_cause_without_votes() -> None:
    assert seven_rules.named({}) == "slow-start"
    assert seven_rules.named({"none": 2, "sender": 1}) == seven_rules.NO_RULE


def test_limitation_scores_find_the_receiver(runs: list[LabelledRun]) -> None:
    assert limitation_scores.named(Captures(runs[1].captures["sender"]).connection()) == "receiver"
    assert limitation_scores.named(Captures(runs[0].captures["sender"]).connection()) != "receiver"


def test_command_writes_and_scores(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    done = anabranch("bench", "explain", "--export", str(file), "--split", "validation", "--cases", "1", "--seed", "2")
    assert done.returncode == 0, done.stderr
    assert "1 labelled runs of the split validation" in done.stdout
    scored = anabranch("bench", "explain", "--no-run", str(file), "--json")
    assert scored.returncode == 0, scored.stderr
    document = json.loads(scored.stdout)
    assert document["splits"] == ["validation"]
    assert [each["method"] for each in document["methods"]] == [each.name for each in METHODS]
    shown = anabranch("bench", "explain", "--no-run", str(file))
    assert "First right" in shown.stdout
    assert "none" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--export", "a.parquet"), "--export needs --split"),
        (("--export", "a.parquet", "--no-run", "b.parquet"), "different measurements"),
        (("--captures", "sender", "--no-run", "b.parquet"), "different measurements"),
        (("--split", "test"), "--split needs"),
        (("--export", "a.parquet", "--split", "test", "--json"), "omit --json"),
        (("--export", "/nonexistent/a.parquet", "--split", "test"), "its folder does not exist"),
        (("--no-run", "/nonexistent/a.parquet"), "cannot be read as Parquet"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], message: str) -> None:
    done = anabranch("bench", "explain", *options)
    assert done.returncode == 2
    assert message in done.stderr
