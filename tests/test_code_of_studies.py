"""Functions in Python that a study names as metrics: values, and refusals without permission or with mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import anabranch
import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.study.definition import load
from command import anabranch as command

if TYPE_CHECKING:
    from pathlib import Path

METRIC = """
[metric.flows-counted]
function = "metrics.py:count"
label = "Flows"

[metric.twice]
expr = "2 * flows-counted"

[parameter.capacity]"""
CODE = "def count(document):\n    return len(document['flows']) or None\n"


def write(folder: Path, code: str = CODE, metric: str = METRIC) -> Path:
    text = small_study.STUDY.replace("\n[parameter.capacity]", metric, 1).replace('metric = "goodput"\n', "", 1)
    written = small_study.write(folder / "study", study=text)
    (written / "metrics.py").write_text(code, encoding="utf-8")
    return written


def test_function_of_the_study_is_a_metric(tmp_path: Path) -> None:
    found = anabranch.study.run(
        write(tmp_path), quick=True, results=tmp_path / "results", jobs=1, backend=fake_simulator.simulate,
        allow_code=True,
    )  # fmt: skip
    point = found.points()[0]
    assert found.samples(point, "flows-counted") == {"": [2.0, 2.0]}
    assert found.samples(point, "twice") == {"": [4.0, 4.0]}
    assert found.study.metrics["flows-counted"].axis == "Flows"


def test_code_is_refused_without_permission(tmp_path: Path) -> None:
    folder = write(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n{CODE}")
    for words in (("run", "--quick"), ("report",)):
        done = command("study", words[0], str(folder), *words[1:], "--results", str(tmp_path / "results"))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "then add --allow-code" in done.stderr
        assert "study.toml:" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("code", "change", "message"),
    [
        (CODE, ("metrics.py:count", "metrics.py"), 'has to be FILE.py:NAME, not "metrics.py"'),
        (CODE, ("metrics.py:count", "metrics.py:counts"), 'the file "metrics.py" has no function "counts"'),
        (CODE, ("metrics.py:count", "other.py:count"), 'the file "other.py" cannot be read: No such file'),
        (CODE, ("metrics.py:count", "../metrics.py:count"), "lies outside the folder of this file"),
        (CODE, ('label = "Flows"', 'expr = "1"'), '"function" cannot be combined with "expr"'),
        ("def count(:", ("", ""), "metrics.py: cannot be run: SyntaxError"),
        ("1 / 0", ("", ""), "metrics.py: cannot be run: ZeroDivisionError"),
        ("raise SystemExit(3)", ("", ""), "metrics.py: cannot be run: SystemExit"),
    ],
)
def test_wrong_code_is_refused(tmp_path: Path, code: str, change: tuple[str, str], message: str) -> None:
    folder = write(tmp_path, code, METRIC.replace(*change, 1))
    with pytest.raises(InputError) as caught:
        load(folder, allow_code=True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return document['no key']", "failed: KeyError"),
        ("raise SystemExit(3)", "failed: SystemExit"),
        ("return float('inf')", "returned inf; return None where there is no value"),
        ("return float('nan')", "returned nan; return None where there is no value"),
    ],
)
def test_failing_function_is_reported(tmp_path: Path, body: str, message: str) -> None:
    folder = write(tmp_path, f"def count(document):\n    {body}\n")
    with pytest.raises(InputError, match=f'the function "count" {message}'):
        anabranch.study.run(
            folder, quick=True, results=tmp_path / "results", jobs=1, backend=fake_simulator.simulate, allow_code=True
        )


def test_function_cannot_change_the_document(tmp_path: Path) -> None:
    code = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n"
        "@dataclass\nclass Count:\n    of: int\n\n\n"
        "def count(document):\n    document['flows'].clear()\n    return Count(2).of\n"
    )
    found = anabranch.study.run(
        write(tmp_path, code), quick=True, results=tmp_path / "results", jobs=1, backend=fake_simulator.simulate,
        allow_code=True,
    )  # fmt: skip
    point = found.points()[0]
    assert found.samples(point, "flows-counted") == {"": [2.0, 2.0]}
    assert len(found.samples(point, "goodput")) == 2
