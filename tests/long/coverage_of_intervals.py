"""Prints the coverage of the intervals of `anabranch.stats` and `anabranch.spread` for four distributions.

`python tests/long/coverage_of_intervals.py DRAWS [COUNT…]` draws that many samples of each number of values, by default
2, 3, 4, 5, 10, 20 and 30. The table `anabranch.coverage` has the smallest value of each row, rounded down.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

from anabranch.spread import interval_of_spread
from anabranch.stats import INTERVALS, MIN_BOOTSTRAP, interval_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from laws import LAWS, drawn, true_value

COUNTS = [2, 3, 4, 5, 10, 20, 30]
_TIED = math.sqrt(2.0 * sum(k * k * (math.erf((k + 0.5) / math.sqrt(2.0)) - math.erf((k - 0.5) / math.sqrt(2.0))) / 2.0
                            for k in range(1, 9)))  # fmt: skip
DEVIATIONS = {"normal": 1.0, "log-normal": math.sqrt((math.e - 1.0) * math.e), "bimodal": math.sqrt(7.0 / 12.0),
              "tied": _TIED}  # fmt: skip


def coverage(kind: str, centre: str, law: str, count: int, draws: int) -> str:
    """The share of intervals of one kind that contain the true value, and the coverage that they claim, in per cent."""
    draw, hits, told = random.Random(1), list[bool](), math.nan
    true = DEVIATIONS[law] if kind == "jackknife" else true_value(law, centre)
    for _ in range(draws):
        sample = drawn(draw, law, count)
        is_spread = kind == "jackknife"
        found = interval_of_spread(sample, 0.95) if is_spread else interval_of(sample, centre, kind)  # type: ignore[arg-type]
        if found is not None:
            told = found.coverage
            hits.append(found.low <= true <= found.high)
    return f"{100.0 * sum(hits) / len(hits):.1f} (≥ {100.0 * told:.0f})"


def main(draws: int, counts: list[int]) -> None:
    """Print the table."""
    kinds = [(kind, centre) for centre, found in INTERVALS.items() for kind in found] + [("jackknife", "deviation")]
    print(f"| interval | values | {' | '.join(LAWS)} |")
    print("|---|---|---|---|---|---|")
    for kind, centre in kinds:
        for count in counts:
            if kind == "bootstrap" and count < MIN_BOOTSTRAP:
                continue
            row = " | ".join(coverage(kind, centre, law, count, draws) for law in LAWS)
            print(f"| {kind}, {centre} | {count} | {row} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(word) for word in sys.argv[2:]] or COUNTS)
