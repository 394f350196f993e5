"""What the flows of a scenario should get: fair allocations of its network, with the paths that its protocols find.

Which paths a flow has is asked of the protocols themselves: they open them in a short run of the same network in which
hardly anything is sent, nothing is lost and no link goes down. What those paths carry follows from the rates and events
of the scenario.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch import calm
from anabranch.capacity import MULTIPATH, Network, networks, preferences, seconds
from anabranch.errors import InputError
from anabranch.simulator import Document, Request, canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.capacity import Preferences
    from anabranch.scenario import Scenario


@dataclass(frozen=True)
class Fairness:
    """Fair allocations of a scenario's network, in bit/s on the wire, averaged over its measured time."""

    title: str
    subflows: Mapping[str, int]
    """By flow, in the order of the scenario: how many paths carry its data."""
    allocations: Mapping[str, Mapping[str, float]]
    """By the allocation's name, what each flow gets; see `anabranch.allocation`."""
    feasible: Mapping[str, bool]
    """Whether the network can carry an allocation, at all times."""
    alone_bps: Mapping[str, float]
    """What each flow could get while all others are silent."""
    best_path_bps: Mapping[str, float]
    """What each flow could get over the fastest one of its paths alone."""
    possible_bps: float
    """What all flows could get together."""
    left_out: Sequence[str]
    """Flows of UDP, which take what they are given and share with nobody; what they take is not counted."""

    def document(self) -> Document:
        """All of it as a value for JSON."""
        return {
            "title": self.title,
            "possible_bps": self.possible_bps,
            "flows": [
                {
                    "name": flow,
                    "subflows": self.subflows[flow],
                    "alone_bps": self.alone_bps[flow],
                    "fair_bps": {name: found[flow] for name, found in self.allocations.items()},
                }
                for flow in self.subflows
            ],
            "feasible": dict(self.feasible),
            "left_out": list(self.left_out),
        }


def fair(scenario: Scenario) -> Fairness:
    """Fair allocations of the network of a scenario, all flows of which are taken to have always something to send.

    Raises:
        InputError: If the scenario is not valid, a link that counts follows a trace, or all flows are of UDP.

    """
    spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
    left_out = [flow["name"] for flow in spelt_out["flow"] if flow["protocol"] == "udp"]
    if len(left_out) == len(spelt_out["flow"]):
        raise InputError(
            "all flows use UDP, which does not share capacity; add a TCP, MPTCP or SCTP flow", scenario.file
        )
    return _averaged(spelt_out["title"], states_of(spelt_out, left_out, scenario.file), left_out)


def states_of(spelt_out: Document, left_out: Sequence[str], file: str) -> list[tuple[Network, float]]:
    """The states of a scenario's network with the paths of its flows, each with its share of the measured time.

    Args:
        spelt_out: The scenario with every default.
        left_out: Flows whose paths are not wanted.
        file: What the scenario is called in messages.

    Raises:
        InputError: If a link that counts follows a trace.

    """
    document = calm.run(spelt_out, file)
    paths = {flow["name"]: _carrying(flow) for flow in document["flows"] if flow["name"] not in left_out}
    measured_s = (seconds(spelt_out["warmup"]), seconds(spelt_out["duration"]))
    states = networks(document, spelt_out, paths, measured_s, calm.behind(spelt_out, file))
    if states is None:
        raise InputError("a link follows a trace, so that it has no rate to share; give it one", file)
    return states


def _carrying(flow: Mapping[str, Any]) -> Preferences:
    """The paths that a flow opened, in the order in which its protocol uses them."""
    usable = [path for path in flow["paths"] if path["usable"]]
    if flow["protocol"] not in MULTIPATH:
        usable.sort(key=lambda path: -path["data_packets"])
    return preferences({**flow, "paths": usable})


def _averaged(title: str, states: Sequence[tuple[Network, float]], left_out: Sequence[str]) -> Fairness:
    told = tuple(
        (tuple(network.paths.items()), tuple(network.rates.items()), tuple(network.behind.items()), share)
        for network, share in states
    )
    return replace(_allocated(told), title=title, left_out=left_out)


@lru_cache(maxsize=1024)
def _allocated(told: tuple[tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], float], ...]) -> Fairness:
    """What is fair in networks with these paths and rates, each with its share of the time.

    Points of a study differ in controls and buffers more often than in networks, and allocations are programmes to
    solve.
    """
    from anabranch.allocation import ALLOCATIONS, is_feasible

    states = [(Network(dict(paths), dict(rates), dict(behind)), share) for paths, rates, behind, share in told]
    flows = list(states[0][0].paths)
    allocations: dict[str, dict[str, float]] = {}
    feasible: dict[str, bool] = {}
    for name, allocate in ALLOCATIONS.items():
        parts = [(allocate(network), share) for network, share in states]
        allocations[name] = {flow: math.fsum(share * part[flow] for part, share in parts) for flow in flows}
        feasible[name] = all(is_feasible(network, part) for (network, _), (part, _) in zip(states, parts, strict=True))
    return Fairness(
        title="",
        subflows={flow: len(paths) for flow, paths in states[0][0].paths.items()},
        allocations=allocations,
        feasible=feasible,
        alone_bps={flow: math.fsum(s * network.largest_total_bps([flow]) for network, s in states) for flow in flows},
        best_path_bps={flow: math.fsum(s * network.best_path_bps(flow) for network, s in states) for flow in flows},
        possible_bps=math.fsum(share * network.largest_total_bps(flows) for network, share in states),
        left_out=(),
    )
