"""Files that a scenario or a study names lie in or below its folder, unless the user allows others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import small_study
from anabranch.errors import InputError
from anabranch.explain.explanation import explain_document
from anabranch.scenario import Scenario
from anabranch.study.api import run as run_study
from anabranch.study.definition import load
from anabranch.study.library import shipped
from command import anabranch

OUTSIDE = r"lies outside the folder of this file; move it there, or add --allow-paths \(in Python: allow_paths=True\)"
RATE = 'rate = "10 Mbit/s"'
TRACES = [
    ('rate = { trace = "../other/t.mahi" }', "../other/t.mahi"),
    ('rate = { trace = "/etc/passwd" }', "/etc/passwd"),
    ("rate = { trace = 'link.mahi' }", "link.mahi"),
    ('rate = { "\\u0074race" = "../other/t.mahi" }', "../other/t.mahi"),
    ('rate = "1 Mbit/s"\nreverse = { rate = { trace = "../other/t.mahi" } }', "../other/t.mahi"),
    ('rate = "1 Mbit/s"\nloss = { model = "trace", file = "../other/t.csv" }', "../other/t.csv"),
    ('rate = "1 Mbit/s"\ndelay = { trace = "../other/t.csv" }', "../other/t.csv"),
    # TOML 1.1, which the simulator reads.
    ('rate = {\n  trace = "../other/t.mahi"\n}', "../other/t.mahi"),
    ('rate = {\n  trace = # a comment\n  "../other/t.mahi",\n}', "../other/t.mahi"),
    ('rate = {\n  "\\u0074race" = "../other/t.mahi"\n}', "/"),
    ('rate = {\n  trace = """../other/t.mahi"""\n}', "/"),
    ('rate = {\n  trace = "../\\u006fther/t.mahi"\n}', "/"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An untrusted folder with a symbolic link to a trace in the folder `other`."""
    other, own = tmp_path / "other", tmp_path / "own"
    other.mkdir()
    (own / "below").mkdir(parents=True)
    (other / "t.mahi").write_text("1\n2\n3\n", encoding="utf-8")
    (other / "t.csv").write_text("0,0\n1,0\n", encoding="utf-8")
    (own / "below" / "t.mahi").write_text("1\n2\n3\n", encoding="utf-8")
    (own / "link.mahi").symlink_to(other / "t.mahi")
    return own


def scenario(folder: Path, rate: str) -> Path:
    file = folder / "scenario.toml"
    file.write_text(small_study.SCENARIO.replace(RATE, rate).replace('"20 s"', '"3 s"'), encoding="utf-8")
    return file


@pytest.mark.parametrize(("rate", "named"), TRACES)
def test_trace_outside_is_refused(folder: Path, rate: str, named: str) -> None:
    with pytest.raises(InputError, match=rf'scenario\.toml(:\d+)?: the file "{named}" {OUTSIDE}') as caught:
        Scenario.from_file(scenario(folder, rate))
    assert named == "/" or caught.value.line in (8, 9, 10)
    if named == "../other/t.mahi":
        Scenario.from_file(folder / "scenario.toml", allow_paths=True)


@pytest.mark.parametrize("trace", ["below/t.mahi", "./below/../below/t.mahi", "../own/below/t.mahi"])
def test_trace_below_is_read(folder: Path, trace: str) -> None:
    Scenario.from_file(scenario(folder, f'rate = {{ trace = "{trace}" }}'))
    Scenario.from_file(scenario(folder, f'# trace = "/etc/passwd"\nrate = {{ trace = "{trace}" }}'))


def test_every_command_takes_the_option(folder: Path) -> None:
    file = str(scenario(folder, TRACES[0][0]))
    for command in (("run",), ("fair",), ("buffers",), ("compare", "--reps", "1"), ("compare", "--build", "/bin/true")):
        refused = anabranch(command[0], file, *command[1:])
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), command
        assert 'scenario.toml:8: the file "../other/t.mahi" lies outside' in refused.stderr
    assert json.loads(anabranch("run", file, "--allow-paths", "--json").stdout)["flows"]
    assert "follows a trace" in anabranch("fair", file, "--allow-paths").stderr
    assert "follows a trace" in anabranch("buffers", file, "--allow-paths").stderr


def test_result_names_no_trace_outside(folder: Path) -> None:
    content: Any = {"scenario": {"link": [{"name": "a", "rate": {"trace": "../other/t.mahi"}}]}, "seed": 1}
    with pytest.raises(InputError, match=OUTSIDE):
        explain_document(content, file=str(folder / "result.json"))


def test_setting_of_the_user_may_name_any_trace(folder: Path) -> None:
    file = str(scenario(folder, RATE))
    trace = f'link.bottleneck.rate={{ trace = "{folder.parent / "other" / "t.mahi"}" }}'
    assert anabranch("run", file, "--set", trace, "--json").returncode == 0


STUDY_MISTAKES = {
    "scenario": ('scenario = "scenario.toml"', 'scenario = "../other/s.toml"', 'scenario "../other/s.toml"'),
    "claims": ('claims = "claims.toml"', 'claims = "../other/c.toml"', 'file "../other/c.toml"'),
    "published": ('file = "published.csv"', 'file = "/etc/passwd"', 'file "/etc/passwd"'),
    "set of a parameter": (
        '"link.bottleneck.rate" = "{capacity} Mbit/s"',
        '"link.bottleneck.rate.trace" = "../other/{capacity}.mahi"',
        'trace "../other/10.mahi"',
    ),
    "choice": (
        "[parameter.congestion]",
        '[parameter.capacity.choice.20]\n"link.bottleneck.rate" = { trace = "/etc/passwd" }\n[parameter.congestion]',
        'trace "/etc/passwd"',
    ),
    "quick form": (
        'warmup = "1 s" }',
        'warmup = "1 s", "link.bottleneck.rate" = { trace = "/etc/passwd" } }',
        'trace "/etc/passwd"',
    ),
}


@pytest.mark.parametrize("kind", STUDY_MISTAKES)
def test_study_names_no_file_outside(tmp_path: Path, kind: str) -> None:
    old, new, named = STUDY_MISTAKES[kind]
    assert old in small_study.STUDY
    study = small_study.write(tmp_path / "own", study=small_study.STUDY.replace(old, new))
    with pytest.raises(InputError, match=rf"study\.toml:?\d*: the {named} {OUTSIDE}"):
        load(study)


def test_template_of_a_study_names_no_trace_outside(folder: Path) -> None:
    text = small_study.SCENARIO.replace(RATE, TRACES[0][0])
    study = small_study.write(folder, scenario=text)
    with pytest.raises(InputError, match=rf'scenario\.toml:8: the file "\.\./other/t\.mahi" {OUTSIDE}'):
        load(study)
    assert load(study, allow_paths=True).scenarios


def test_allowed_study_runs(folder: Path) -> None:
    (folder.parent / "other" / "s.toml").write_text(small_study.SCENARIO, encoding="utf-8")
    text = small_study.STUDY.replace('"scenario.toml"', '"../other/s.toml"')
    study, results = small_study.write(folder, study=text), folder.parent / "results"
    for command in ("run", "report"):
        arguments = ("study", command, str(study), "--quick", "--results", str(results))
        refused = anabranch(*arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert 'the scenario "../other/s.toml" lies outside' in refused.stderr
        assert anabranch(*arguments, "--allow-paths").returncode == 0
    assert run_study(study, quick=True, results=results, jobs=1, allow_paths=True).points()


def test_shipped_studies_may_share_scenarios() -> None:
    assert load(shipped()["lugowski2017-red"]).scenarios
    assert load(Path(__file__).parent.parent / "studies" / "lugowski2017-red").scenarios
