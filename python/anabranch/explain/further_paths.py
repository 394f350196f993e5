"""The rate that further paths would add to a flow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import coupled
from anabranch.explain.facts import PACKET_BYTES, mathis_bps
from anabranch.explain.proposals import FULL_SHARE
from anabranch.fairness.capacity import MULTIPATH, bits_per_second
from anabranch.link_values import reverse_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.explain.facts import Facts, PathFacts

_COUPLED_PACE = 4.0
"""Time that a coupled control with several paths takes to regrow a window, relative to a single path."""
_MIN_FULL_SHARE = 0.9
"""Share of the time from which on a link for acknowledgements counts as full."""


def is_return_busy(facts: Facts) -> bool:
    """Whether links for acknowledgements are full, so that acknowledgements wait."""
    return any((side.report["utilisation"] or 0.0) >= _MIN_FULL_SHARE for side in facts.sides_back)


def carried_bps(facts: Facts, path: PathFacts) -> float:
    """Rate that losses and the return link of an idle path permit, bit/s."""
    back_bps = min((side.rate_bps or math.inf for side in path.back), default=math.inf)
    loss = sum(side.loss_rate for side in path.there)
    limit_bps = mathis_bps(path.rtt_s, loss) if loss and path.rtt_s else math.inf
    return min(path.rate_bps or 0.0, _acknowledged_bps(facts, back_bps), limit_bps)


def _acknowledged_bps(facts: Facts, back_bps: float) -> float:
    """Rate that a return link acknowledges, bit/s: as those of the present paths if they are full, in proportion."""
    now = sum(path.back_bps for path in facts.data_paths)
    return facts.while_open(facts.goodput_bps) * back_bps / now if now and is_return_busy(facts) else math.inf


def added_bps(facts: Facts, rate_bps: float) -> float:
    """Rate that further paths add to a flow, bit/s, less that which coupling takes from the present ones.

    Schedulers that send all data on each path, or equal parts, do not add the rates. A loss in a queue that is shorter
    than a round trip halves the rate of a path. A coupled control with several paths regrows it at about a quarter of
    the pace of a single path, which adds a packet a round trip (RFC 6356).
    """
    lost = 0.0
    if facts.flow["congestion"] in coupled() or facts.protocol not in MULTIPATH:
        for path in facts.data_paths:
            short = any(side.limit_bytes < side.bdp_bytes(path) and side.dropped for side in path.there)
            trips = (path.rate_bps or 0.0) * path.rtt_s / (8.0 * PACKET_BYTES) / 2.0
            regrown_s = _COUPLED_PACE * trips * path.rtt_s if short else 0.0
            lost += facts.while_open(path.goodput_bps) * regrown_s / (regrown_s + facts.open_s or 1.0)
    return min(FULL_SHARE * rate_bps - lost, _scheduled_bps(facts, rate_bps) - facts.while_open(facts.goodput_bps))


def _scheduled_bps(facts: Facts, rate_bps: float) -> float:
    """Rate that the scheduler permits with a further path, bit/s: that of the best path, or equal parts on each."""
    rates = [*(path.rate_bps or math.inf for path in facts.data_paths), rate_bps]
    reached = {"redundant": max(rates), "strict-round-robin": len(rates) * min(rates)}
    return facts.payload_share * reached.get(str(facts.settings.get("scheduler")), math.inf)


def unused_bps(facts: Facts, names: list[str], standby: Sequence[str] = ()) -> float:
    """Rate that paths over unused links would add, bit/s: that of the host whose unused links carry less.

    Args:
        facts: The facts about the flow.
        names: Names of unused links.
        standby: Names of links that are backups, and carry nothing.

    """
    links = [link for link in facts.links_of_ends() if link["name"] in names]
    ends = (facts.flow["from"], facts.flow.get("through") or facts.flow["to"])
    at_ends = [[link for link in links if end in link["between"]] for end in ends]
    rates = [
        sum(_link_rate_bps(facts, link) for link in group if link["name"] not in standby) for group in at_ends if group
    ]
    return min(rates, default=0.0)


def _link_rate_bps(facts: Facts, link: Mapping[str, Any]) -> float:
    """Rate of a link towards the flow's receiver, bit/s; 0 if it is down, the flow's own if it follows a trace."""
    if link["state"] == "down":
        return 0.0
    # A link of the receiver ends there; all others begin at the sender.
    receiver = facts.flow["to"]
    is_forward = link["between"][1] == receiver or receiver not in link["between"]
    reverse = reverse_of(link)
    values, back = (link, reverse) if is_forward else (reverse, link)
    if not isinstance(values["rate"], str):
        return facts.goodput_bps
    back_bps = bits_per_second(back["rate"]) if isinstance(back["rate"], str) else math.inf
    return min(bits_per_second(values["rate"]), _acknowledged_bps(facts, back_bps))
