"""The reference of the Python API: its page names the public names, and the docstrings name every argument."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import anabranch
import anabranch.stack.aio
import anabranch.study

PAGE = Path(__file__).parent.parent / "docs/reference/python.md"
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (anabranch, anabranch.study, anabranch.stack, anabranch.stack.aio)
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


def test_reference_names_every_public_name() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [*anabranch.__all__, *anabranch.stack.__all__]
    assert [name for name in names if name != "__version__" and f"`{name}`" not in text] == []


def test_modules_of_the_reference_can_be_imported() -> None:
    _, _, marked = PAGE.read_text(encoding="utf-8").partition("<!-- api -->")
    modules = re.findall(r"`([\w.]+)`", marked)
    assert "anabranch.study" in modules
    assert [module for module in modules if not (importlib.import_module(module).__doc__ or "").strip()] == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_docstring_names_every_argument(name: str) -> None:
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    assert text
    arguments = [argument for argument in inspect.signature(function).parameters if argument != "self"]
    assert [argument for argument in arguments if f"{argument}:" not in text and f"`{argument}`" not in text] == []
