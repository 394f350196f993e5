"""The statistic of repeated runs that a claim is about, where it is another than the study's centre."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from anabranch.study.document import Table
    from anabranch.study.keys import ClaimKeys


def read_statistic(table: Table[ClaimKeys], metrics: Collection[str]) -> str:
    """Read the key "statistic" of a claim about some metrics; "" without it.

    Raises:
        InputError: If a claim of this world, kind and metrics cannot have a statistic.

    """
    keys = table.keys
    if not keys.statistic:
        return ""
    if keys.world == "theory":
        raise table.error('a quantity of theory has no "statistic": it has one value', "statistic")
    if keys.extreme:
        raise table.error('"statistic" cannot be combined with "extreme": remove one of them', "statistic")
    if keys.kind in ("order", "difference") and len(metrics) > 1:
        named = " and ".join(f'"{metric}"' for metric in sorted(metrics))
        raise table.error(f'with "statistic", "{keys.kind}" compares one metric, not {named}', "statistic")
    return keys.statistic


def statistic_of(statistic: str, values: Sequence[float], absolute: bool) -> float | None:
    """A statistic of values; `None` without values, and for a deviation with fewer than two."""
    signless = [abs(value) for value in values] if absolute else values
    if statistic == "std":
        return statistics.stdev(signless) if len(signless) > 1 else None
    if not signless:
        return None
    return statistics.median(signless) if statistic == "median" else statistics.fmean(signless)
