"""Keys of figures for the legend, shades of grey, and marks of published values and statements."""

from __future__ import annotations

from anabranch.plot.style import LEGENDS
from anabranch.study.figures import Key

LEGEND = Key(
    "legend",
    {"enum": list(LEGENDS), "description": "Place of the legend."},
    lambda table, _: table.choice("legend", LEGENDS, LEGENDS[0]),
)
GREY = Key(
    "grey",
    {"type": "boolean", "description": "Whether the figure is in shades of grey."},
    lambda table, _: table.get("grey", bool, False),
)
PUBLISHED = Key(
    "published",
    {"type": "boolean", "description": "Whether hollow marks show published values; by default where there are any."},
    lambda table, _: table.get("published", bool, True),
)
CLAIMS = Key(
    "claims",
    {"type": "boolean", "description": "Whether bars and arrows show the values of published statements."},
    lambda table, _: table.get("claims", bool, False),
)
