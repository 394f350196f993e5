"""Times of flows and paths by the cause that limited their sending, from result documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch._core.document import Document

CAUSES = {
    "application": "app", "send-buffer": "sndbuf", "receive-window": "rwnd", "scheduler": "sched", "pacing": "pacing",
    "congestion-avoidance": "cwnd", "slow-start": "slow s.", "recovery": "recov.", "timeout": "timeout",
    "backup": "backup", "opening": "opening", "unusable": "down",
}  # fmt: skip
"""The causes in the order of Rust's `Limit`, each with its title in tables."""

_MIN_SHOWN_SHARE = 0.01
"""A table has a column for a cause that limits a flow or a path for at least this share of its time."""


@dataclass(frozen=True)
class Row:
    """Times for which each cause limited a flow or one of its paths."""

    flow: str
    path: str
    """Name of the path; empty for the flow itself."""
    times: Mapping[str, float | None]
    """Seconds by cause; `None` if unknown."""


def rows(document: Document) -> Iterator[Row]:
    """Each flow, and after it its paths if there are several."""
    for flow in document["flows"]:
        yield Row(flow["name"], "", flow.get("limited_s", {}))
        for path in flow["paths"] if len(flow["paths"]) > 1 else []:
            yield Row(flow["name"], path["name"], path.get("limited_s", {}))


def shown(document: Document) -> list[str]:
    """The causes that a table has columns for."""
    return [cause for cause in CAUSES if any(_is_large(row.times, cause) for row in rows(document))]


def _is_large(times: Mapping[str, float | None], cause: str) -> bool:
    life = sum(time or 0.0 for time in times.values())
    return (times.get(cause) or 0.0) > _MIN_SHOWN_SHARE * life
