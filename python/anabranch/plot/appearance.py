"""Keys of figures for the legend, shades of grey, and marks of published values and statements."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from anabranch.plot.style import LegendPlace
from anabranch.study.figures import Key

LEGEND = Key("legend", Annotated[LegendPlace, Meta(description="Place of the legend.")], "below")
GREY = Key("grey", Annotated[bool, Meta(description="Whether the figure is in shades of grey.")], default=False)
PUBLISHED = Key(
    "published",
    Annotated[
        bool,
        Meta(description="Whether hollow markers show published values; by default where there are any."),
    ],
    default=True,
)
CLAIMS = Key(
    "claims",
    Annotated[bool, Meta(description="Whether bars and arrows show the values of published statements.")],
    default=False,
)
