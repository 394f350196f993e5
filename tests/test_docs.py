"""What the README and the pages in docs say is true: their commands and examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from anabranch.metrics import METRICS
from anabranch.scenario import Scenario
from anabranch.simulator import version
from command import anabranch

ROOT = Path(__file__).parent.parent


def blocks(file: str, language: str) -> list[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def readme_commands() -> list[list[str]]:
    lines = [line for block in blocks("README.md", "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("anabranch ")]


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half-bottleneck.toml").write_text(blocks("README.md", "toml")[0], encoding="utf-8")
    return tmp_path


def test_readme_commands_on_scenarios(in_folder: Path) -> None:
    commands = [c for c in readme_commands() if c[0] != "study"]
    assert len(commands) >= 5
    for command in commands:
        done = anabranch(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout
    capture = (in_folder / "packets.pcapng").read_bytes()
    assert len(capture) > 1000
    (end,) = re.findall(r'frame.interface_name == "([^"]+)"', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert end.encode() in capture[:10_000]  # the capture begins with its interfaces
    assert (in_folder / "windows.png").stat().st_size > 1000
    assert list((in_folder / "traces").iterdir())


def test_readme_commands_on_studies_are_accepted(in_folder: Path) -> None:
    commands = [c for c in readme_commands() if c[0] == "study"]
    assert commands[0] == ["study", "list"]
    assert "lugowski2017-bottleneck" in anabranch(*commands[0]).stdout
    assert anabranch(*commands[-1]).returncode == 2  # nothing has been run in this folder


def test_readme_python(in_folder: Path) -> None:
    (code,) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})


def test_readme_files_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version()}\n" in text


def test_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    session: dict[str, object] = {}
    for code in blocks("docs/tutorials/first-simulation.md", "python"):
        exec(compile(code, "docs/tutorials/first-simulation.md", "exec"), session)
    printed = capsys.readouterr().out
    assert "lia" in printed
    assert "reno: 0." in printed


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.toml")))
def test_examples_are_valid(example: str) -> None:
    Scenario.from_file(ROOT / "examples" / example)


def test_all_metrics_are_documented() -> None:
    text = (ROOT / "docs/reference/studies.md").read_text(encoding="utf-8")
    for name in METRICS:
        assert f"`{name}`" in text, name
