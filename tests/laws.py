"""Probability distributions of values, for tests of intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

LAWS: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda draw: draw.gauss(0.0, 1.0),
    "log-normal": lambda draw: draw.lognormvariate(0.0, 1.0),
    "bimodal": lambda draw: draw.choice((-1.0, 1.0)) * draw.uniform(0.5, 1.0),
    "tied": lambda draw: float(round(draw.gauss(0.0, 1.0))),
}


def drawn(draw: random.Random, law: str, count: int) -> list[float]:
    """Independent values of a distribution."""
    return [LAWS[law](draw) for _ in range(count)]


def true_value(law: str, centre: str) -> float:
    """The mean or the median of a distribution."""
    if law != "log-normal":
        return 0.0
    return math.exp(0.5) if centre == "mean" else 1.0
