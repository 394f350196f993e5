"""The table of all kinds of causes: one row a kind, with the function that proposes its remedies.

A function yields nothing where its kind does not apply. A new kind is one function and one row here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.explain import endpoint_remedies as ends
from anabranch.explain import network_remedies as net
from anabranch.explain.facts import MIN_REDUCING_LOSS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.explain.facts import Facts
    from anabranch.explain.proposals import Proposal


@dataclass(frozen=True)
class Kind:
    """A kind of cause."""

    name: str
    title: str
    """Noun phrase for the cause in tables."""
    propose: Callable[[Facts], Iterator[Proposal]]
    adds_rate: bool = True
    """Whether the remedy helps by a larger rate of the links, which short transfers do not reach."""
    lifts_limit: bool = False
    """Whether the remedy changes a buffer or the application, which limit the gain of all others."""


KINDS: tuple[Kind, ...] = (
    Kind("application", "the application writes too little", ends.application, lifts_limit=True),
    Kind("receive-buffer", "receive buffer too small", ends.receive_buffer, lifts_limit=True),
    Kind("send-buffer", "send buffer too small", ends.send_buffer, lifts_limit=True),
    Kind("buffers", "both buffers too small", ends.buffers, lifts_limit=True),
    Kind("backup", "path is only a backup", ends.backup),
    Kind("path-not-used", "links without a path of the flow", ends.multipath),
    Kind("path-down", "link down, late or changed by an event", net.down, adds_rate=False),
    Kind("middlebox", "middlebox changes or drops packets", net.middleboxes, adds_rate=False),
    Kind("source-routes", "router drops source routes", net.source_routes),
    Kind("host-cost", "host too slow for its packets", ends.host_cost),
    Kind("mtu", "packets too small or too large", net.mtu),
    Kind("handshake", "slow or failed handshake", ends.handshake, adds_rate=False),
    Kind("random-loss", "link loses packets at random", net.random_loss),
    Kind("control", "congestion control", ends.control),
    Kind("coupling", "coupling gives capacity away", ends.coupling),
    Kind("queue-too-short", "queue shorter than a round trip", net.queue_too_short),
    Kind("bufferbloat", "queue of several round trips", net.bufferbloat),
    Kind("reverse-path", "slow or full return path", net.reverse_path),
    Kind("reinjection", "data sent twice, windows halved", ends.reinjection),
    Kind("scheduler", "scheduler leaves a path idle", ends.scheduler),
    Kind("single-path", "one path alone is faster", ends.single_path),
    Kind("initial-path", "connection begins on the wrong path", ends.initial_path),
    Kind("timeouts", "retransmission timeouts", ends.timeouts),
    Kind("slow-start", "short transfer in slow start", ends.slow_start, adds_rate=False),
    Kind("nagle", "small packets held back", ends.nagle),
    Kind("association", "settings of SCTP", ends.association),
)
"""All kinds that have a remedy, in the order in which equal ones are tried."""
_MAX_ALONE = 0.12
"""Evidence of each of two remedies up to which neither helps alone."""


def proposed(facts: Facts) -> Iterator[tuple[Kind, Proposal]]:
    """The proposals of all kinds, in the order of the table.

    Args:
        facts: The facts about a flow.

    """
    attainable = facts.attainable
    for kind in KINDS:
        weight = facts.rate_weight if kind.adds_rate else 1.0
        limit = 1.0 if kind.lifts_limit else attainable
        for proposal in kind.propose(facts):
            yield kind, replace(proposal, evidence=min(limit, weight * proposal.evidence))


def proposed_together(facts: Facts) -> tuple[str, tuple[Proposal, ...]]:
    """Kind and proposals of a larger buffer and links without loss, where neither helps alone; none for other flows.

    The buffer bounds the gain of a path without its losses, and the losses bound the gain of a larger buffer.

    Args:
        facts: The facts about a flow.

    """
    if facts.is_on_kernel:  # it does not report what each link has to spare
        return "", ()
    small = {"receive-buffer": ends.receive_buffer, "send-buffer": ends.send_buffer}
    buffers = [(name, each) for name, propose in small.items() for each in list(propose(facts))[:1]]
    losses = list(net.random_loss(facts))[:1]
    if len(buffers) != 1 or not losses or facts.rate_weight < 1.0:
        return "", ()
    name, buffer = buffers[0]
    alone = max(buffer.evidence, min(facts.attainable, losses[0].evidence))
    lossy = [path for path in facts.data_paths if path.lost_share >= MIN_REDUCING_LOSS]
    evidence = facts.share_of(math.fsum(facts.free_bps(path) for path in lossy))
    if alone >= _MAX_ALONE or evidence <= 2.0 * _MAX_ALONE:
        return "", ()
    return f"{name} + random-loss", tuple(replace(each, evidence=evidence) for each in (buffer, losses[0]))


WITHOUT_REMEDY = {
    "capacity": "nothing to mend: the links are full",
    "cross-traffic": "nothing to mend: other flows share the links",
    "unknown": "no remedy helps",
}
"""Kinds of a finding that names no remedy."""
