"""The docstrings of the public API name every argument, and the errors of functions that raise them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parent.parent / "docs/reference/python.md"


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and function of each public function and method in the modules of the API page."""
    modules = re.findall(r"`([\w.]+)`", PAGE.read_text(encoding="utf-8").partition("<!-- api -->")[2])
    assert "anabranch.stats" in modules
    for name in modules:
        module = import_module(name)
        own = [n for n in vars(module) if getattr(vars(module)[n], "__module__", "") == name]
        for part in getattr(module, "__all__", own):
            yield from _functions(f"{name}.{part}", getattr(module, part))


def _functions(name: str, found: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    if name.rpartition(".")[2].startswith("_"):
        return
    if inspect.isclass(found):
        for key, member in vars(found).items():
            yield from _functions(f"{name}.{key}", getattr(member, "__func__", member))
    elif inspect.isfunction(found):
        yield name, found


FUNCTIONS = dict(public())


def test_whole_api_is_checked() -> None:
    assert {"anabranch.run", "anabranch.Scenario.set", "anabranch.study.Analysis.estimates"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_docstring_names_arguments_and_errors(name: str) -> None:
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    known = re.findall(r"^    (\w+): ", text.partition("\nArgs:\n")[2].partition("\n\n")[0], re.MULTILINE)
    wanted = [n for n in inspect.signature(function).parameters if n not in ("self", "cls")]
    assert known == wanted
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(source))
    assert not raises or "\nRaises:\n" in text
