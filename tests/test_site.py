"""The parts of the documentation site that need no generator: staging of the documents, and the check of links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs/README.md"


def module(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / f"docs/site/{name}.py"))


def test_every_document_becomes_a_page(tmp_path: Path) -> None:
    module("stage")["stage"](tmp_path / "source")
    staged = {file.relative_to(tmp_path / "source").as_posix() for file in (tmp_path / "source").rglob("*.md")}
    documents = {file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert documents <= staged
    index = (tmp_path / "source/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^[\w./-]+$", "\n".join(re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL)), re.MULTILINE)
    assert sorted(f"{page}.md" for page in listed) == sorted(staged - {"index.md"})


def test_staged_links_resolve(tmp_path: Path) -> None:
    source = tmp_path / "source"
    module("stage")["stage"](source)
    for page in source.rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s#]+)", text):
            assert (page.parent / target).resolve().is_file(), f"{page.relative_to(source)}: {target}"


def test_docstrings_take_the_place_of_their_mark(tmp_path: Path) -> None:
    module("stage")["stage"](tmp_path / "source")
    text = (tmp_path / "source/reference/python.md").read_text(encoding="utf-8")
    assert "<!-- api -->" not in text
    assert ".. automodule:: anabranch\n   :members:\n   :imported-members:" in text
    assert ".. automodule:: anabranch.stats\n   :members:\n```" in text
    # Sphinx refuses a second description of the same class.
    assert ":: anabranch.stack.aio\n   :members:\n   :imported-members:\n   :exclude-members: Message, Tun\n" in text


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("b.html", ""),
        ("b.html#there", ""),
        ("#here", ""),
        ("https://example.org/", ""),
        ("c.html", "a.html: no such file: c.html"),
        ("b.html#nowhere", "a.html: no such anchor: b.html#nowhere"),
        ("#there", "a.html: no such anchor: #there"),
    ],
)
def test_broken_link_is_found(tmp_path: Path, link: str, fault: str) -> None:
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">x</a></p>', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there">x</p>', encoding="utf-8")
    assert module("links")["broken"](tmp_path) == ([fault] if fault else [])


def test_lock_pins_every_package() -> None:
    lines = (ROOT / "docs/site/requirements.lock").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    names = {line.partition("==")[0].lower() for line in lines}
    assert {"sphinx", "myst-parser", "furo"} <= names
    usual = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower()
    assert "sphinx" not in usual
