"""Tables in HTML, for notebooks."""

from __future__ import annotations

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


def mbps(rate_bps: float | None) -> str:
    """A rate in Mbit/s; a dash if it is unknown."""
    return "–" if rate_bps is None else f"{rate_bps * 1e-6:.3f}"
