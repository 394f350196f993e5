"""Where a rate that a pair of addresses got is limited: at the ends, or on the way between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOLERANCE = 0.1
"""How far a pair's rate may be from what the access links would give it, as a share."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Access:
    """A rate for each end, of which the lower one is what a pair gets."""

    here: dict[str, float]
    there: dict[str, float]

    def of(self, pair: Pair) -> float:
        """What one flow gets over a pair."""
        return min(self.here[pair[0]], self.there[pair[1]])


def access(rates: Mapping[Pair, float]) -> Access | None:
    """Rates of access links that explain those of the pairs, or nothing if none do.

    Each link gets the highest rate of its pairs. If any rates a, b have min(a, b) at every pair, these have, too: they
    are at most those, and at least what each pair got.
    """
    here: dict[str, float] = {}
    there: dict[str, float] = {}
    for (near, far), rate in rates.items():
        here[near] = max(rate, here.get(near, 0.0))
        there[far] = max(rate, there.get(far, 0.0))
    found = Access(here, there)
    # A link's rate is never below that of its pairs.
    consistent = all(found.of(pair) - rate <= TOLERANCE * rate for pair, rate in rates.items())
    return found if consistent else None
