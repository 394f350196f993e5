"""Fair shares of the flows of a scenario: allocations of its network over the paths that its protocols open.

The paths come from a short run of the same network with hardly any data, without loss and with all links up (see
`anabranch.fairness.path_discovery`). Their rates follow from the rates and events of the scenario.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch import html
from anabranch._core.simulator import Request, canonical
from anabranch.errors import InputError, nearest
from anabranch.extras import require
from anabranch.fairness import path_discovery
from anabranch.fairness.capacity import MULTIPATH, Network, networks, preferences, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._core.document import FlowResult, SpeltOut
    from anabranch.fairness.capacity import Preferences
    from anabranch.scenario import Scenario


@dataclass(frozen=True)
class Fairness:
    """Fair allocations of a scenario's network, in bit/s on the wire, averaged over its measured time.

    `anabranch.fairness.allocation` lists the allocations and their sources.
    """

    title: str
    """Title of the scenario."""
    subflows: Mapping[str, int]
    """Number of paths that carry the data of each flow, by flow, in the order of the scenario."""
    allocations: Mapping[str, Mapping[str, float]]
    """Rate of each flow, bit/s, by name of the allocation and by flow."""
    feasible: Mapping[str, bool]
    """Whether the network can carry an allocation at all times, by name of the allocation."""
    alone_bps: Mapping[str, float]
    """Largest rate of each flow while no other flow sends, bit/s, by flow."""
    best_path_bps: Mapping[str, float]
    """Largest rate of each flow over its fastest path only, while no other flow sends, bit/s, by flow."""
    possible_bps: float
    """Largest total rate of all flows, bit/s."""
    left_out: Sequence[str]
    """Names of the UDP flows. UDP does not adapt its rate; the allocations ignore these flows."""

    def __repr__(self) -> str:
        return f"Fairness({self.title!r}, {len(self.subflows)} flows, possible_bps={self.possible_bps:.6g})"

    def _repr_html_(self) -> str:
        """The allocations as a table, for notebooks."""
        return html.table(
            f"{self.title}: fair rates in Mbit/s",
            ("Flow", *self.allocations, "alone"),
            (
                (
                    flow,
                    *(html.mbps(found[flow]) for found in self.allocations.values()),
                    html.mbps(self.alone_bps[flow]),
                )
                for flow in self.subflows
            ),
        )

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON; `anabranch fair --json` prints it."""
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


def fair(scenario: Scenario, weights: Mapping[str, float] | None = None) -> Fairness:
    """Compute the fair allocations of a scenario's network, as if all flows always had data to send.

    Args:
        scenario: The scenario. Its workloads do not matter; its paths, rates and events do.
        weights: Weights of flows in the allocation `access`; by default the number of a flow's access links.

    Returns:
        Fair and largest rates of the flows, in bit/s on the wire.

    Raises:
        InputError: If the scenario is not valid, a link on a path of the flows follows a trace, all flows use UDP, or
            a weight is not above 0 or names no flow.
        RunFailed: If an allocation was not found to the required precision.

    """
    return fair_of(canonical(Request(scenario.text, scenario.file, scenario.overrides)), scenario.file, weights)


def possible_bps_of(scenario: Scenario) -> float:
    """The largest total rate of a scenario's flows, without their fair allocations, bit/s.

    Raises:
        InputError: As for `fair`.
        RunFailed: If the solver does not find a solution.

    """
    spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
    return _possible_bps(states_of(spelt_out, _left_out(spelt_out, scenario.file), scenario.file))


def _possible_bps(states: Sequence[tuple[Network, float]]) -> float:
    return math.fsum(share * network.largest_total_bps(network.paths) for network, share in states)


def _left_out(spelt_out: SpeltOut, file: str) -> list[str]:
    """Flows that do not share capacity."""
    found = [flow["name"] for flow in spelt_out["flow"] if flow["protocol"] == "udp"]
    if len(found) == len(spelt_out["flow"]):
        raise InputError("all flows use UDP, which does not share capacity; add a TCP, MPTCP or SCTP flow", file)
    return found


def fair_of(spelt_out: SpeltOut, file: str, weights: Mapping[str, float] | None = None) -> Fairness:
    """Compute the fair allocations of a scenario with every default spelt out, as in a result document.

    Args:
        spelt_out: The scenario with every default.
        file: Name of the scenario in messages.
        weights: As for `fair`.

    Raises:
        InputError: As for `fair`.
        RunFailed: As for `fair`.

    """
    left_out = _left_out(spelt_out, file)
    chosen = dict(weights or {})
    _check_weights(chosen, [flow["name"] for flow in spelt_out["flow"] if flow["name"] not in left_out])
    states = [(replace(network, weights=chosen), share) for network, share in states_of(spelt_out, left_out, file)]
    return _averaged(spelt_out["title"], states, left_out)


def _check_weights(weights: Mapping[str, float], flows: Sequence[str]) -> None:
    for flow, weight in weights.items():
        if flow not in flows:
            raise InputError(f'a weight names the flow "{flow}", which does not share ({nearest(flow, list(flows))})')
        if not 0.0 < weight < math.inf:
            raise InputError(f'the weight of "{flow}" must be above 0, but is {weight:g}')


def states_of(spelt_out: SpeltOut, left_out: Sequence[str], file: str) -> list[tuple[Network, float]]:
    """The states of a scenario's network with the paths of its flows, each with its share of the measured time.

    Args:
        spelt_out: The scenario with every default.
        left_out: Names of flows to ignore.
        file: Name of the scenario in messages.

    Raises:
        InputError: If a link on a path of the flows follows a trace.

    """
    document = path_discovery.discover(spelt_out, file)
    paths = {flow["name"]: _carrying(flow) for flow in document["flows"] if flow["name"] not in left_out}
    measured_s = (seconds(spelt_out["warmup"]), seconds(spelt_out["duration"]))
    states = networks(document, spelt_out, paths, measured_s, path_discovery.links_behind_proxies(spelt_out, file))
    if states is None:
        raise InputError("a link follows a trace and has no fixed rate to share; set its rate", file)
    return states


def _carrying(flow: FlowResult) -> Preferences:
    """The paths that a flow opened, in the order in which its protocol uses them."""
    usable = [path for path in flow["paths"] if path["usable"]]
    if flow["protocol"] not in MULTIPATH:
        usable.sort(key=lambda path: -path["data_packets"])
    return preferences({**flow, "paths": usable})


def _averaged(title: str, states: Sequence[tuple[Network, float]], left_out: Sequence[str]) -> Fairness:
    key = tuple(
        (*(tuple(m.items()) for m in (network.paths, network.rates, network.behind, network.weights)), share)
        for network, share in states
    )
    return replace(_allocated(key), title=title, left_out=left_out)


@lru_cache(maxsize=1024)
def _allocated(key: tuple[tuple[Any, ...], ...]) -> Fairness:
    """The allocations of networks with these paths and rates, each with its share of the time.

    The results are cached because the points of a study often have the same network, and each allocation solves
    optimisation problems.
    """
    require("statistics", "a fair allocation")
    from anabranch.fairness.allocation import ALLOCATIONS, is_feasible

    states = [(Network(*map(dict, parts)), share) for *parts, share in key]
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
        possible_bps=_possible_bps(states),
        left_out=(),
    )
