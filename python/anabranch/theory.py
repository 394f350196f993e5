"""Quantities that follow from a scenario by a formula, without a run; studies compare them with publications.

* `fair-NAME`: the fair rate of a flow, for each allocation of `anabranch.fairness.allocation`. `fair-NAME-total`: the
  sum over all flows.
* `virtual-buffer`: the receive buffer that keeps all paths of a flow busy while data waits for the slowest path: twice
  the largest one-way delay times the largest total rate of the paths (Becke 2014, §7.3.3).
* `booked-memory`: the buffer that is large enough during a retransmission by timeout: (3 · largest round-trip time +
  largest timeout) times the sum of the rates of all paths, each without any other traffic (Becke 2014, §5.1.2.2). The
  timeout is that of a path without queues (RFC 6298): its round-trip time, at least the flow's `rto_min`.

The paths are those that the protocols open (see `anabranch.fairness.shares`). Delays are those of the links, without
queues and transmission times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from anabranch.buffers import one_way_bytes, retransmission_bytes, states_of_flows
from anabranch.fairness.capacity import ALLOCATION_NAMES
from anabranch.fairness.shares import fair

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.buffers import FlowPaths
    from anabranch.metrics import Level
    from anabranch.scenario import Scenario


@dataclass(frozen=True)
class TheoryQuantity:
    """A quantity that follows from a scenario."""

    name: str
    label: str
    unit: str
    level: Level
    of: Callable[[Scenario], dict[str, float]]
    """Function to the value by subject: by flow, or for the whole scenario with the subject ""."""


def _fair(name: str, scenario: Scenario) -> dict[str, float]:
    return {flow: rate * 1e-6 for flow, rate in fair(scenario).allocations[name].items()}


def _fair_total(name: str, scenario: Scenario) -> dict[str, float]:
    return {"": math.fsum(_fair(name, scenario).values())}


def _by_flow(size: Callable[[FlowPaths], float], unit_bytes: float) -> Callable[[Scenario], dict[str, float]]:
    """The largest size over all states of the network, in units of `unit_bytes`, for each flow except UDP flows."""

    def of(scenario: Scenario) -> dict[str, float]:
        return {flow: max(map(size, states)) / unit_bytes for flow, states in states_of_flows(scenario).items()}

    return of


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
        TheoryQuantity("virtual-buffer", "Buffer that fills all paths", "kB", "flow", _by_flow(one_way_bytes, 1e3)),
        TheoryQuantity("booked-memory", "Buffer that is booked", "MB", "flow", _by_flow(retransmission_bytes, 1e6)),
    ]
    return [*fair_ones, *totals, *buffers]


QUANTITIES: Mapping[str, TheoryQuantity] = {quantity.name: quantity for quantity in _all()}
"""All quantities by name."""
