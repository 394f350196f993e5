"""Places of values in figures, for pages that show them under the pointer.

A drawing records a spot for each value, and names the artists of each series. `anabranch.html.figure` reads both.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from anabranch.plot.marks import Sample
    from anabranch.stats import Estimate
    from anabranch.sweep import Point


@dataclass(frozen=True)
class Spot:
    """One value of a figure."""

    x: float
    """Position on the horizontal axis, in its unit."""
    y: float
    """Position on the vertical axis, in its unit."""
    series: int | None
    """Number of the series; `None` in figures without series."""
    subject: str | None
    """Name of the flow, path or link; `None` for a combination of several."""
    points: tuple[Point, ...]
    """The points whose runs give the value."""
    value: float
    ours: Estimate | None = None
    """The value with its interval; `None` for a cell of a heat map."""
    published: float | None = None


_SPOTS: WeakKeyDictionary[Axes, list[Spot]] = WeakKeyDictionary()
"""Spots by axes: matplotlib's objects have no field for data of others."""

SERIES = "series-"
"""Prefix of the identifiers of a series' artists in an SVG; the number of the series follows."""


def add(axes: Axes, spot: Spot) -> None:
    """Record a spot."""
    _SPOTS.setdefault(axes, []).append(spot)


def add_samples(axes: Axes, index: int, subject: str | None, samples: Sequence[Sample]) -> None:
    """Record a spot for each marker of the n-th series."""
    for s in samples:
        add(axes, Spot(s.x, s.ours.centre, index, subject, s.points, s.ours.centre, s.ours, s.published))


def of(figure: Figure) -> Iterator[tuple[Axes, Spot]]:
    """All spots of a figure with their axes."""
    for axes in figure.axes:
        for spot in _SPOTS.get(axes, []):
            yield axes, spot


@contextmanager
def series(axes: Axes, index: int) -> Iterator[None]:
    """Name the artists that the block adds to the axes as those of the n-th series."""
    before = set(axes.get_children())
    yield
    figure = axes.get_figure(root=True)
    panel = 0 if figure is None else figure.axes.index(axes)
    for number, artist in enumerate(axes.get_children()):
        if artist not in before:
            artist.set_gid(f"{SERIES}{index}-{panel}-{number}")
