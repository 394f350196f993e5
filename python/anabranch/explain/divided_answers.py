"""Answers to requests whose parts several paths carry at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.explain.facts import PAYLOAD_SHARE
from anabranch.fairness.capacity import MULTIPATH, size_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.explain.facts import Facts

BBR_SHARES = (2.0 / 3.0, 1.0 / 3.0)
"""Shares of an answer that two paths carry with BBR, whose window stays near its first size: about 14 of 21 packets."""
_DIVIDED_WEIGHT = 0.8
"""Part of the saved time of answers that counts: controls and schedulers divide them only roughly."""
LINUX_WEIGHT = 0.6
"""Part of the saved time of answers with Linux's scheduler, which also weighs the data that waits on each subflow."""


def share_of_divided_answers(facts: Facts, shares: Sequence[float]) -> float:
    """The share of the time of answers that is saved if paths carry the given shares of each answer; 0 if unknown.

    The links back carry the answers. The path with the smallest round trip carries the first share; of equal paths each
    may be the first, so that they carry equal shares. Half of the requests travel on the first path. An answer ends
    with the last of its parts.
    """
    size, times = facts.settings["workload"].get("response"), facts.flow.get("response_time_s")
    paths = sorted(facts.data_paths, key=lambda path: (path.rtt_s, -path.back_bps))
    if facts.protocol not in MULTIPATH or not isinstance(size, str) or not times or len(paths) < len(shares):
        return 0.0
    if not all(path.back_bps for path in paths):
        return 0.0
    bits, first_s = 8.0 * size_bytes(size) / PAYLOAD_SHARE, paths[0].rtt_s
    parts = []
    for path, share in zip(paths, shares, strict=False):
        part = 1.0 / len(shares) if paths[len(shares) - 1].rtt_s == first_s else share
        trip_s = 0.75 * path.rtt_s + 0.25 * first_s
        parts.append(trip_s + part * bits / path.back_bps)
    return max(0.0, _DIVIDED_WEIGHT * (1.0 - max(parts) / times["mean"]))
