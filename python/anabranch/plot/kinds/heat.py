"""Heat maps: a metric over two parameters, one cell for each pair of values.

A cell combines all points and subjects that match its values and its panel: it shows the mean, the median, the smallest
or the largest of their centres.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure as Canvas
from msgspec import Meta

from anabranch.plot import spots
from anabranch.plot.appearance import GREY
from anabranch.plot.marks import TOGETHER, is_drawn
from anabranch.plot.style import SETTINGS, settle
from anabranch.study.figures import Key, Kind
from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from anabranch.study.analysis import Analysis
    from anabranch.study.figures import Figure
    from anabranch.sweep import Point, Value

    Cells = np.ndarray[Any, np.dtype[np.float64]]

_MAX_NUMBERED_CELLS = 360  # a figure with more cells has no room for their numbers
_NUMBERED_CELL = (0.37, 0.2)  # inches, width and height of a cell with its number
_BARE_CELL = (0.17, 0.125)
_SMALL_CELL = (0.17, 0.108)  # inches, of one of several panels
_PALETTE = "cividis"  # uniform in lightness, and readable with colour blindness
_GREY_PALETTE = "gray"
_MARGINS = (2.6, 1.5)  # inches for labels, titles and the colour bar
_PANEL_GAP, _TITLED_PANEL_GAP = 0.1, 0.25  # inches between two rows of panels, without and with titles
_MAX_COLUMN_HEIGHT = 13.0  # inches of a column of panels
_MIN_BAR_HEIGHT = 3.0  # inches of the colour bar
_BAR_LABEL_CHARACTERS = 36  # in a line of the colour bar's label
_WHITE_BELOW = 0.5  # share of the range of colours; numbers on darker cells are white


class Heat(Kind):
    """A map of cells for each row and column."""

    name = "heat"
    required = ("x", "y")
    optional = frozenset({"metric", "rows", "together"})
    keys = (
        GREY,
        Key(
            "log_colour",
            Annotated[bool, Meta(description="Whether the colours of a heat map are logarithmic.")],
            default=False,
        ),
    )

    def draw(self, figure: Figure, analysis: Analysis, traces: object) -> Canvas | None:
        """Draw the maps; traces are not needed."""
        del traces
        points = [p for p in analysis.points() if p.experiment == figure.experiment and matches(p.values, figure.where)]
        if not points:
            return None
        rows, columns = _values(points, figure.rows), _values(points, figure.columns)
        xs, ys = _values(points, figure.x), _values(points, figure.y)
        cells = {
            (r, c): _cells(figure, analysis, _panel(points, figure, r, c), (xs, ys)) for r in rows for c in columns
        }
        numbered = len(cells) * len(xs) * len(ys) <= _MAX_NUMBERED_CELLS
        width, height = _NUMBERED_CELL if numbered else _BARE_CELL if len(cells) == 1 else _SMALL_CELL
        grid = _grid(rows, columns, height * len(ys) + _PANEL_GAP)
        is_folded = len(grid) < len(rows)
        between = _TITLED_PANEL_GAP if is_folded else _PANEL_GAP
        size = (_MARGINS[0] + width * len(xs) * len(grid[0]), _MARGINS[1] + (height * len(ys) + between) * len(grid))
        with mpl.rc_context(cast("Any", {**SETTINGS, "axes.grid": False})):
            canvas = Canvas(figsize=size, layout="constrained")
            axes = canvas.subplots(len(grid), len(grid[0]), sharex=True, sharey=True, squeeze=False)
            norm = _norm(figure, list(cells.values()))
            for panel, key in zip(axes.flat, (key for line in grid for key in line), strict=True):
                if key is None:
                    panel.set_visible(False)
                    continue
                image = panel.imshow(
                    cells[key], cmap=_GREY_PALETTE if figure.is_grey else _PALETTE, norm=norm, aspect="auto"
                )
                if numbered:
                    _number(panel, cells[key], norm)
                _add_spots(panel, figure, _panel(points, figure, *key), cells[key], (xs, ys))
                if is_folded:
                    panel.set_title(analysis.study.parameters[figure.rows].show(key[0]))
            _label(axes, figure, analysis, (xs, ys))
            if not is_folded:
                _title_panels(axes, figure, analysis, (rows, columns))
            bar = canvas.colorbar(image, ax=axes, shrink=min(1.0, _MIN_BAR_HEIGHT / size[1] + 0.2), aspect=25, pad=0.02)
            bar.set_label(textwrap.fill(_meaning(figure, analysis), _BAR_LABEL_CHARACTERS), fontsize=8.0)
            canvas.suptitle(figure.title, fontsize=9.5)
            settle(canvas)
        return canvas


KIND = Heat()


def _grid(rows: list[Value], columns: list[Value], height: float) -> list[list[tuple[Value, Value] | None]]:
    """Panels by row and column; one column that is too high for a page becomes several. `None` is an empty place."""
    if len(columns) > 1 or height * len(rows) <= _MAX_COLUMN_HEIGHT:
        return [[(row, column) for column in columns] for row in rows]
    width = math.ceil(height * len(rows) / _MAX_COLUMN_HEIGHT)
    panels = [(row, columns[0]) for row in rows]
    lines = [panels[i : i + width] for i in range(0, len(panels), width)]
    return [[*line, *[None] * (width - len(line))] for line in lines]


def _cells(figure: Figure, analysis: Analysis, points: Sequence[Point], axes: tuple[list[Value], list[Value]]) -> Cells:
    """The value of each cell of a panel, one row per value of `y`; NaN if no point has a value."""
    found: dict[tuple[Value, Value], list[float]] = {}
    for point in points:
        estimates = analysis.estimates(point, figure.metric)
        place = (point.values[figure.y], point.values[figure.x])
        found.setdefault(place, []).extend(e.centre for s, e in estimates.items() if is_drawn(figure, s))
    together = TOGETHER[figure.together or "mean"]
    xs, ys = axes
    return np.array([[together(found[y, x]) if found.get((y, x)) else math.nan for x in xs] for y in ys])


def _norm(figure: Figure, panels: Sequence[Cells]) -> Normalize:
    """The range of colours, the same in all panels."""
    values = np.concatenate([cells.ravel() for cells in panels])
    shown = values[np.isfinite(values) & ((values > 0.0) if figure.options["log_colour"] else True)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.1, 1.0)
    return LogNorm(low, high) if figure.options["log_colour"] else Normalize(low, high)


def _add_spots(
    axes: Axes, figure: Figure, points: Sequence[Point], cells: Cells, values: tuple[list[Value], list[Value]]
) -> None:
    """Record a spot for each cell with a value."""
    xs, ys = values
    found: dict[tuple[Value, Value], list[Point]] = {}
    for point in points:
        found.setdefault((point.values[figure.y], point.values[figure.x]), []).append(point)
    for (y, x), value in np.ndenumerate(cells):
        if math.isfinite(value):
            spots.add(axes, spots.Spot(x, y, None, None, tuple(found[ys[y], xs[x]]), float(value)))


def _number(axes: Axes, cells: Cells, norm: Normalize) -> None:
    for (y, x), value in np.ndenumerate(cells):
        if math.isfinite(value):
            level = norm(value)  # masked at 0 of a logarithmic range, where the cell is white
            colour = "white" if not np.ma.is_masked(level) and float(level) < _WHITE_BELOW else "black"
            axes.text(x, y, _short(value), ha="center", va="center", fontsize=6.5, color=colour)


def _short(value: float) -> str:
    """A value in at most four characters, which fit a cell."""
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0  # noqa: PLR2004
    return f"{value:.{decimals}f}" if abs(value) < 9999.5 else f"{value / 1000.0:.0f}k"  # noqa: PLR2004


def _label(axes: Any, figure: Figure, analysis: Analysis, values: tuple[list[Value], list[Value]]) -> None:
    """Label the axes with the parameters and their values."""
    parameters = analysis.study.parameters
    xs, ys = values
    for column in axes.T:
        panel = [panel for panel in column if panel.get_visible()][-1]
        panel.set_xticks(range(len(xs)), [plain(x) for x in xs], rotation=90)
        panel.set_xlabel(parameters[figure.x].axis)
        panel.tick_params(labelbottom=True)
    for panel in axes[:, 0]:
        panel.set_yticks(range(len(ys)), [plain(y) for y in ys])
        panel.set_ylabel(parameters[figure.y].axis)
    for panel in axes.flat:
        panel.tick_params(length=0.0)
        panel.spines[:].set_visible(False)
    if len(ys) * len(axes) > len(ys):
        for panel in axes.flat:
            panel.tick_params(axis="y", labelsize=6.0)


def _title_panels(axes: Any, figure: Figure, analysis: Analysis, panels: tuple[list[Value], list[Value]]) -> None:
    parameters = analysis.study.parameters
    rows, columns = panels
    if figure.columns:
        for j, value in enumerate(columns):
            axes[0][j].set_title(parameters[figure.columns].show(value))
    if figure.rows:
        for i, value in enumerate(rows):
            axes[i][-1].annotate(
                parameters[figure.rows].show(value), (1.01, 0.5), xycoords="axes fraction", rotation=-90, va="center",
                ha="left", fontsize=8.0,
            )  # fmt: skip


def _meaning(figure: Figure, analysis: Analysis) -> str:
    """Label of the colour bar."""
    together = "" if figure.together in ("", "mean") else f", {figure.together}"
    return analysis.study.metrics[figure.metric].axis + together


def _panel(points: Sequence[Point], figure: Figure, row: Value, column: Value) -> list[Point]:
    wanted = {name: value for name, value in ((figure.rows, row), (figure.columns, column)) if name}
    return [p for p in points if matches(p.values, wanted)]


def _values(points: Sequence[Point], parameter: str) -> list[Value]:
    """The values of a parameter in the points, in order; one dummy value if the parameter is empty."""
    return list(dict.fromkeys(p.values[parameter] for p in points)) if parameter else [""]
