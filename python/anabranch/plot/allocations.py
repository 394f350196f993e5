"""Draws fair allocations as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from anabranch.plot.style import COLOURS, SETTINGS, legend

if TYPE_CHECKING:
    from anabranch.fairness.shares import Fairness
    from anabranch.plot.style import Style

_GROUP_WIDTH = 0.8
"""Width of a flow's bars as a share of the distance between flows."""


def draw(fairness: Fairness) -> Canvas:
    """Draw one bar per flow and allocation; bars of infeasible allocations are hatched."""
    flows, names = list(fairness.subflows), list(fairness.allocations)
    width = _GROUP_WIDTH / len(names)
    with mpl.rc_context(cast("Any", SETTINGS)):
        canvas = Canvas(figsize=(max(3.5, 0.8 + 1.1 * len(flows)), 2.9), layout="constrained")
        axes = canvas.subplots()
        handles = []
        for index, name in enumerate(names):
            shift = (index - (len(names) - 1) / 2.0) * width
            look: Style = {"color": COLOURS[index % len(COLOURS)], "alpha": 0.75}
            if not fairness.feasible[name]:
                look |= {"hatch": "////", "edgecolor": "white"}
            heights = [fairness.allocations[name][flow] * 1e-6 for flow in flows]
            axes.bar([at + shift for at in range(len(flows))], heights, 0.9 * width, **look)
            handles.append(Patch(label=name if fairness.feasible[name] else f"{name} (not feasible)", **look))
        for at, flow in enumerate(flows):
            alone = fairness.alone_bps[flow] * 1e-6
            axes.hlines(
                alone,
                at - 0.5 * _GROUP_WIDTH,
                at + 0.5 * _GROUP_WIDTH,
                color="#666666",
                linewidth=0.9,
                linestyle=(0, (5, 3)),
            )
        axes.set_xticks(range(len(flows)), flows)
        axes.set_ylabel("Rate [Mbit/s]")
        axes.grid(visible=False, axis="x")
        if fairness.title:
            canvas.suptitle(fairness.title, fontsize=9.5)
        legend(canvas, handles, 5, title="dashed: the flow alone")
    return canvas
