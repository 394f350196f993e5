"""The prose lint finds each construction, in each kind of file, and nothing in code, quotations and questions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from prose import lint

if TYPE_CHECKING:
    from pathlib import Path


def rules(path: str, source: str) -> list[str]:
    return [hit.rule for hit in lint.hits_of(path, source)[0]]


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("Who asks gets an answer.", "free relative clause as a subject"),
        ("It ends. What waits is dropped.", "free relative clause as a subject"),
        ("A list of what came.", "free relative clause as an object"),
        ("It belongs to nobody.", "person for a program"),
        ("The stream begins anew.", "archaism"),
        ("It sends so many bytes.", "vague quantity"),
        ("The field tells the rate.", "speech of data"),
    ],
)
@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a.rs", "/// {}\nfn f() {{}}\n"),
        ("a.rs", 'const TEXT: &str = "{}";\n'),
        ("a.py", '"""{}"""\n'),
        ("a.py", "x = 1  # {}\n"),
        ("a.py", 'x = "{}"\n'),
        ("a.c", "/* {} */\n"),
        ("a.md", "# Title\n\n{}\n"),
        ("a.toml", "x = 1\n# {}\n"),
        ("a.toml", 'title = "{}"\n'),
        ("x.schema.json", '{{"description": "{}"}}'),
    ],
)
def test_construction_is_found(sentence: str, rule: str, path: str, form: str) -> None:
    assert rules(path, form.format(sentence)) == [rule]


def test_code_quotations_and_questions_are_skipped() -> None:
    assert rules("a.md", 'Call `what(who)`; a client says "what is said". What is a subflow?\n') == []
    assert rules("a.md", "```\nWho asks\n```\n| what | who |\n") == []
    assert rules("a.rs", 'let key = "beside";\n') == []


def test_names_are_checked() -> None:
    long = "a" * 51
    assert rules("a.rs", f"#[test]\nfn {long}() {{}}\n") == ["long test name"]
    assert rules("a.py", f"def test_{long}(): pass\n") == ["long test name"]
    assert rules("a.rs", "const MOST: u8 = 1;\nconst MOST_PATHS: u8 = 1;\n") == ["constant without noun and unit"]
    assert rules("a.rs", "#[test]\nfn nobody_is_heard() {}\n") == ["person for a program"]


def test_folder_above_its_limit_is_refused() -> None:
    assert lint.compare(Counter({"docs": 3, "python": 1}), {"docs": 3, "python": 1}) == []
    (complaint,) = lint.compare(Counter({"docs": 4}), {"docs": 3})
    assert complaint.startswith("docs: 4 hits, at most 3 allowed")


def test_limit_is_never_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "LIMITS", tmp_path / "limits.toml")
    lint.update(Counter({"docs": 5, "python": 1}), {"docs": 3, "python": 4}, ["docs", "python"])
    assert '"docs" = 3' in lint.LIMITS.read_text()
    assert '"python" = 1' in lint.LIMITS.read_text()


def test_exceptions_have_reasons_and_a_limit() -> None:
    assert len(lint.exceptions()) <= lint.MAX_EXCEPTIONS
