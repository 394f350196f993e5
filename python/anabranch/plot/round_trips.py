"""Draws the round-trip times of observed pairs as boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from anabranch.plot.style import SETTINGS, look, settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PAIR_WIDTH = 1.1  # inches


def draw(medians_s: Mapping[str, Sequence[float]], title: str) -> Canvas:
    """Draw a box for each pair: the median round-trip times of its observations.

    Args:
        medians_s: The median of each observation, seconds, by the label of the pair.
        title: Title of the figure.

    """
    with mpl.rc_context(cast("Any", SETTINGS)):
        canvas = Canvas(figsize=(max(3.5, 1.0 + _PAIR_WIDTH * len(medians_s)), 3.0), layout="constrained")
        axes = canvas.subplots()
        colour = look(0)[0]
        axes.boxplot(
            [[1e3 * value for value in values] for values in medians_s.values()], widths=0.5, patch_artist=True,
            boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.75}, medianprops={"color": "black"},
            whiskerprops={"color": colour}, capprops={"color": colour},
            flierprops={"markeredgecolor": colour, "markersize": 3.0},
        )  # fmt: skip
        axes.set_xticks(range(1, len(medians_s) + 1), list(medians_s))
        axes.set_ylabel("Median round-trip time [ms]")
        axes.set_ylim(bottom=0.0)
        canvas.suptitle(title, fontsize=9.5)
        settle(canvas)
    return canvas
