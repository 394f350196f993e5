"""Quantities that follow from a scenario by a formula, without a run; studies compare them with publications.

* `fair-NAME`: the fair rate of a flow, for each allocation of `anabranch.allocation`. `fair-NAME-total`: the sum over
  all flows.
* `virtual-buffer`: the receive buffer that keeps all paths of a flow busy while data waits for the slowest path: twice
  the largest one-way delay times the largest total rate of the paths (Becke 2014, §7.3.3).
* `booked-memory`: the buffer that is large enough during a retransmission by timeout: (3 · largest round-trip time +
  largest timeout) times the sum of the rates of all paths, each without any other traffic (Becke 2014, §5.1.2.2). The
  timeout is that of a path without queues (RFC 6298): its round-trip time, at least the flow's `rto_min`.

The paths are those that the protocols open (see `anabranch.fairness`). Delays are those of the links, without queues
and transmission times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.capacity import ALLOCATION_NAMES, seconds
from anabranch.fairness import fair, states_of
from anabranch.simulator import Request, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.capacity import Network, Path
    from anabranch.metrics import Level
    from anabranch.scenario import Scenario
    from anabranch.simulator import Document


@dataclass(frozen=True)
class TheoryQuantity:
    """A quantity that follows from a scenario."""

    name: str
    label: str
    unit: str
    level: Level
    of: Callable[[Scenario], dict[str, float]]
    """Function to the value by subject: by flow, or for the whole scenario with the subject ""."""


@dataclass(frozen=True)
class _Booked:
    """A flow's paths with the rates and delays of their links."""

    network: Network
    flow: str
    rto_min_s: float
    delays_s: Mapping[str, tuple[float, float]]
    """By link, the delays from its first node to its second and back, seconds."""

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.network.paths[self.flow]

    def one_way_s(self, path: Path) -> float:
        return math.fsum(self.delays_s[link][0 if forward else 1] for link, forward in path)

    def round_trip_s(self, path: Path) -> float:
        return math.fsum(math.fsum(self.delays_s[link]) for link, _ in path)

    def rate_bps(self, path: Path) -> float:
        return min(self.network.rates[direction] for direction in path)


def _fair(name: str, scenario: Scenario) -> dict[str, float]:
    return {flow: rate * 1e-6 for flow, rate in fair(scenario).allocations[name].items()}


def _fair_total(name: str, scenario: Scenario) -> dict[str, float]:
    return {"": math.fsum(_fair(name, scenario).values())}


def _virtual_buffer(booked: _Booked) -> float:
    largest_s = max((booked.one_way_s(path) for path in booked.paths), default=0.0)
    return 2.0 * booked.network.largest_total_bps([booked.flow]) * largest_s / 8e3


def _booked_memory(booked: _Booked) -> float:
    trips_s = [booked.round_trip_s(path) for path in booked.paths]
    timeout_s = max(booked.rto_min_s, *trips_s, 0.0)
    return (3.0 * max(trips_s, default=0.0) + timeout_s) * math.fsum(map(booked.rate_bps, booked.paths)) / 8e6


def _by_flow(formula: Callable[[_Booked], float]) -> Callable[[Scenario], dict[str, float]]:
    """The largest value of a formula over all states of the network, for each flow except UDP flows."""

    def of(scenario: Scenario) -> dict[str, float]:
        spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
        left_out = [flow["name"] for flow in spelt_out["flow"] if flow["protocol"] == "udp"]
        states = states_of(spelt_out, left_out, scenario.file)
        delays = {link["name"]: _delays_s(link) for link in spelt_out["link"]}
        return {
            flow["name"]: max(
                formula(_Booked(network, flow["name"], seconds(flow["rto_min"]), delays)) for network, _ in states
            )
            for flow in spelt_out["flow"]
            if flow["name"] not in left_out
        }

    return of


def _delays_s(link: Document) -> tuple[float, float]:
    back: Mapping[str, Any] = link.get("reverse", {})
    return seconds(link["delay"]), seconds(back.get("delay", link["delay"]))


def _all() -> Sequence[TheoryQuantity]:
    fair_ones = [
        TheoryQuantity(f"fair-{name}", f"Fair rate ({name})", "Mbit/s", "flow", partial(_fair, name))
        for name in ALLOCATION_NAMES
    ]
    totals = [
        TheoryQuantity(f"fair-{name}-total", f"Fair rates of all ({name})", "Mbit/s", "run", partial(_fair_total, name))
        for name in ALLOCATION_NAMES
    ]
    buffers = [
        TheoryQuantity("virtual-buffer", "Buffer that fills all paths", "kB", "flow", _by_flow(_virtual_buffer)),
        TheoryQuantity("booked-memory", "Buffer that is booked", "MB", "flow", _by_flow(_booked_memory)),
    ]
    return [*fair_ones, *totals, *buffers]


QUANTITIES: Mapping[str, TheoryQuantity] = {quantity.name: quantity for quantity in _all()}
"""All quantities by name."""
