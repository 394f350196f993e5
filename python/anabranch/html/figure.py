"""A figure within a page: its drawing as SVG, places with values under the pointer, and the data of its curves."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
import numpy as np

from anabranch.plot import spots
from anabranch.plot.style import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from anabranch.plot.spots import Spot

    Describe = Callable[[Spot], tuple[str, Sequence[str]]]
    """Text of a spot, and the names of its points within the page."""

_POINTS_PER_INCH = 72.0  # the unit of matplotlib's SVG
_MIN_CURVE_SAMPLES = 20  # fewer are a line between marks, which are spots
_MAX_CURVE_SAMPLES = 400  # more than a screen shows
_SPOT_RADIUS = 5.5
_WIDTH_PER_POINT = 1.7  # pixels of the page for a point of the figure, at most


@dataclass(frozen=True)
class Embedded:
    """A figure and its legend as parts of a page."""

    svg: str
    series: tuple[str, ...]
    """Labels of the series that can be hidden, in their order."""


def embed(
    figure: Figure, name: str, title: str, series: Sequence[str] = (), describe: Describe | None = None
) -> Embedded:
    """A figure as SVG for a page.

    Args:
        figure: The drawing.
        name: Name of the figure, unlike those of all others in the page; it becomes part of identifiers.
        title: Sentence for readers who do not see the figure.
        series: Labels of its series.
        describe: Function that gives the text of a spot; without it, spots are left out.

    """
    drawing = io.BytesIO()
    with mpl.rc_context(cast("Any", SETTINGS)):
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    text = drawing.getvalue().decode("utf-8")
    text = text[text.index("<svg") :].strip().removesuffix("</svg>")
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    prefix = re.sub(r"[^\w]", "-", name)
    # Identifiers are replaced within tags only, because the text of a label may look like one.
    text = re.sub(r"<[^>]+>", lambda tag: _within_page(tag[0], prefix), text)
    width = round(_WIDTH_PER_POINT * figure.get_figwidth() * _POINTS_PER_INCH)
    head = (
        f'<svg style="max-width: {width}px" role="img" aria-label="{html.escape(title)}" class="figure" '
        f'data-curves="{html.escape(json.dumps(_panels(figure), separators=(",", ":")))}"'
    )
    marks = "" if describe is None else "".join(_spot(figure, axes, spot, describe) for axes, spot in spots.of(figure))
    return Embedded(text.replace("<svg", head, 1) + f'<g class="spots">{marks}</g></svg>', tuple(series))


def _within_page(tag: str, prefix: str) -> str:
    """A tag of an SVG with identifiers that no other figure of the page has, and series as classes."""
    tag = re.sub(rf' id="{spots.SERIES}(\d+)-[\d-]+"', r' class="series s\1"', tag)
    tag = re.sub(r' id="([^"]+)"', rf' id="{prefix}-\1"', tag)
    return re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{prefix}-", tag)


def _spot(figure: Figure, axes: Axes, spot: Spot, describe: Describe) -> str:
    """A transparent circle over a value, with the value's text."""
    x, y = _place(figure, *axes.transData.transform((spot.x, spot.y)))
    text, points = describe(spot)
    series = "" if spot.series is None else f" s{spot.series}"
    return (
        f'<circle class="spot{series}" cx="{x:.1f}" cy="{y:.1f}" r="{_SPOT_RADIUS}" '
        f'data-points="{html.escape(" ".join(points))}"><title>{html.escape(text)}</title></circle>'
    )


def _place(figure: Figure, x: float, y: float) -> tuple[float, float]:
    """Coordinates in the SVG of a pixel of the figure; the vertical axis of an SVG points downwards."""
    scale = _POINTS_PER_INCH / figure.dpi
    return x * scale, figure.get_figheight() * _POINTS_PER_INCH - y * scale


def _panels(figure: Figure) -> list[dict[str, object]]:
    """For each panel with curves its rectangle, its horizontal axis, and the values of its curves."""
    labels = _labels(figure)
    # Panels in a column share the label of the lowest.
    shared = next((axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()), "")
    panels: list[dict[str, object]] = []
    for axes in figure.axes:
        curves = [line for line in axes.lines if len(_xs(line)) >= _MIN_CURVE_SAMPLES]
        if not curves or axes.get_xscale() != "linear":
            continue
        left, bottom = _place(figure, axes.bbox.x0, axes.bbox.y0)
        right, top = _place(figure, axes.bbox.x1, axes.bbox.y1)
        panels.append({
            "box": [round(v, 1) for v in (left, top, right, bottom)],
            "x": list(axes.get_xlim()),
            "label": axes.get_xlabel() or shared,
            "curves": [_curve(line, labels) for line in curves],
        })  # fmt: skip
    return panels


def _xs(line: Line2D) -> np.ndarray[Any, Any]:
    return np.asarray(line.get_xdata(), dtype=float)


def _curve(line: Line2D, labels: dict[str, str]) -> dict[str, object]:
    xs, ys = _xs(line), np.asarray(line.get_ydata(), dtype=float)
    chosen = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), _MAX_CURVE_SAMPLES)).astype(int))
    chosen = chosen[np.isfinite(ys[chosen])]
    own = str(line.get_label())
    words = [labels.get(_colour(line), ""), "" if own.startswith("_") else own]
    return {
        "name": ", ".join(word for word in dict.fromkeys(words) if word),
        "x": [_short(v) for v in xs[chosen]],
        "y": [_short(v) for v in ys[chosen]],
    }


def _short(value: float) -> float:
    """A number with five digits, which are enough for a screen."""
    return float(f"{value:.5g}")


def _labels(figure: Figure) -> dict[str, str]:
    """Labels of the legend by colour, for colours of one entry only."""
    entries = [
        (_colour(handle), text.get_text())
        for legend in figure.legends
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if isinstance(handle, mpl.lines.Line2D)
    ]
    colours = [colour for colour, _ in entries]
    return {colour: label for colour, label in entries if colours.count(colour) == 1}


def _colour(line: Line2D) -> str:
    return mpl.colors.to_hex(line.get_color())
