"""Where a rate that a pair of addresses got is limited: at the ends, or on the way between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOLERANCE = 0.1
"""How far a pair's rate may be from what the access links would give it, as a share."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Access:
    """Rates of the ends that limit, of which the lower one is what a pair gets."""

    here: dict[str, float]
    there: dict[str, float]

    def of(self, pair: Pair) -> float:
        """What one flow gets over a pair."""
        return min(self.here.get(pair[0], math.inf), self.there.get(pair[1], math.inf))


def access(rates: Mapping[Pair, float]) -> Access | None:
    """Rates of access links that explain those of the pairs, or nothing if none do.

    Each link gets the highest rate of its pairs. If any rates a, b have min(a, b) at every pair, these have, too: they
    are at most those, and at least what each pair got. What need not limit is left out then, so that few are left: a
    limit that is not needed would have pairs share what nobody saw them share.
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
    """Only what is needed to explain the rates, the ends at one side being left out last."""
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
