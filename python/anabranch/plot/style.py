"""How all figures look: sizes, fonts, and colours that people with colour blindness can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
REFERENCE_STYLES = ((0, (5, 3)), (0, (1, 2)), (0, (5, 2, 1, 2)))

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "figure.dpi": 100,
    "svg.hashsalt": "anabranch",
    "svg.fonttype": "path",
}


def look(index: int) -> tuple[str, str]:
    """Colour and marker of the n-th line; no two of the first 64 are alike."""
    return COLOURS[index % len(COLOURS)], MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, the same bytes for the same figure; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with mpl.rc_context(cast("Any", SETTINGS)):
        figure.savefig(png, dpi=200)
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
