"""Answers to requests whose parts several paths carry at the same time, or another path carries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch.fairness.capacity import MULTIPATH, bits_per_second, seconds, size_bytes
from anabranch.link_values import reverse_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    bits, first_s = 8.0 * size_bytes(size) / facts.payload_share, paths[0].rtt_s
    parts = []
    for path, share in zip(paths, shares, strict=False):
        part = 1.0 / len(shares) if paths[len(shares) - 1].rtt_s == first_s else share
        trip_s = 0.75 * path.rtt_s + 0.25 * first_s
        parts.append(trip_s + part * bits / path.back_bps)
    return max(0.0, _DIVIDED_WEIGHT * (1.0 - max(parts) / times["mean"]))


def share_of_moved_answers(facts: Facts, unused: Sequence[str]) -> float:
    """The share of the time of answers that is saved if a path over unused links carries them; 0 if unknown.

    Such a path has one link that connects both hosts, or the only unused link of each host.
    """
    size, times = facts.settings["workload"].get("response"), facts.flow.get("response_time_s")
    if len(facts.data_paths) != 1 or not isinstance(size, str) or not times:
        return 0.0
    links = [link for link in facts.links_of_ends() if link["name"] in unused]
    hosts = {facts.flow["from"], facts.flow.get("through") or facts.flow["to"]}
    direct = [[link] for link in links if hosts <= set(link["between"])]
    joined = [links] if len(links) == 2 and hosts <= {end for link in links for end in link["between"]} else []  # noqa: PLR2004
    bits = 8.0 * size_bytes(size) / facts.payload_share
    took = [_answer_s(facts, path, bits) for path in direct or joined]
    return max(0.0, 1.0 - min(took, default=math.inf) / times["mean"])


def _answer_s(facts: Facts, links: Sequence[Mapping[str, Any]], bits: float) -> float:
    """Time of a request and its answer over links, seconds; infinite if one is down, or its rate or delay unknown."""
    trip_s, rate_bps = 0.0, math.inf
    for link in links:
        reverse = reverse_of(link)
        # The answers go against the direction of a link that begins at the client or ends at its peer.
        is_against = link["between"][0] == facts.flow["from"] or link["between"][1] == facts.flow["to"]
        rate, delays = (reverse if is_against else link)["rate"], (link["delay"], reverse["delay"])
        if link["state"] == "down" or not isinstance(rate, str) or not all(isinstance(each, str) for each in delays):
            return math.inf
        trip_s += math.fsum(seconds(each) for each in delays)
        rate_bps = min(rate_bps, bits_per_second(rate))
    return trip_s + bits / rate_bps
