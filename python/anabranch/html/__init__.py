"""Pieces of HTML that notebooks and pages share; all texts are escaped."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(caption: str, heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with words in the first column and numbers in the others; all text is escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heading)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<table><caption style="text-align: left">{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(row: Sequence[str]) -> str:
    first, *others = row
    numbers = "".join(f'<td style="text-align: right">{html.escape(cell)}</td>' for cell in others)
    return f'<td style="text-align: left">{html.escape(first)}</td>{numbers}'


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph; `kind` is a class of the page's styles."""
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    """An unordered list of texts."""
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


def grid(heading: Sequence[str], rows: Iterable[str], numbers: Sequence[bool], caption: str = "") -> str:
    """A table whose rows are HTML, which scrolls where it is wider than the page; `numbers` are set to the right."""
    above = f'<caption style="text-align: left">{html.escape(caption)}</caption>' if caption else ""
    head = "".join(_cell("th", cell, is_number) for cell, is_number in zip(heading, numbers, strict=True))
    table = f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" style="overflow-x: auto">{table}</div>'


def cells(row: Sequence[str], numbers: Sequence[bool]) -> str:
    """The cells of a row of `grid`."""
    return "".join(_cell("td", cell, is_number) for cell, is_number in zip(row, numbers, strict=True))


def _cell(tag: str, text: str, is_number: bool) -> str:
    # Notebooks have none of the page's styles.
    kind = ' class="n" style="text-align: right"' if is_number else ' style="text-align: left"'
    return f"<{tag}{kind}>{html.escape(text)}</{tag}>"


def downloadable(name: str, text: str) -> str:
    """A folded block with a file's text and a link that saves the file; the anchor is "file-" with the name."""
    data = base64.b64encode(text.encode()).decode()
    shown = html.escape(name)
    return (
        f'<details id="file-{shown}"><summary>{shown}</summary>'
        f'<p><a download="{shown}" href="data:application/octet-stream;base64,{data}">Save {shown}</a></p>'
        f"<pre>{html.escape(text)}</pre></details>"
    )


def mbps(rate_bps: float | None) -> str:
    """A rate in Mbit/s; a dash if it is unknown."""
    return "–" if rate_bps is None else f"{rate_bps * 1e-6:.3f}"
