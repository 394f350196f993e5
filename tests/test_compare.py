"""Comparison of results and scenarios: intervals, verdicts, conditions and the sides of the command line."""

from __future__ import annotations

import io
import json
import math
import re
import shlex
import stat
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import anabranch
import small_study
from anabranch import InputError
from anabranch._core import simulator
from anabranch.cli import main
from anabranch.comparison.conditions import Condition
from anabranch.comparison.differences import Difference, Missing, differences
from anabranch.comparison.samples import Side
from anabranch.metrics import HIGHER_IS_BETTER, LOWER_IS_BETTER, METRICS
from anabranch.report.comparison import digits, junit
from anabranch.study.store import FILE, line_of
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCENARIO = small_study.SCENARIO.replace('"20 s"', '"3 s"').replace('"2 s"', '"1 s"').replace(
    'congestion = "reno"', 'congestion = "reno"\nstart = { uniform = ["0 s", "500 ms"] }'
)  # fmt: skip
FIXED = small_study.SCENARIO.replace('"20 s"', '"3 s"').replace('"2 s"', '"1 s"')
REPS = "4"


def document(seed: int, goodput: float, drops: float = 0.0, delay: float | None = 1.0) -> Any:
    """A result with one flow; goodput in Mbit/s, mean delay in ms."""
    return {
        "format": 2, "version": "0", "world": "kernel", "seed": seed, "digest": None, "duration_s": 1.0,
        "warmup_s": 0.0, "jain": None, "host": None,
        "flows": [{
            "name": "F", "goodput_bps": goodput * 1e6, "throughput_bps": goodput * 1e6, "delivered_bytes": 1,
            "delivery_delay_s": None if delay is None else {"mean": delay * 1e-3}, "paths": [],
        }],
        "links": [{"name": "L", "direction": "forward", "drops": drops, "utilisation": 1.0, "occupancy": None}],
    }  # fmt: skip


def side(name: str, values: Mapping[int, float], **others: Any) -> Side:
    """A side with a goodput for each seed."""
    found = Side(name)
    for seed, value in values.items():
        found.add(document(seed, value, **others), f"{name} {seed}")
    return found


def numbered(values: Sequence[float], first: int = 1) -> dict[int, float]:
    return dict(enumerate(values, first))


def goodput(first: Side, second: Side) -> Difference:
    parts = [part for part in differences(first, second) if (part.metric, part.subject) == ("goodput", "F")]
    assert isinstance(parts[0], Difference)
    return parts[0]


def bounds(difference: Difference) -> tuple[float, float]:
    assert difference.interval is not None
    return difference.interval.low, difference.interval.high


# Intervals and verdicts


def test_runs_with_equal_seeds_are_paired() -> None:
    found = goodput(side("a", {1: 10.0, 2: 20.0, 3: 30.0}), side("b", {3: 33.0, 1: 11.0, 2: 22.0}))
    reach = stats.t.ppf(0.975, 2) / math.sqrt(3)  # the differences are 1, 2 and 3
    assert found.paired
    assert found.difference == pytest.approx(2.0)
    assert bounds(found) == pytest.approx((2.0 - reach, 2.0 + reach))
    assert found.verdict == "no difference shown"
    assert found.relative == pytest.approx(0.1)


def test_runs_with_other_seeds_are_not_paired() -> None:
    first, second = [10.0, 11.0, 12.5, 10.5], [8.0, 8.5, 9.5]
    found = goodput(side("a", numbered(first)), side("b", numbered(second, 2)))
    welch = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    assert not found.paired
    assert found.counts == (4, 3)
    assert bounds(found) == pytest.approx((welch.low, welch.high))
    assert found.verdict == "worse"


def test_repeated_seed_is_not_paired() -> None:
    first, second = Side("a"), Side("b")
    for target, values in ((first, [10.0, 11.0]), (second, [10.5, 11.5])):
        for number, value in enumerate(values):
            target.add(document(7, value), str(number))
    assert not goodput(first, second).paired


def test_single_run_has_no_verdict() -> None:
    found = goodput(side("a", {1: 10.0}), side("b", {1: 5.0}))
    assert (found.interval, found.verdict) == (None, "no interval")
    assert found.relative == pytest.approx(-0.5)


@pytest.mark.parametrize(("count", "verdict"), [(5, "no interval"), (6, "better")])
def test_equal_differences_need_six_pairs(count: int, verdict: str) -> None:
    first = numbered([float(n) for n in range(count)])
    found = goodput(side("a", first), side("b", {seed: value + 1.0 for seed, value in first.items()}))
    assert found.verdict == verdict


def test_runs_without_randomness_have_no_interval() -> None:
    found = goodput(side("a", numbered([10.0] * 8)), side("b", numbered([11.0] * 8)))
    assert (found.interval, found.verdict) == (None, "no interval")


def test_equal_runs_are_equal() -> None:
    values = numbered([10.0, 11.0, 12.0])
    assert goodput(side("a", values), side("b", values)).verdict == "equal"


@pytest.mark.parametrize(
    ("metric", "verdict"), [("goodput", "better"), ("delivery-delay-mean", "worse"), ("throughput", "higher")]
)
def test_verdict_follows_the_metric(metric: str, verdict: str) -> None:
    parts = [Side("a"), Side("b")]
    for part, factor in zip(parts, (1.0, 2.0), strict=True):
        for seed in range(6):
            value = factor * (10.0 + 0.1 * seed)
            part.add(document(seed, value, delay=value), str(seed))
    (found,) = [d for d in differences(*parts) if d.metric == metric]
    assert isinstance(found, Difference)
    assert found.verdict == verdict


@pytest.mark.parametrize("paired", [True, False])
def test_five_percent_of_intervals_miss_zero(paired: bool) -> None:
    random = np.random.default_rng(1)
    trials, count = 600, 5
    shown = 0
    for _ in range(trials):
        first, second = random.normal(10.0, 1.0, count), random.normal(10.0, 1.0, count)
        shown += goodput(
            side("a", numbered(list(first))), side("b", numbered(list(second), 1 if paired else 2))
        ).is_shown
    # Four standard errors around 5 %; Welch's interval is slightly too wide for few runs.
    assert 0.015 * trials < shown < 0.086 * trials


def test_directions_name_existing_metrics() -> None:
    assert set(METRICS) >= HIGHER_IS_BETTER | LOWER_IS_BETTER
    assert not HIGHER_IS_BETTER & LOWER_IS_BETTER


def test_value_on_one_side_is_missing() -> None:
    parts = differences(side("a", {1: 1.0, 2: 2.0}), side("b", {1: 1.0, 2: 2.0}, delay=None))
    assert Missing("b", "", "delivery-delay-mean", "F") in list(parts)


def test_large_numbers_have_no_exponent() -> None:
    assert (digits(1234567.0), digits(0.00012345), digits(-5.0, "+")) == ("1,234,567", "0.0001234", "-5")


# Conditions


def met(text: str, first: Mapping[int, float], second: Mapping[int, float], **others: Any) -> list[bool | None]:
    parts = list(differences(side("a", first, **others), side("b", second, **others)))
    condition = Condition.parse(text)
    return [condition.is_met(p) for p in parts if isinstance(p, Difference) and condition.covers(p)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("goodput<-2%", True),
        ("goodput < -9 %", True),
        ("goodput<-10%", False),  # the interval reaches beyond −10 % only in part
        ("goodput>-2%", False),
        ("goodput<-0.5", True),
        ("goodput<-0.5Mbit/s", True),
        ("goodput<-3Mbit/s", False),
        ("goodput@F<-2%", True),
    ],
)
def test_condition_needs_the_whole_interval(text: str, expected: bool) -> None:
    before = numbered([20.0, 21.0, 22.0, 20.5])
    after = numbered([18.1, 18.8, 19.8, 18.5])
    assert met(text, before, after) == [expected]


def test_goodput_of_zero_meets_a_relative_bound() -> None:
    assert met("goodput<-2%", numbered([20.0, 21.0, 22.0]), numbered([0.0, 0.0, 0.0])) == [True]


def test_growth_from_zero_meets_a_relative_bound() -> None:
    assert met("goodput>5%", numbered([0.0, 0.0, 0.0]), numbered([3.0, 3.1, 3.2])) == [True]
    assert met("goodput<-5%", numbered([0.0, 0.0, 0.0]), numbered([3.0, 3.1, 3.2])) == [False]


def test_single_run_cannot_decide() -> None:
    assert met("goodput<-2%", {1: 20.0}, {1: 1.0}) == [None]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("goodput", "must have the form METRIC"),
        ("goodput<", "must have the form METRIC"),
        ("goodput<=2%", "must have the form METRIC"),
        ("godput<-2%", 'unknown metric "godput"; did you mean "goodput"'),
        ("goodput<-2kbit/s", "goodput is in Mbit/s or relative in %, not in kbit/s"),
        ("jain<-1Mbit/s", "jain is in no unit or relative in %"),
    ],
)
def test_wrong_condition_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Condition.parse(text)


def test_subject_may_contain_a_comparison_sign() -> None:
    condition = Condition.parse("path-goodput@F/left-1>right-1<-2%")
    assert (condition.subject, condition.is_upper) == ("F/left-1>right-1", False)


# In Python


@pytest.fixture
def scenario() -> anabranch.Scenario:
    return anabranch.Scenario.from_toml(SCENARIO)


def test_scenarios_are_compared(scenario: anabranch.Scenario) -> None:
    slow = scenario.set("link.bottleneck.rate", "5 Mbit/s")
    found = anabranch.compare(scenario, slow, names=["fast", "slow"], reps=3, seed=5)
    rows = found.frame()
    row = rows.filter((rows["metric"] == "fill") | (rows["metric"] == "utilisation"))
    assert "fill" in row["metric"].to_list()
    total = [sum(d.value for d in found.differences if d.metric == "goodput"),
             sum(d.baseline for d in found.differences if d.metric == "goodput")]  # fmt: skip
    assert total[0] < 5.0 < total[1] < 10.0
    assert {d.paired for d in found.differences} == {True}
    assert repr(found).startswith("Comparison('fast' and 'slow', ")
    (check,) = found.check("utilisation@bottleneck/forward<-50%")
    assert check.met is False


def test_results_are_compared(scenario: anabranch.Scenario) -> None:
    first = [anabranch.run(scenario, seed=seed) for seed in (1, 2)]
    again = anabranch.compare(first, first, metrics=["goodput"])
    assert [(d.subject, d.verdict) for d in again.differences] == [("F0", "equal"), ("F1", "equal")]
    assert [side.name for side in again.sides] == ["results 1", "results 2"]
    with pytest.raises(InputError, match=r"has the same run as .* \(seed 1"):
        anabranch.compare([first[0], first[0]], first)


def test_processes_do_not_change_the_comparison(scenario: anabranch.Scenario) -> None:
    other = scenario.set("flow.F0.congestion", "cubic")
    alone, together = (anabranch.compare(scenario, other, reps=2, jobs=jobs).document() for jobs in (1, 2))
    assert alone == together


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((), {}, "a comparison needs two sides or more"),
        ((5, 6), {}, "side 1 must be a scenario, a result, a list of results or a path, not 5"),
        (([], []), {}, "side 1 must be a scenario"),
        (("s", "s"), {"names": ["one"]}, "names must have one name for each of 2 sides, but has 1"),
        (("s", "s"), {"reps": 0}, "reps must be a whole number from 1 on, but is 0"),
        (("s", "s"), {"jobs": 1.5}, "jobs must be a whole number from 1 on, but is 1.5"),
        (("s", "s"), {"seed": -1}, "seed must be a whole number from 0 on, but is -1"),
        (("s", "s"), {"seed": simulator.LARGEST_SEED}, "the last seed must be at most"),
        (("s", "s"), {"metrics": ["gooput"]}, 'unknown metric "gooput"; did you mean "goodput"'),
        (("s", "s"), {"world": "moon"}, 'there is no world "moon"'),
    ],
)
def test_wrong_argument_is_refused(
    scenario: anabranch.Scenario, arguments: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        anabranch.compare(*(scenario if a == "s" else a for a in arguments), **options)


# On the command line


@dataclass
class Done:
    """Status and output of a command."""

    returncode: int
    stdout: str
    stderr: str


def command(*words: str) -> Done:
    """Run the command line in this process, because starting an interpreter for each test takes long."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(list(words))
    assert isinstance(left.value.code, int)
    return Done(left.value.code, out.getvalue(), err.getvalue())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCENARIO, encoding="utf-8")
    Path("slow.toml").write_text(SCENARIO.replace('"10 Mbit/s"', '"8 Mbit/s"'), encoding="utf-8")
    Path("fixed.toml").write_text(FIXED, encoding="utf-8")
    for name, scale in (("old", 1.0), ("new", 0.8)):
        texts = [json.dumps(document(seed, scale * (20.0 + seed)), indent=2) for seed in range(5)]
        Path(f"{name}.json").write_text("\n".join(texts), encoding="utf-8")
        Path(name).mkdir()
        for seed, text in enumerate(texts):
            Path(name, f"{seed}.json").write_text(text, encoding="utf-8")
    Path("empty").mkdir()
    Path("foreign.json").write_text('{"a": 1}', encoding="utf-8")
    Path("later.json").write_text(json.dumps({**document(1, 1.0), "format": 99, "version": "9"}), encoding="utf-8")
    Path("cut.json").write_text(json.dumps(document(1, 1.0))[:-5], encoding="utf-8")
    Path("null.json").write_text("{}", encoding="utf-8")
    return tmp_path


def test_result_files_and_folders_are_compared(folder: Path) -> None:
    for sides in (("old.json", "new.json"), ("old", "new"), ("old", "new.json")):
        done = command("compare", *sides, "--fail-if", "goodput<-2%", "--junit", "out.xml")
        assert done.returncode == 1, done.stderr
        assert f'goodput<-2%: goodput of F in "{sides[1]}" changed by -20.00 %' in done.stderr
        assert "worse" in done.stdout
    (suite,) = ElementTree.parse(folder / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    assert command("compare", "new", "old", "--fail-if", "goodput<-2%").returncode == 0


def test_settings_make_sides(folder: Path) -> None:
    done = command(
        "compare", "s.toml", "--set", 'duration="2 s"', "--with", 'link.bottleneck.rate="5 Mbit/s" flow.F0.abc_limit=1',
        "--with", "flow.F1.congestion=cubic", "--reps", REPS, "--seed", "3", "--jobs", "1", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [s["name"] for s in found["sides"]] == [
        "s.toml", 'link.bottleneck.rate="5 Mbit/s" flow.F0.abc_limit=1', "flow.F1.congestion=cubic"
    ]  # fmt: skip
    slow = [d for d in found["differences"] if d["side"].startswith("link") and d["metric"] == "goodput"]
    assert sum(d["value"] for d in slow) < 5.0 < sum(d["baseline"] for d in slow)
    assert all(d["baseline_count"] == d["count"] == int(REPS) for d in slow)


def test_scenario_files_are_compared(folder: Path) -> None:
    done = command("compare", "s.toml", "slow.toml", "--reps", REPS, "--jobs", "2", "--metric", "utilisation", "--all")
    assert done.returncode == 0, done.stderr
    assert "slow.toml against s.toml" in done.stdout
    assert "bottleneck/forward" in done.stdout
    assert "goodput" not in done.stdout


def test_table_of_toml_is_not_taken_for_json(folder: Path) -> None:
    Path("table.toml").write_text(SCENARIO[SCENARIO.index("[[link]]") :], encoding="utf-8")
    done = command("compare", "s.toml", "table.toml")
    assert (done.returncode, done.stderr.splitlines()) == (2, [
        'anabranch: table.toml: the scenario has no duration; add duration = "60 s"'])  # fmt: skip


def test_seedless_scenario_has_no_verdict(folder: Path) -> None:
    options = ("--with", "flow.F0.congestion=cubic", "--reps", "8", "--jobs", "1")
    done = command("compare", "fixed.toml", *options)
    assert done.returncode == 0, done.stderr
    assert "the runs do not depend on the seed" in done.stdout
    assert "better" not in done.stdout
    done = command("compare", "fixed.toml", *options, "--fail-if", "goodput@F0<-2%")
    assert done.returncode == 2
    assert "cannot decide goodput@F0<-2%: goodput of F0" in done.stderr


def test_program_of_another_build_is_the_baseline(folder: Path) -> None:
    build = folder / "other"
    build.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m anabranch "$@" --set link.bottleneck.rate="8 Mbit/s"\n',
        encoding="utf-8",
    )
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    done = command("compare", "s.toml", "--build", "./other", "--reps", REPS, "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [s["name"] for s in found["sides"]] == ["./other", "this build"]
    rates = [d for d in found["differences"] if d["metric"] == "goodput"]
    assert sum(d["baseline"] for d in rates) < 8.0 < sum(d["value"] for d in rates)
    build.write_text("#!/bin/sh\necho no >&2\nexit 3\n", encoding="utf-8")
    done = command("compare", "s.toml", "--build", "./other", "--jobs", "1")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"anabranch: ./other, seed 1: {build}: no")


def test_stores_of_a_study_are_compared(folder: Path) -> None:
    for name, rate in (("before", "10"), ("after", "8")):
        text = SCENARIO.replace('"10 Mbit/s"', f'"{rate} Mbit/s"')
        small_study.write(folder / "mine", scenario=text)
        done = command("study", "run", "mine", "--quick", "--jobs", "1", "--results", name)
        assert done.returncode == 0, done.stderr
    done = command("compare", "before/mine/quick", "after/mine/quick", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    points = {d["point"] for d in found["differences"]}
    assert points == {"pair: capacity = 10, congestion = reno", "pair: capacity = 10, congestion = cubic"}
    assert all(d["paired"] for d in found["differences"])


def test_damaged_runs_of_a_store_are_left_out(folder: Path) -> None:
    stored = (Path(__file__).parent / "stores" / "earlier.jsonl").read_bytes()
    header, *lines = stored.splitlines(keepends=True)
    records = [json.loads(line.split(b" ", 1)[1]) for line in lines]
    del records[0]["host"]
    for name, kept in (("whole", stored), ("partly", header + b"".join(map(line_of, records)))):
        (folder / name).mkdir()
        (folder / name / FILE).write_bytes(kept)
    done = command("compare", "whole", "partly", "--json")
    assert done.returncode == 0, done.stderr
    note = "partly: 1 stored run has another layout than this version's and is left out: record lacks host"
    assert note in json.loads(done.stdout)["notes"]
    (folder / "partly" / FILE).write_bytes(header + line_of(records[0]))
    done = command("compare", "whole", "partly", "--json")
    assert (done.returncode, "is left out: record lacks host" in done.stderr) == (2, True)


MISTAKES = [
    (("compare",), "Missing argument"),
    (("compare", "s.toml"), "a comparison needs two sides or more"),
    (("compare", "s.toml", "nothing.toml"), "nothing.toml: cannot be read: No such file or directory"),
    (("compare", "old.json", "foreign.json"), "foreign.json: is JSON, but not a result"),
    (("compare", "old.json", "later.json"), "later.json: is a result in format 99, but this version reads format 2"),
    (("compare", "old.json", "cut.json"), "cut.json:1: is not a result"),
    (("compare", "old.json", "null.json"), "null.json: is JSON, but not a result"),
    (("compare", "old.json", "empty"), "empty: contains neither results (*.json) nor a store of a study"),
    (("compare", "old.json", "new.json", "--reps", "3"), "--reps needs a scenario"),
    (("compare", "old.json", "new.json", "--set", "seed=1"), "--set changes scenarios, but this side has results"),
    (("compare", "old.json", "--with", "seed=1"), "--with needs exactly one SIDE, which must be a scenario"),
    (("compare", "s.toml", "slow.toml", "--build", "x"), "--build needs exactly one SIDE"),
    (("compare", "s.toml", "--build", "nothing"), "nothing: is not an executable file"),
    (("compare", "s.toml", "--build", "x", "--with", "seed=1"), "--with and --build were both given"),
    (("compare", "s.toml", "--with", "  "), "--with needs at least one setting KEY=VALUE"),
    (("compare", "s.toml", "--with", 'a="b'), "a quotation mark is not closed"),
    (("compare", "s.toml", "--with", "flow.F0.congestion=rno"), "reno"),
    (("compare", "old.json", "new.json", "--junit", "x.xml"), "--junit writes the outcome of conditions"),
    (("compare", "old.json", "new.json", "--fail-if", "goodput"), "must have the form"),
    (("compare", "old.json", "new.json", "--fail-if", "goodput@G<-2%"), 'goodput has no subject "G"'),
    (("compare", "old.json", "new.json", "--fail-if", "answers<-2%"), "these runs have no value of answers"),
    (("compare", "old.json", "new.json", "--metric", "godput"), 'unknown metric "godput"'),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_mistake_is_one_sentence(folder: Path, words: tuple[str, ...], says: str) -> None:
    done = command(*words)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("anabranch: ")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_absent_value_is_an_error_in_junit() -> None:
    first, second = side("a", {1: 1.0, 2: 2.0}), side("b", {1: 1.0, 2: 2.0}, delay=None)
    found = anabranch.Comparison((first, second), (), tuple(
        part for part in differences(first, second) if isinstance(part, Missing)))  # fmt: skip
    checks = found.check("delivery-delay-mean>5%")
    assert [check.met for check in checks] == [None]
    assert 'delivery-delay-mean of F has no value in "b"' in checks[0].sentence
    (suite,) = ElementTree.fromstring(junit(checks))
    assert suite.get("errors") == "1"


@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_kernel_runs_are_compared(folder: Path) -> None:
    options = (
        "--world",
        "kernel",
        "--reps",
        "2",
        "--set",
        'duration="2 s"',
        "--with",
        'link.bottleneck.rate="2 Mbit/s"',
    )
    done = command("compare", "s.toml", *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(s["worlds"][0].startswith("Linux ") for s in found["sides"])
    rates = [d for d in found["differences"] if d["metric"] == "goodput"]
    assert sum(d["value"] for d in rates) < sum(d["baseline"] for d in rates)


def test_example_of_the_how_to_prints_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent / "docs/how-to/compare.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()
    (output,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    Path("phone.toml").write_text(
        Path(command("examples", "wifi-and-cellular").stdout.strip()).read_text("utf-8"), "utf-8"
    )
    done = command(*shlex.split(commands[1])[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout == output
