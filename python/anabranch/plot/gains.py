"""Draws the gains of remedies as bars with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from anabranch.explain.finding import MIN_GAIN
from anabranch.plot.style import COLOURS, SETTINGS

if TYPE_CHECKING:
    from anabranch.explain.explanation import Explanation

_MAX_BARS = 16


def draw(explanation: Explanation) -> Canvas:
    """Draw one bar for each remedy that was run, the largest gain at the top."""
    known = [each for each in (*explanation.findings, *explanation.others) if math.isfinite(each.net)][:_MAX_BARS]
    with mpl.rc_context(cast("Any", SETTINGS)):
        canvas = Canvas(figsize=(7.0, 1.2 + 0.3 * len(known)), layout="constrained")
        axes = canvas.subplots()
        for place, finding in enumerate(known):
            assert finding.measured is not None
            colour = COLOURS[0] if finding.is_remedy else "#999999"
            gain, bounds = 100 * finding.measured.relative, finding.measured.interval
            axes.barh(place, gain, 0.7, color=colour, alpha=0.75)
            if bounds is not None:
                axes.hlines(place, 100 * bounds.low, 100 * bounds.high, color="#333333", linewidth=1.2)
        labels = [f"{each.kind} {each.subject}".strip() for each in known]
        axes.set_yticks(range(len(known)), labels)
        axes.invert_yaxis()
        axes.axvline(0.0, color="#333333", linewidth=0.8)
        axes.axvline(100 * MIN_GAIN, color="#666666", linewidth=0.9, linestyle=(0, (5, 3)))
        axes.set_xlabel(f"Gain in {explanation.objective} by one remedy [%]")
        axes.grid(visible=False, axis="y")
        canvas.suptitle(f'Remedies for "{explanation.flow}"', fontsize=9.5)
    return canvas
