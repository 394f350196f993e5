"""Checks every link of the built site: the file has to exist, and so has the anchor within it."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path


class _Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the links of a page, and the anchors that it defines."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


@cache
def _page(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """A sentence for each link of the site that leads nowhere."""
    return [
        f"{file.relative_to(site)}: {fault}: {link}"
        for file in sorted(site.rglob("*.html"))
        for link in _page(file).links
        if (fault := _fault(file, link))
    ]


def count(site: Path) -> tuple[int, int]:
    """Number of pages and of links of a site."""
    files = list(site.rglob("*.html"))
    return len(files), sum(len(_page(file).links) for file in files)


def _fault(file: Path, link: str) -> str:
    """Fault of a link; empty if there is none, or if it leads to another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
        return "no such anchor"
    return ""
