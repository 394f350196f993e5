"""An estimate of the time that a simulation takes, from the rates of its scenario and before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._core import simulator
from anabranch.errors import InputError
from anabranch.fairness.capacity import seconds
from anabranch.fairness.shares import fair

if TYPE_CHECKING:
    from anabranch.scenario import Scenario

_PACKET_BITS = 12_000.0
_PACKET_S = 7e-6
"""Time for a packet over all its links, with its acknowledgement: 2 to 14 µs in the shipped studies."""
_MIN_RUN_S = 0.002


def packets(scenario: Scenario) -> float | None:
    """Largest number of packets that the flows can send; `None` if a rate is not known, such as that of a trace."""
    request = simulator.Request(scenario.text, scenario.file, scenario.overrides)
    try:
        rate = fair(scenario).possible_bps
    except InputError:
        return None
    return rate * seconds(str(simulator.canonical(request)["duration"])) / _PACKET_BITS


def run_s(scenario: Scenario) -> float | None:
    """The time that a run takes on one processor, seconds; `None` if it cannot be estimated."""
    sent = packets(scenario)
    return None if sent is None else max(_MIN_RUN_S, sent * _PACKET_S)


def spoken(seconds: float) -> str:
    """A time with one unit: 40 s, 12 min, 3.5 h or 20 days."""
    for limit, unit, name in ((100.0, 1.0, "s"), (6000.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{max(1.0, seconds / unit):.0f} {name}"
    return f"{seconds / 86_400.0:,.0f} days"
