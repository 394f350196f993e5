"""Labelled captures for the rules of `anabranch explain CAPTURE`: the cases and labels of `anabranch bench explain`.

A capture cannot be run again, so a kind is right if the best remedy of this kind gains within 10 % of the largest gain.
Kinds that look alike in packets count as one. "Capacity" and "unknown" are right if no remedy gains more than 12 %.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core.simulator import Capture
from anabranch.bench.answers import SIMILAR_KINDS
from anabranch.bench.explain import NEAR, TOLERANCE, label
from anabranch.bench.labelled import PLACES, SNAPLEN_BYTES
from anabranch.execution import run
from anabranch.explain.captured import read_captures
from anabranch.explain.finding import MIN_GAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.bench.explain import Case

_WITHOUT_REMEDY = ("capacity", "unknown")


@dataclass(frozen=True)
class CaptureScore:
    """The outcome of one case."""

    fault: str
    named: tuple[str, ...]
    """Kinds of the findings, the first one first."""
    gains: Mapping[str, float]
    """Largest gain of each kind of remedy by its label."""

    @property
    def best(self) -> float:
        """Largest gain of all remedies."""
        return max(0.0, *self.gains.values()) if self.gains else 0.0

    @property
    def is_capacity(self) -> bool:
        """Whether no remedy helps."""
        return self.best <= MIN_GAIN + TOLERANCE

    def is_kind_right(self, kind: str) -> bool:
        """Whether a kind of finding has a gain within 10 % of the best one, or names no remedy if no remedy helps."""
        if kind in _WITHOUT_REMEDY:
            return self.is_capacity
        if self.best <= MIN_GAIN:
            return False
        gain = max(self.gains.get(each, -math.inf) for each in SIMILAR_KINDS.get(kind, (kind,)))
        if math.isinf(self.best):
            return gain == self.best
        return self.best - gain <= max(NEAR * self.best, TOLERANCE)

    @property
    def is_right(self) -> bool:
        """Whether the first finding is right."""
        return self.is_kind_right(self.named[0])

    @property
    def is_among(self) -> bool:
        """Whether one of the findings is right."""
        return any(map(self.is_kind_right, self.named))

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON; the gain of a flow that delivered nothing before is `None`."""
        gains = {kind: gain if math.isfinite(gain) else None for kind, gain in sorted(self.gains.items())}
        return {
            "fault": self.fault, "named": list(self.named), "gains": gains, "right": self.is_right,
            "among": self.is_among,
        }  # fmt: skip


def score(case: Case, place: str, jobs: int = 1) -> CaptureScore:
    """Capture a case at one of `PLACES`, name causes and judge them."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        file = str(Path(folder) / "case.pcapng")
        run(case.scenario, pcap=Capture(file, SNAPLEN_BYTES, PLACES[place], ()))
        found = read_captures(file).explain()
    labelled = label(case, jobs)
    gains: dict[str, float] = {}
    for each in (*labelled.findings, *labelled.others):
        if each.settings:
            gains[each.kind] = max(gains.get(each.kind, -math.inf), each.net)
    return CaptureScore(case.fault, tuple(each.kind for each in found), gains)
