"""Finds the limits of the rates of address pairs: at the access links, or on the path between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOLERANCE = 0.1
"""Accepted relative deviation of a pair's rate from the rate of its access links."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Access:
    """Rates of the limiting access links; a pair gets the lower one of its two ends."""

    here: dict[str, float]
    there: dict[str, float]

    def of(self, pair: Pair) -> float:
        """Rate of one flow between a pair of networks."""
        return min(self.here.get(pair[0], math.inf), self.there.get(pair[1], math.inf))


def access(rates: Mapping[Pair, float]) -> Access | None:
    """Rates of access links that explain those of the pairs; `None` if no rates do.

    Each link gets the highest rate of its pairs. If any choice of link rates explains the pairs, this one does: its
    rates are no higher than those of the other choice, and no lower than the rate of each pair. Then limits are removed
    that no pair needs, because an unnecessary limit would let pairs share a bottleneck that was not observed.
    """
    here: dict[str, float] = {}
    there: dict[str, float] = {}
    for (near, far), rate in rates.items():
        here[near] = max(rate, here.get(near, 0.0))
        there[far] = max(rate, there.get(far, 0.0))
    if not _explains(Access(here, there), rates):
        return None
    choices = (_needed(rates, Access({**here}, {**there}), last) for last in ("here", "there"))
    return min(choices, key=lambda found: len(found.here) + len(found.there))


def _needed(rates: Mapping[Pair, float], found: Access, last: str) -> Access:
    """The limits that the rates need; the limits of one side are removed last."""
    sides = [found.there, found.here] if last == "here" else [found.here, found.there]
    for limits in sides:
        for end, rate in list(limits.items()):
            del limits[end]
            if not _explains(found, rates):
                limits[end] = rate
    return found


def _explains(found: Access, rates: Mapping[Pair, float]) -> bool:
    # A link's rate is never below that of its pairs.
    return all(found.of(pair) <= (1 + TOLERANCE) * rate for pair, rate in rates.items())
