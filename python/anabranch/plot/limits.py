"""Draws the time of each flow and path by the cause that limited it, as stacked bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from anabranch.errors import InputError
from anabranch.limits import CAUSES, rows
from anabranch.plot.style import COLUMN_WIDTH, SETTINGS, legend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from anabranch._core.document import Document

_COLOURS = {
    "application": "#BBBBBB", "send-buffer": "#CC79A7", "receive-window": "#7A5195", "scheduler": "#E69F00",
    "pacing": "#F0E442", "congestion-avoidance": "#0072B2", "slow-start": "#56B4E9", "recovery": "#009E73",
    "timeout": "#D55E00", "backup": "#DDDDDD", "opening": "#8C6D31", "unusable": "#4D4D4D",
}  # fmt: skip


def draw(document: Document, width: Literal["page", "column"], flows: Sequence[str] = ()) -> Canvas:
    """Draw one bar per flow and path; its parts are the causes.

    Raises:
        InputError: If the run measured no times by cause.

    """
    bars = [row for row in rows(document) if not flows or row.flow in flows]
    causes = [cause for cause in CAUSES if any(row.times.get(cause) for row in bars)]
    if not causes:
        raise InputError("this run has no times by cause; draw windows or sequences instead")
    size = (COLUMN_WIDTH if width == "column" else 6.0, 1.2 + 0.28 * len(bars))
    with mpl.rc_context(cast("Any", SETTINGS)):
        canvas = Canvas(figsize=size, layout="constrained")
        axes = canvas.subplots()
        left = [0.0] * len(bars)
        for cause in causes:
            times = [row.times.get(cause) or 0.0 for row in bars]
            axes.barh(range(len(bars)), times, 0.75, left, color=_COLOURS[cause])
            left = [begin + time for begin, time in zip(left, times, strict=True)]
        axes.set_yticks(range(len(bars)), [row.path or row.flow for row in bars])
        axes.invert_yaxis()
        axes.set_xlabel("Time limited by each cause [s]")
        axes.grid(visible=False, axis="y")
        if document["title"]:
            canvas.suptitle(str(document["title"]), fontsize=9.5)
        legend(canvas, [Patch(color=_COLOURS[cause], label=cause) for cause in causes], 4)
    return canvas
