"""The reference of the Python API: it is built from the docstrings, and these name every argument."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import anabranch
import anabranch.study

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (anabranch, anabranch.study)
    for name in module.__all__
    if name != "Analysis"
}
"""`Analysis` is left out: reports use most of its methods, not users."""
FUNCTIONS = {name: found for name, found in PUBLIC.items() if inspect.isfunction(found)} | {
    f"{name}.{method.__name__}": method
    for name, found in PUBLIC.items()
    if inspect.isclass(found)
    for method in vars(found).values()
    if inspect.isfunction(method) and not method.__name__.startswith("_")
}


def test_reference_has_every_public_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pdoc", "--docformat", "google", "--output-directory", str(tmp_path), "anabranch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "does not resolve" not in done.stderr
    for module, page in ((anabranch, "anabranch.html"), (anabranch.study, "anabranch/study.html")):
        text = (tmp_path / page).read_text(encoding="utf-8")
        listed = [name for name in module.__all__ if f'id="{name}"' in text or f'href="anabranch/{name}.html"' in text]
        assert listed == module.__all__


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_docstring_names_every_argument(name: str) -> None:
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    assert text
    arguments = [argument for argument in inspect.signature(function).parameters if argument != "self"]
    assert [argument for argument in arguments if f"{argument}:" not in text and f"`{argument}`" not in text] == []
