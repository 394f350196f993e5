"""A kind of figure is one file: its keys reach reader and schema, and one without a drawing does not load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import small_study
from anabranch.errors import InputError
from anabranch.plot import kinds
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.schema import schema

PLANTED = """
from typing import Annotated

from matplotlib.figure import Figure as Canvas
from msgspec import Meta

from anabranch.study.figures import Key, Kind


class Blank(Kind):
    name = "blank"
    keys = (Key("tint", Annotated[str, Meta(description="Colour of the figure.")], "grey"),)

    def draw(self, figure, analysis, traces):
        return Canvas(facecolor=figure.options["tint"])


KIND = Blank()
"""

FIGURE = """
[[figure]]
name = "planted"
kind = "blank"
tint = "green"
"""


def plant(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a file of a kind and its line in the registry."""
    folder.mkdir()
    (folder / "planted.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(folder)])
    monkeypatch.delitem(__import__("sys").modules, "anabranch.plot.kinds.planted", raising=False)
    kind = kinds.kind_of("planted")
    monkeypatch.setitem(kinds.KINDS, kind.name, kind)


def test_planted_kind_is_read_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path / "kinds", PLANTED, monkeypatch)
    study = load(small_study.write(tmp_path / "study", study=small_study.STUDY + FIGURE))
    figure = study.figures[-1]
    canvas = figure.kind.draw(figure, Analysis(study, study.full, {}), None)
    assert canvas is not None
    assert canvas.get_facecolor()[:3] == pytest.approx((0.0, 0.5, 0.0), abs=0.01)
    properties = schema()["$defs"]["FigureKeys"]["properties"]
    assert "blank" in properties["kind"]["enum"]
    assert properties["tint"] == {"type": "string", "description": "Colour of the figure.", "default": "grey"}


def test_kind_without_drawing_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PLANTED.replace("def draw(", "def paint(")
    with pytest.raises(TypeError, match=r"abstract.*draw"):
        plant(tmp_path / "kinds", text, monkeypatch)


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (
            "lines",
            'x = "capacity"\nwindow = [1, 2]',
            '"window" belongs to figures of kind windows or time or queues, not "lines"',
        ),
        ("bar", 'x = "capacity"\nlog_x = true', '"log_x" belongs to figures of kind lines or cdf'),
        ("windows", 'series = "capacity"', '"series" belongs to figures of kind lines or bar or box or cdf'),
        ("curves", "", '"kind" cannot be "curves"'),
    ],
)
def test_key_of_another_kind_is_refused(tmp_path: Path, kind: str, more: str, message: str) -> None:
    text = f'{small_study.STUDY}\n[[figure]]\nname = "f"\nkind = "{kind}"\ncolumns = "congestion"\n{more}\n'
    with pytest.raises(InputError) as caught:
        load(small_study.write(tmp_path / "study", study=text))
    assert message in str(caught.value)
    assert "study.toml:" in str(caught.value)


def test_every_kind_is_listed_and_documented() -> None:
    folder = Path(kinds.__file__).parent
    files = {file.stem for file in folder.glob("*.py") if re.search(r"^KIND = ", file.read_text("utf-8"), re.MULTILINE)}
    assert files == {type(kind).__module__.rpartition(".")[2] for kind in kinds.KINDS.values()}
    page = (Path(__file__).parents[1] / "docs/reference/studies.md").read_text(encoding="utf-8")
    assert [name for name in kinds.KINDS if f"\n| `{name}` |" not in page] == []
