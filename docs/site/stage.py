"""Copies the documents to the source folder of the site, with the links and the navigation that the site needs.

The documents keep the layout that a reader of the repository sees. The site needs three changes: its root page is the
index of docs/, documents of the repository's root are pages in `project/`, and files that are no pages are copied to
`files/`. The navigation is made from the tables of the index, so a page is listed in one place.
"""

from __future__ import annotations

import os
import re
import shutil
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs/README.md"
PROJECT_PAGES = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "project/examples.md",
    "fuzz/README.md": "project/fuzzing.md",
    "crates/proof/README.md": "project/proofs.md",
    "vectors/congestion/README.md": "project/vectors.md",
}
"""Pages of the site from documents outside of docs/, by their path in the repository."""
API_MARK = "<!-- api -->"
"""Place in a document where the site shows docstrings: the next lines, up to a blank line, name modules."""

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def stage(target: Path) -> None:
    """Write all sources of the site to the folder `target`, which is emptied before."""
    shutil.rmtree(target, ignore_errors=True)
    # Resolved, because examples/ is a link to a folder of the package.
    pages = {file.resolve(): target / _page_of(file) for file in _documents()}
    files: dict[Path, Path] = {}
    for file, page in pages.items():
        page.parent.mkdir(parents=True, exist_ok=True)
        text = _rewritten(file, page, pages, files, target)
        text = _with_api(text)
        page.write_text(text + _navigation() if file == INDEX else text, encoding="utf-8")
    for file, copy in files.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def _documents() -> list[Path]:
    """All documents that become pages."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [*found, *(ROOT / name for name in PROJECT_PAGES if (ROOT / name).exists())]


def _page_of(file: Path) -> str:
    """Path of a document's page within the site's source folder."""
    if file == INDEX:
        return "index.md"
    name = file.relative_to(ROOT).as_posix()
    return PROJECT_PAGES.get(name) or name.removeprefix("docs/")


def _rewritten(file: Path, page: Path, pages: dict[Path, Path], files: dict[Path, Path], target: Path) -> str:
    """Text of a document with links that hold within the site."""

    def replace(link: re.Match[str]) -> str:
        name, anchor = link[1], link[2] or ""
        linked = (file.parent / name).resolve()
        if linked in pages:
            place = pages[linked]
        elif linked.is_file():
            place = files.setdefault(linked, _copy_of(linked, target))
        else:
            raise SystemExit(f"{file.relative_to(ROOT)}: no file {name}, which a link names")
        return f"]({os.path.relpath(place, page.parent)}{anchor})"

    parts = _FENCE.split(file.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else _LINK.sub(replace, part) for part in parts)


def _copy_of(file: Path, target: Path) -> Path:
    """Path, in the site's source folder, of a file that is no page."""
    name = file.relative_to(ROOT).as_posix()
    return target / (name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}")


def _with_api(text: str) -> str:
    """A page in which directives for docstrings replace the mark and the names of modules after it."""
    before, mark, rest = text.partition(API_MARK)
    if not mark:
        return text
    names, _, after = rest.strip("\n").partition("\n\n")
    described: set[int] = set()
    blocks = [_docstrings(module, described) for module in re.findall(r"`([\w.]+)`", names)]
    return before + "\n\n".join([*blocks, after]).rstrip() + "\n"


def _docstrings(module: str, described: set[int]) -> str:
    """A section with the docstrings of a module: of the names that it exports, or else of its public ones.

    Objects that another module of the page exports too are described once; `described` has their identities.
    """
    found = import_module(module)
    exported = {name: id(getattr(found, name)) for name in getattr(found, "__all__", ())}
    again = sorted(name for name, identity in exported.items() if identity in described)
    described.update(exported.values())
    options = ["   :members:"]
    if exported:
        options.append("   :imported-members:")
    if again:
        options.append(f"   :exclude-members: {', '.join(again)}")
    return "\n".join([f"## {module}", "", "```{eval-rst}", f".. automodule:: {module}", *options, "```"])


def _navigation() -> str:
    """Hidden tables of contents, one for each section of the index that lists pages in a table."""
    text = INDEX.read_text(encoding="utf-8")
    heads = list(_SECTION.finditer(text))
    parts = []
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        section = text[head.end() : following.start() if following else len(text)]
        linked = re.findall(r"^\| \[[^]]+\]\(([^)#]+\.md)\)", section, re.MULTILINE)
        pages = [_page_of(Path(os.path.normpath(INDEX.parent / name))).removesuffix(".md") for name in linked]
        if pages:
            lines = "\n".join(pages)
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {head[1]}\n\n{lines}\n```")
    return "\n" + "\n\n".join(parts) + "\n"
