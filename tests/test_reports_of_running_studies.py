"""Reports of a results folder that is not writable, or to which a study is adding runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import fake_simulator
import small_study
from anabranch.cli.study import study as command
from anabranch.study.definition import load
from anabranch.study.store import FILE, Store, read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The results of the study, in the folder where the command looks for them."""
    small_study.write(tmp_path / "study")
    results = tmp_path / "results" / "study" / "full"
    small_study.execute_quietly(load(tmp_path / "study"), results, fake_simulator.simulate)
    return results


def report(tmp_path: Path) -> str:
    found = CliRunner().invoke(command, ["report", str(tmp_path / "study"), "--results", str(tmp_path / "results")])
    assert found.exit_code == 0, found.exception
    return found.output


def test_running_study_has_an_interim_report(tmp_path: Path, folder: Path) -> None:
    with Store(folder), (folder / FILE).open("ab") as file:
        file.write(b"0123 unfinished")
        file.flush()
        before = (folder / FILE).read_bytes()
        output = report(tmp_path)
        assert (folder / FILE).read_bytes() == before
    sentence = "Interim report: the study is still running, and more runs will come."
    assert sentence in " ".join(output.split())
    assert f"**{sentence}**" in (folder / "report.md").read_text()
    assert "Interim report" not in report(tmp_path)


def test_folder_that_is_not_writable_is_read(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: object, flags: int, *rest: int, **options: int) -> int:
        if str(path).startswith(str(folder)) and flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    names = sorted(file.name for file in folder.iterdir())
    output = report(tmp_path)
    assert "A pair of flows" in output
    assert f"{folder} is not writable: no report was written" in output
    assert sorted(file.name for file in folder.iterdir()) == names


def test_damaged_lines_of_a_running_study_are_left_out(folder: Path) -> None:
    content = (folder / FILE).read_bytes().replace(b"repetition 1", b"repetition X", 1)
    with Store(folder):
        (folder / FILE).write_bytes(content)
        found = read(folder)
    assert (len(found.records), found.notes) == (11, [f"{folder / FILE}: 1 damaged line left out"])
