"""Keys of figures for the axes: ranges, ticks, a logarithmic scale, and vertical lines."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from msgspec import UNSET, Meta, UnsetType

from anabranch.study.figures import Key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from anabranch.study.document import Table
    from anabranch.study.scope import Scope

_MAX_DENSE_DECADES = 1.4


def apply(panels: Sequence[Axes], options: Mapping[str, Any]) -> None:
    """Set ticks and ranges of panels that share their axes, and draw the vertical lines of a figure."""
    first = panels[0]
    if options.get("x_ticks"):
        first.set_xticks(options["x_ticks"])
    if options.get("y_ticks"):
        first.set_yticks(options["y_ticks"])
    if options.get("x_range"):
        first.set_xlim(*options["x_range"])
    if options.get("y_range"):
        first.set_ylim(*options["y_range"])
    for place in options.get("marks", ()):
        for panel in panels:
            panel.axvline(place, color="#888888", linewidth=0.8, zorder=1)


def make_logarithmic(axes: Axes, name: str) -> None:
    """Make the "x" or the "y" axis logarithmic, with as many plain numbers as fit a panel."""
    set_scale, limits = (axes.set_xscale, axes.get_xlim) if name == "x" else (axes.set_yscale, axes.get_ylim)
    set_scale("log", nonpositive="clip")
    low, high = limits()
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < _MAX_DENSE_DECADES else (1, 3) if decades < 2 * _MAX_DENSE_DECADES else (1,)
    axis: Axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _range(name: str, axis: str) -> Key:
    form = "[from, to], with from below to"

    def check(table: Table[Any], _: Scope, ends: tuple[float, float]) -> None:
        if not math.isfinite(ends[1] - ends[0]) or ends[0] >= ends[1]:
            raise table.error(f'"{name}" has to be {form}', name)

    meta = Meta(description=f"Ends of the {axis} axis.", extra={"form": form})
    return Key(name, Annotated[tuple[float, float] | UnsetType, meta], UNSET, check)


def _ticks(name: str, axis: str) -> Key:
    letter = name[0]

    def check(table: Table[Any], scope: Scope, places: tuple[float, ...]) -> None:
        if not all(map(math.isfinite, places)) or any(b <= a for a, b in itertools.pairwise(places)):
            raise table.error(f'"{name}" has to be a list of rising numbers', name)
        if letter == "x" and table.keys.x:
            scope.quantity(table, name, table.keys.x)
        ends = getattr(table.keys, f"{letter}_range")
        if ends and not ends[0] <= places[0] <= places[-1] <= ends[1]:
            raise table.error(f'"{name}" has a position outside "{letter}_range"', name)

    meta = Meta(
        min_length=1,
        description=f"Positions of the numbers on the {axis} axis.",
        extra={"form": "a list of rising numbers"},
    )
    return Key(name, Annotated[tuple[float, ...], meta], (), check)


def _check_marks(table: Table[Any], _: Scope, places: tuple[float, ...]) -> None:
    if not all(map(math.isfinite, places)):
        raise table.error(f'"marks" has to be {_MARKS_FORM}', "marks")


def _check_log_y(table: Table[Any], _: Scope, is_logarithmic: bool) -> None:
    for key in ("y_range", "y_ticks") if is_logarithmic else ():
        found = getattr(table.keys, key)
        if found and min(found) <= 0.0:
            raise table.error(f'"{key}" has {min(found):g}, which a logarithmic axis cannot show', key)


_MARKS_FORM = "a list of positions on the horizontal axis, as numbers"
X_RANGE, Y_RANGE = _range("x_range", "horizontal"), _range("y_range", "vertical")
X_TICKS, Y_TICKS = _ticks("x_ticks", "horizontal"), _ticks("y_ticks", "vertical")
MARKS = Key(
    "marks",
    Annotated[tuple[float, ...], Meta(description="Vertical lines at these positions.", extra={"form": _MARKS_FORM})],
    (),
    _check_marks,
)
LOG_Y = Key(
    "log_y",
    Annotated[bool, Meta(description="Whether the vertical axis is logarithmic.")],
    default=False,
    check=_check_log_y,
)
OVER_TIME = (X_TICKS, Y_RANGE, Y_TICKS, MARKS)
"""The keys of one quantity over time."""
