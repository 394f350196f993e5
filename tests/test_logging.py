"""Log lines of the package: events and values, and no output without a handler."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anabranch
import fake_simulator
import small_study
from anabranch.study.definition import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_study_logs_its_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = small_study.write(tmp_path / "study")
    with caplog.at_level(logging.INFO, logger="anabranch"):
        for _ in range(2):
            anabranch.study.run(folder, quick=True, results=tmp_path, jobs=1, backend=fake_simulator.simulate)
    found = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    begun = [text for _, level, text in found if "quick form" in text and level == "INFO"]
    assert begun == [f"study study: 4 runs of the quick form, {stored} of them stored" for stored in (0, 4)]
    finished = [text for name, _, text in found if name == "anabranch.study.engine" and "run finished" in text]
    assert len(finished) == 4
    assert all("pair: capacity = 10, congestion = " in text and text.endswith(" s") for text in finished)


def test_failed_run_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    study = load(small_study.write(tmp_path / "study"))
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.broken)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(text.startswith("run failed: pair: ") for text in warnings)


def test_library_prints_no_log_lines(capfd: pytest.CaptureFixture[str]) -> None:
    anabranch.run(anabranch.Scenario.from_toml(small_study.SCENARIO).set("duration", "3 s").set("warmup", "1 s"))
    assert capfd.readouterr() == ("", "")
