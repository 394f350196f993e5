"""Keys of figures for ranges of axes and vertical lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.study.figures import Key

if TYPE_CHECKING:
    from anabranch.study.document import Table
    from anabranch.study.scope import Scope


def _range(name: str, axis: str) -> Key:
    def read(table: Table, _: Scope) -> tuple[float, float] | None:
        if not table.has(name):
            table.scalars(name, [])
            return None
        ends = [float(end) for end in table.scalars(name) if isinstance(end, int | float) and not isinstance(end, bool)]
        if len(ends) != 2 or len(table.scalars(name)) != 2 or not -math.inf < ends[0] < ends[1] < math.inf:  # noqa: PLR2004
            raise table.error(f'"{name}" has to be [from, to], with from below to', name)
        return (ends[0], ends[1])

    schema = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    return Key(name, {**schema, "description": f"From where to where the {axis} axis reaches."}, read)


def _read_marks(table: Table, _: Scope) -> tuple[float, ...]:
    places = table.scalars("marks", [])
    if not all(isinstance(place, int | float) and not isinstance(place, bool) for place in places):
        raise table.error('"marks" has to be a list of places on the horizontal axis, as numbers', "marks")
    return tuple(float(place) for place in places)


X_RANGE, Y_RANGE = _range("x_range", "horizontal"), _range("y_range", "vertical")
MARKS = Key(
    "marks",
    {"type": "array", "items": {"type": "number"}, "description": "Vertical lines at these places."},
    _read_marks,
)
