"""Output of the command line; every error is one clear sentence with status 2."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import small_study
from anabranch import InputError
from anabranch import run as anabranch_run
from anabranch._core import simulator
from command import anabranch
from registries import shipped_names

SHORT = small_study.SCENARIO.replace('"20 s"', '"3 s"').replace('"2 s"', '"1 s"')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.toml").write_text(SHORT, encoding="utf-8")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00title")
    (tmp_path / "prose.toml").write_text("Two flows share a link.\n", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    small_study.write(tmp_path / "mine", scenario=SHORT)
    study = small_study.STUDY
    small_study.write(tmp_path / "broken", scenario=SHORT, study=study.replace("over =", "ovre ="))
    small_study.write(
        tmp_path / "wrong", scenario=SHORT, study=study.replace('{capacity} Mbit/s"', '{capacity} Mbits"')
    )
    small_study.write(tmp_path / "negative", scenario=SHORT, study=study.replace("[10, 20]", "[-10, 20]"))
    (tmp_path / "notastore" / "mine" / "quick").mkdir(parents=True)
    (tmp_path / "notastore" / "mine" / "quick" / "runs.jsonl").write_text("hello\n", encoding="utf-8")
    return tmp_path


def bad(name: str, *command: str, says: str) -> object:
    return pytest.param(command, says, id=name)


MISTAKES = [
    bad("no such command", "rn", "x.toml", says="No such command 'rn'"),
    bad("no scenario", "run", says="'SCENARIO'; write anabranch run [OPTIONS] SCENARIO"),
    bad("a second scenario", "run", "a", "b.toml", says="argument (b.toml); write anabranch run [OPTIONS] SCENARIO"),
    bad("a command of a group", "meter", "client", says="No such command 'client'; choose from run, serve"),
    bad("an option before the command", "--qqq", "run", says="No such option '--qqq'; see anabranch --help"),
    bad("an option like no other", "run", "--qqq", says="No such option '--qqq'; see anabranch run --help"),
    bad("both targets", "proxy", "check", "--to", "x:1", "--config", "y", says="--to and --config exclude each other"),
    bad("no such file", "run", "nothing.toml", says="nothing.toml: cannot be read: No such file or directory"),
    bad("a folder", "run", "empty", says="empty: cannot be read: Is a directory"),
    bad("not text", "run", "binary.toml", says="binary.toml: is not text in UTF-8"),
    bad("not toml", "run", "prose.toml", says="prose.toml"),
    bad("set without value", "run", "scenario.toml", "--set", "seed", says="seed"),
    bad("set without key", "run", "scenario.toml", "--set", "=1", says="="),
    bad("set of an unknown key", "run", "scenario.toml", "--set", "sede=1", says="sede"),
    bad("set of an unknown link", "run", "scenario.toml", "--set", 'link.botleneck.rate="1 Mbit/s"', says="bottleneck"),
    bad("set with wrong unit", "run", "scenario.toml", "--set", 'link.bottleneck.rate="1 s"', says="1 s"),
    bad("set without unit", "run", "scenario.toml", "--set", "link.bottleneck.rate=10", says="10"),
    bad("set of a negative rate", "run", "scenario.toml", "--set", 'link.bottleneck.rate="-1 Mbit/s"', says="rate"),
    bad("unknown control", "run", "scenario.toml", "--set", "flow.F0.congestion=rno", says="reno"),
    bad("seed not a number", "run", "scenario.toml", "--seed", "x", says="'x' is not a valid whole number"),
    bad("seed below zero", "run", "scenario.toml", "--seed", "-1", says="-1 is not in the range"),
    bad("seed beyond the numbers of TOML", "run", "scenario.toml", "--seed", str(2**63),
        says=f"{2**63} is not in the range"),
    bad("trace into nothing", "run", "scenario.toml", "--trace", "", says='cannot write traces to ""; name a folder'),
    bad("results in nothing", "study", "run", "mine", "--results", "",
        says='cannot write results to ""; name a folder'),
    bad("too many repetitions", "study", "run", "mine", "--reps", "100001", says="100001 is not in the range"),
    bad("another world", "run", "scenario.toml", "--world", "moon", says="'sim', 'user', 'kernel'"),
    bad("trace into a file", "run", "scenario.toml", "--trace", "file/traces", says="file/traces"),
    bad("pcap into nowhere", "run", "scenario.toml", "--pcap", "nowhere/x.pcapng", says="nowhere/x.pcapng"),
    bad("pcap onto a folder", "run", "scenario.toml", "--pcap", "empty", says="empty"),
    bad("unknown option", "run", "scenario.toml", "--sede", "1", says="No such option"),
    bad("unknown kind", "list", "congestions", says="congestion"),
    bad("unknown study", "study", "run", "lugowski", says='there is no study "lugowski"'),
    bad("unknown study to report", "study", "report", "lugowski", says='there is no study "lugowski"'),
    bad("a folder without a study", "study", "run", "empty", says='empty: holds no "study.toml"'),
    bad("unknown key in a study", "study", "run", "broken", says='"ovre" is not known here (did you mean "over"?)'),
    bad("a scenario that a study breaks", "study", "run", "wrong", "--quick", says="Mbits"),
    bad("a negative value in a study", "study", "run", "negative", says="rate"),
    bad("no jobs", "study", "run", "mine", "--jobs", "0", says="0 is not in the range"),
    bad("jobs not a number", "study", "run", "mine", "--jobs", "many", says="'many' is not a valid whole number"),
    bad("no repetitions", "study", "run", "mine", "--reps", "0", says="0 is not in the range"),
    bad("results in a file", "study", "run", "mine", "--quick", "--results", "file", says="choose another folder"),
    bad("report of nothing", "study", "report", "mine", says='holds no runs yet; start with "anabranch study run"'),
    bad("not a store", "study", "report", "mine", "--quick", "--results", "notastore", says="is not a store of runs"),
    bad("resume from a folder without a store", "study", "run", "mine", "--quick", "--resume", "--results", "notastore",
        says="is not a store of runs"),
    bad("bench against an unknown simulator", "bench", "--against", "ns2", says="'ns2' is not one of 'ns3', 'htsim'"),
    bad("bench against htsim without its folder", "bench", "--against", "htsim", says="--htsim DIR belong together"),
    bad("bench with htsim and no comparison", "bench", "--htsim", "empty", says="--htsim DIR belong together"),
    bad("bench against no htsim", "bench", "--against", "htsim", "--htsim", "nowhere", says="there is no such folder"),
    bad("bench against another folder", "bench", "--against", "htsim", "--htsim", "empty", says="no copy of htsim"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "says"), MISTAKES)
@pytest.mark.usefixtures("folder")
def test_mistake_is_one_sentence(command: tuple[str, ...], says: str) -> None:
    done = anabranch(*command)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("anabranch: ")]
    assert len(sentences) == 1, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_result_folder_is_reported(folder: Path) -> None:
    (folder / "empty").chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = anabranch("study", "run", "mine", "--quick", "--results", "empty")
    assert done.returncode == 2
    assert "choose another folder" in done.stderr


@pytest.mark.parametrize("command", [("run", "scenario.toml"), ("run", "scenario.toml", "--json"), ("schema",)])
@pytest.mark.usefixtures("folder")
def test_output_onto_a_full_disk_is_one_sentence(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "anabranch", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "anabranch: the output cannot be written: No space left on device\n"


@pytest.mark.usefixtures("folder")
def test_file_onto_a_full_disk_has_the_same_status() -> None:
    for option, sentence in [("--pcap", "cannot write the capture"), ("--plot", "cannot be written")]:
        target = Path("full.png")
        target.symlink_to("/dev/full")
        done = anabranch("run", "scenario.toml", option, str(target))
        assert (done.returncode, sentence in done.stderr, "No space left" in done.stderr) == (1, True, True), (
            done.stderr
        )
        target.unlink()


def test_interrupted_run_leaves_no_partial_capture(folder: Path) -> None:
    def interrupt(_: float) -> None:
        assert (folder / "half.pcapng").exists()
        raise KeyboardInterrupt

    request = simulator.Request(
        (folder / "scenario.toml").read_text(encoding="utf-8"), "scenario.toml",
        pcap=simulator.Capture(str(folder / "half.pcapng")),
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        simulator.simulate(request, interrupt)
    assert not (folder / "half.pcapng").exists()


@pytest.mark.usefixtures("folder")
def test_coupled_control_on_one_path_is_explained() -> None:
    done = anabranch("run", "scenario.toml", "--set", "flow.F0.protocol=tcp", "--set", "flow.F0.congestion=lia")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"F0" is tcp, which sends over one path: lia couples nothing there' in done.stdout


def test_ctrl_c_during_launch_prints_one_line() -> None:
    def hold_back() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.kill(os.getpid(), signal.SIGINT)

    done = subprocess.run(
        [sys.executable, "-m", "anabranch", "--help"], capture_output=True, text=True, check=False, preexec_fn=hold_back
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "anabranch: interrupted\n")


def test_launcher_interrupt_prints_no_traceback() -> None:
    launcher = Path(sys.executable).with_name("anabranch")
    if not launcher.is_file() or "--block-signal" not in launcher.read_text(encoding="utf-8"):
        pytest.skip("this launcher is the usual one, which leaves the first moments to the interpreter")
    moments = random.Random(1)
    for _ in range(20):
        command = subprocess.Popen([launcher, "list", "congestion"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with suppress(subprocess.TimeoutExpired):
            command.wait(moments.uniform(0.0, 0.3))
        command.send_signal(signal.SIGINT)
        said = command.communicate()[1].decode()
        # Before the launcher has installed its handler, the default action of the signal ends it.
        assert (command.returncode, said) in {(130, "anabranch: interrupted\n"), (-signal.SIGINT, ""), (0, "")}


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_too_large_seed_is_refused_before_the_run(folder: Path, seed: int) -> None:
    with pytest.raises(InputError, match=f"a seed is a whole number from 0 to {2**63 - 1}, not {seed}"):
        anabranch_run(folder / "scenario.toml", seed=seed, trace=folder / "traces")
    assert not (folder / "traces").exists()
    assert anabranch_run(folder / "scenario.toml", seed=2**63 - 1).seed == 2**63 - 1


def test_help_of_reports_names_the_repeated_runs() -> None:
    text = " ".join(anabranch("study", "report", "--help").stdout.split())
    assert "Data for figures of windows are not stored: those runs are simulated again" in text


def test_run_prints_a_table(folder: Path) -> None:
    done = anabranch("run", str(folder / "scenario.toml"), "--seed", "5")
    assert done.returncode == 0, done.stderr
    for part in ("Two flows", "F0", "F1", "bottleneck", "Jain's index", "seed 5", "digest"):
        assert part in done.stdout


def test_run_prints_json(folder: Path) -> None:
    done = anabranch("run", str(folder / "scenario.toml"), "--json", "--set", "flow.F0.congestion=cubic")
    document = json.loads(done.stdout)
    assert [f["congestion"] for f in document["flows"]] == ["cubic", "reno"]
    assert document["version"] == simulator.version()


def test_lists_and_schema_are_printed() -> None:
    for kind in anabranch("list").stdout.split():
        shown = anabranch("list", kind).stdout
        assert [line.split()[0] for line in shown.splitlines()] == shipped_names(kind)
    assert json.loads(anabranch("schema").stdout)["$schema"]


INTERRUPTED_WHILE_LOADING = """
import importlib.abc, os, signal, sys
import anabranch.__main__

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Press())
anabranch.__main__.main()
"""


def test_ctrl_c_while_loading_prints_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 130
    assert done.stderr == "anabranch: interrupted\n"


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version_is_printed(option: str) -> None:
    assert anabranch(option).stdout == f"anabranch {simulator.version()}\n"


def test_study_runs_resumes_and_reports(folder: Path) -> None:
    arguments = ("study", "run", "mine", "--quick", "--jobs", "2")
    done = anabranch(*arguments)
    assert done.returncode == 0, done.stderr
    assert "Deviations from published values" in done.stdout
    results = folder / "results" / "mine" / "quick"
    assert {p.name for p in results.iterdir()} >= {
        "report.md",
        "runs.parquet",
        "links.parquet",
        "points.csv",
        "figures",
    }
    before = (results / "points.csv").read_text()
    again = anabranch(*arguments, "--resume")
    assert "4 of 4 runs were there already" in again.stderr
    assert (results / "points.csv").read_text() == before
    content = (results / "runs.jsonl").read_bytes()
    (results / "runs.jsonl").write_bytes(content[:-30])
    repaired = anabranch(*arguments, "--resume")
    assert repaired.returncode == 0
    assert "cut off while it was being saved" in repaired.stderr
    assert (results / "points.csv").read_text() == before
    assert anabranch("study", "report", "mine", "--quick").returncode == 0
    printed = json.loads(anabranch("study", "report", "mine", "--quick", "--json").stdout)
    assert (printed["study"], printed["form"], printed["runs"]) == ("mine", "quick", 4)
    assert [verdict["id"] for verdict in printed["verdicts"]] == [
        "share",
        "too much",
        "equal",
        "more capacity, more goodput",
    ]


def test_worker_count_does_not_change_digests(folder: Path) -> None:
    digests = []
    for jobs in ("1", "8"):
        done = anabranch("study", "run", "mine", "--quick", "--jobs", jobs, "--results", f"jobs{jobs}")
        assert done.returncode == 0, done.stderr
        import polars as pl

        frame = pl.read_parquet(folder / f"jobs{jobs}" / "mine" / "quick" / "runs.parquet")
        digests.append(frame.drop("wall_s"))
    assert digests[0].equals(digests[1])
