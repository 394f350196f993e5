"""Keys of figures for the axes: ranges, ticks, a logarithmic scale, and vertical lines."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from anabranch.study.figures import Key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from anabranch.study.document import Table
    from anabranch.study.scope import Scope

_FEW_DECADES = 1.4


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
    steps = (1, 2, 5) if decades < _FEW_DECADES else (1, 3) if decades < 2 * _FEW_DECADES else (1,)
    axis: Axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _numbers(table: Table, name: str) -> list[float] | None:
    """The value of a key that is a list of finite numbers; `None` if it is something else."""
    found = table.scalars(name)
    is_right = all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in found)
    return [float(v) for v in found] if is_right else None


def _range(name: str, axis: str) -> Key:
    def read(table: Table, _: Scope) -> tuple[float, float] | None:
        if not table.has(name):
            table.scalars(name, [])
            return None
        ends = _numbers(table, name)
        if ends is None or len(ends) != 2 or ends[0] >= ends[1]:  # noqa: PLR2004
            raise table.error(f'"{name}" has to be [from, to], with from below to', name)
        return (ends[0], ends[1])

    schema = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    return Key(name, {**schema, "description": f"From where to where the {axis} axis reaches."}, read)


def _ticks(name: str, axis: str) -> Key:
    letter = name[0]

    def read(table: Table, scope: Scope) -> tuple[float, ...]:
        if not table.has(name):
            table.scalars(name, [])
            return ()
        places = _numbers(table, name)
        if not places or any(second <= first for first, second in itertools.pairwise(places)):
            raise table.error(f'"{name}" has to be a list of rising numbers', name)
        if letter == "x" and table.has("x"):
            scope.quantity(table, name, table.get("x", str))
        ends = _numbers(table, f"{letter}_range") if table.has(f"{letter}_range") else None
        if ends and len(ends) == 2 and not ends[0] <= places[0] <= places[-1] <= ends[1]:  # noqa: PLR2004
            raise table.error(f'"{name}" has a place outside "{letter}_range"', name)
        return tuple(places)

    schema = {"type": "array", "items": {"type": "number"}, "minItems": 1}
    return Key(name, {**schema, "description": f"Places of the numbers on the {axis} axis."}, read)


def _read_marks(table: Table, _: Scope) -> tuple[float, ...]:
    places = _numbers(table, "marks") if table.has("marks") else table.scalars("marks", [])
    if places is None:
        raise table.error('"marks" has to be a list of places on the horizontal axis, as numbers', "marks")
    return tuple(places)


def _read_log_y(table: Table, _: Scope) -> bool:
    is_logarithmic = table.get("log_y", bool, False)
    for key in ("y_range", "y_ticks") if is_logarithmic else ():
        found = _numbers(table, key) if table.has(key) else None
        if found and min(found) <= 0.0:
            raise table.error(f'"{key}" has {min(found):g}, which a logarithmic axis cannot show', key)
    return is_logarithmic


X_RANGE, Y_RANGE = _range("x_range", "horizontal"), _range("y_range", "vertical")
X_TICKS, Y_TICKS = _ticks("x_ticks", "horizontal"), _ticks("y_ticks", "vertical")
MARKS = Key(
    "marks",
    {"type": "array", "items": {"type": "number"}, "description": "Vertical lines at these places."},
    _read_marks,
)
LOG_Y = Key("log_y", {"type": "boolean", "description": "Whether the vertical axis is logarithmic."}, _read_log_y)
OVER_TIME = (X_TICKS, Y_RANGE, Y_TICKS, MARKS)
"""The keys of one quantity over time."""
