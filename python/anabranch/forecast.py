"""An estimate of the time that a simulation takes, from the rates of its scenario and before it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch._core import simulator
from anabranch.errors import InputError
from anabranch.fairness.capacity import bits_per_second, seconds
from anabranch.fairness.shares import possible_bps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.scenario import Scenario

_PACKET_BITS = 12_000.0
_PACKET_S = 7e-6
"""Time for a packet over all its links, with its acknowledgement: 2 to 14 µs in the shipped studies."""
_MIN_RUN_S = 0.002


def packets(scenario: Scenario) -> float | None:
    """Largest number of packets that the flows can send; `None` if a rate is not known, such as that of a trace."""
    request = simulator.Request(scenario.text, scenario.file, scenario.overrides)
    try:
        rate = possible_bps_of(scenario)
    except InputError:
        return None
    return rate * seconds(str(simulator.canonical(request)["duration"])) / _PACKET_BITS


def run_s(scenario: Scenario) -> float | None:
    """The time that a run takes on one processor, seconds; `None` if it cannot be estimated."""
    sent = packets(scenario)
    return None if sent is None else max(_MIN_RUN_S, sent * _PACKET_S)


def is_surely_short(scenario: Scenario, limit_s: float) -> bool:
    """Whether a run ends within a time even if each flow fills all links of one of its hosts.

    This takes milliseconds; `run_s` finds the paths by a run, which can take a second. It returns false if a rate
    follows a trace or if an event may change it.
    """
    request = simulator.Request(scenario.text, scenario.file, scenario.overrides)
    content: Any = simulator.canonical(request)
    if content.get("event") or any(not isinstance(link["rate"], str) for link in content["link"]):
        return False
    total_bps = math.fsum(
        min(_rate_bps(content["link"], flow["from"]), _rate_bps(content["link"], flow["to"]))
        for flow in content["flow"]
    )
    return total_bps * seconds(str(content["duration"])) / _PACKET_BITS * _PACKET_S < limit_s


def _rate_bps(links: Iterable[Mapping[str, Any]], node: str) -> float:
    """The rate of all links of a node in their faster direction, bit/s."""
    found = 0.0
    for link in links:
        if node in link["between"]:
            reverse = link.get("reverse", {}).get("rate", link["rate"])
            found += max(map(bits_per_second, (link["rate"], reverse))) if isinstance(reverse, str) else math.inf
    return found


def spoken(seconds: float) -> str:
    """A time with one unit: 40 s, 12 min, 3.5 h or 20 days."""
    for limit, unit, name in ((100.0, 1.0, "s"), (6000.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{max(1.0, seconds / unit):.0f} {name}"
    return f"{seconds / 86_400.0:,.0f} days"
