"""The rules of explanations can be translated for the page, and other Python is refused with its place."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "lab" / "rules"


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Translates the text of one definition, without other modules."""
    monkeypatch.syspath_prepend(str(FOLDER))
    expressions = importlib.import_module("expressions")
    statements = importlib.import_module("statements")

    def translate(text: str) -> str:
        known = expressions.Expressions(lambda _: None, lambda target: target.name, lambda _: False)
        return str(statements.Statements(known).definition("f", ast.parse(text).body[0]))

    return translate


def test_rules_are_translated(tmp_path: Path) -> None:
    out = tmp_path / "rules.js"
    subprocess.run([sys.executable, str(FOLDER), str(out)], check=True)
    text = out.read_text(encoding="utf-8")
    assert "explanation_explain as explain" in text
    assert "endpoint_remedies_receive_buffer" in text
    # The page has these itself.
    assert "highspy" not in text
    assert "host.Trials(" in text


def test_page_has_each_built_in_method_of_rules(tmp_path: Path) -> None:
    """A missing one, such as `extend` of lists, would end each explanation of the page."""
    out = tmp_path / "rules.js"
    subprocess.run([sys.executable, str(FOLDER), str(out)], check=True)
    text = out.read_text(encoding="utf-8")
    built_in = {name for kind in (list, str, dict, set) for name in dir(kind)}
    called = built_in & set(re.findall(r', "(\w+)", \[', text))
    sources = (file.read_text(encoding="utf-8") for file in (FOLDER.parent / "src" / "explain").glob("*.ts"))
    known = {name for source in sources for name in re.findall(r"^  (\w+)[:(]", source, re.MULTILINE)}
    assert "append" in called
    assert called <= known, called - known


def test_makefile_lists_the_translated_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    main = importlib.import_module("translation")
    made = main.Translation()
    made.text(main.ENTRIES)
    makefile = (FOLDER.parents[1] / "Makefile").read_text(encoding="utf-8")
    patterns = re.findall(r"^LAB_RULE_MODULES := (.*)$", makefile, re.MULTILINE)[0].split()
    package = FOLDER.parents[1] / "python" / "anabranch"
    listed = {file for pattern in patterns for file in package.glob(pattern)}
    assert made.files <= listed


def test_functions_keep_names_and_defaults(translated: Any) -> None:
    text = translated("def f(a, *, b=2):\n    c = a[1:]\n    return c or b")
    assert text == (
        "function f(a, b = 2) {\nlet c;\nc = $.slice(a, 1, null);\nreturn $.or_(c, () => b);\n}\n"
        'f.names = ["a", "b"];\n'
    )


def test_reserved_words_become_other_names(translated: Any) -> None:
    assert "function f(new_)" in translated("def f(new):\n    return new")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("def f(a):\n    return a @ a", "BinOp", 2),
        ("def f(a):\n    x = 1\n    return unknown(a)", "unknown is unknown", 3),
        ("def f(*a):\n    return a", "only parameters with names", 1),
        ("def f(a):\n    return a[::2]", "a slice with a step", 2),
        ("def f(a):\n    return g(**a)", "", 2),
        ("class f(Base):\n    pass", "a class with a base", 1),
        ("def f(a):\n    del a", "Delete", 2),
        ("async def f(a):\n    pass", "AsyncFunctionDef", 1),
    ],
)
def test_other_python_is_refused_with_its_line(translated: Any, text: str, message: str, line: int) -> None:
    unsupported = sys.modules["expressions"].UnsupportedError
    with pytest.raises(unsupported) as caught:
        translated(text)
    assert message in str(caught.value)
    assert caught.value.line == line
