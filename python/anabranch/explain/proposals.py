"""A remedy to try, with the cause that it removes, and words that several kinds of remedies use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.fairness.capacity import MULTIPATH
from anabranch.sweep import setting

if TYPE_CHECKING:
    from anabranch.explain.facts import Facts, PathFacts
    from anabranch.sweep import Setting

FULL_SHARE = 0.9
"""Share of its rate that a path carries after it has been added."""
_MEGABYTE = 1e6
_MAX_BUFFER_MB = 64


@dataclass(frozen=True)
class Proposal:
    """A remedy of one kind for one flow, path or link."""

    subject: str
    """The affected path or link; empty for the whole flow."""
    settings: tuple[str, ...]
    """Settings "key=value" as for `--set`; a later one wins."""
    cause: str
    """Sentence with the numbers that point to the cause, without its full stop."""
    evidence: float
    """Estimate of the gain from the unchanged run alone, 0 to 1: orders the runs and ranks unverified causes."""


def of_flow(facts: Facts, values: dict[str, Setting], cause: str, evidence: float, subject: str = "") -> Proposal:
    """A remedy that changes keys of the flow."""
    settings = tuple(setting(f"flow.{facts.name}.{key}", value) for key, value in values.items())
    return Proposal(subject, settings, cause, evidence)


def keys_of_path(facts: Facts, link: str) -> dict[str, Setting]:
    """Keys of the flow that have to change before a path over a link carries data, even if the link is up."""
    if facts.protocol not in MULTIPATH:
        is_own = not facts.goodput_bps or any(link in path.report["links"] for path in facts.data_paths)
        return {} if is_own else {"protocol": "mptcp" if facts.protocol == "tcp" else "cmt-sctp"}
    keys: dict[str, Setting] = {}
    if link in facts.settings.get("backup", []):
        keys["backup"] = []
    if facts.settings["paths"] != "fullmesh" and facts.paths and link not in facts.paths[0].report["links"]:
        keys["paths"] = "fullmesh"
    return keys


def needed_buffer_bytes(facts: Facts) -> float:
    """Buffer that keeps all paths busy during a retransmission: twice the largest round trip times the total rate.

    Full queues count: a longer path fills its queue before it loses a packet.
    """
    rtt_s = max((path.rtt_s + math.fsum(side.limit_s for side in path.there) for path in facts.paths), default=0.0)
    rate = facts.possible_bps or 2.0 * facts.goodput_bps
    return 2.0 * max(rtt_s, facts.largest_rtt_s) * rate / 8.0


def buffer_size(needed_bytes: float) -> str:
    """The next power of two in MB, from 1 to 64 MB."""
    megabytes = 2 ** math.ceil(math.log2(max(1.0, needed_bytes / _MEGABYTE)))
    return f"{min(megabytes, _MAX_BUFFER_MB)} MB"


def best_path(facts: Facts) -> PathFacts | None:
    """The path with the largest rate; of equal ones the path with the smallest round-trip time."""
    known = [path for path in facts.paths if path.rate_bps is not None and path.there]
    return max(known, key=lambda path: (path.rate_bps or 0.0, -path.rtt_s), default=None)
