"""Fair allocations: the rate of each flow in a network, by six definitions of fairness for multipath transport.

The first three definitions are those of Becke 2014, "Revisiting the IETF Multipath Extensions on Transport Layer",
chapter 6. The next two are common in the literature on networks. The last one extends `max-min`.

* `link-subflow`: each link is divided equally among the subflows on it. A path gets its smallest share (6.2).
* `link-flow`: each link is divided equally among the flows on it, whatever their numbers of subflows. A flow gets the
  largest total that its paths carry within its shares (6.2).
* `network`: the largest total rate of competing flows is divided equally (6.3). A flow that cannot use its whole share
  leaves the rest to the others (6.20). This is an ideal: `is_feasible` checks whether the network can carry it.
* `max-min`: no flow can get more unless a flow with at most the same rate gets less (Bertsekas and Gallager 1992,
  §6.5.2). If the network can carry the allocation `network`, `max-min` equals it.
* `proportional`: for every other allocation, the sum of the relative changes of rates is 0 or negative (Kelly, Maulloo,
  Tan 1998, §2).
* `access`: max-min fairness with weights. It maximises the smallest rate divided by weight, then the next one. The
  weight of a flow is the number of its access links (`access_links`), unless `Network.weights` has another one.

Rates are in bit/s and count every bit on the wire. All flows always have data to send.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.errors import RunFailed
from anabranch.fairness.capacity import ALLOCATION_NAMES, largest_total_bps, reachable
from anabranch.fairness.solver import FEASIBILITY, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from anabranch.fairness.capacity import Direction, Network, Path

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]

_RATE_TOLERANCE = 1e-6
"""Relative tolerance of comparisons between rates; it is well above the errors of the solvers."""


def is_feasible(network: Network, allocation: Mapping[str, float]) -> bool:
    """Whether a network can carry the rates of an allocation, bit/s by flow, at the same time."""
    wanted = {flow: rate for flow, rate in allocation.items() if rate > 0.0}
    if not wanted:
        return True
    if any(network.largest_total_bps([flow]) == 0.0 for flow in wanted):
        return False
    programme = _Programme.of(network, wanted)
    scale, _ = programme.largest_floor(np.array(list(wanted.values())) / programme.unit, set())
    return scale >= 1.0 - _RATE_TOLERANCE


def competitors(network: Network) -> list[list[str]]:
    """Groups of competing flows: two flows compete if they share a bottleneck, or both compete with a third flow."""
    groups = [[flow] for flow in network.paths]
    for direction in network.rates:
        flows = {flow for flow, paths in network.paths.items() if any(direction in path for path in paths)}
        if len(flows) > 1 and _is_bottleneck(network, direction):
            joined = [group for group in groups if flows & set(group)]
            groups = [group for group in groups if group not in joined] + [[f for group in joined for f in group]]
    order = list(network.paths)
    return sorted((sorted(group, key=order.index) for group in groups), key=lambda group: order.index(group[0]))


def _is_bottleneck(network: Network, direction: Direction) -> bool:
    """Whether the paths over a direction of a link could carry more if only this direction were faster."""
    paths = [path for found in network.paths.values() for path in found if direction in path]
    others = [tuple(d for d in path if d != direction) for path in paths]
    return not all(others) or largest_total_bps(others, network.rates) > network.rates[direction] * (
        1.0 + _RATE_TOLERANCE
    )


@dataclass(frozen=True)
class _Programme:
    """A linear programme with the rates of paths as variables, in units of the largest limit."""

    flows: tuple[str, ...]
    uses: Matrix
    """1 where a path (column) uses a direction of a link (row), else 0."""
    limits: Vector
    belongs: Matrix
    """1 where a path (column) belongs to a flow (row), else 0."""
    unit: float

    @classmethod
    def of(cls, network: Network, flows: Iterable[str]) -> _Programme:
        """The programme of some flows; each of them must be able to carry data."""
        chosen = tuple(flows)
        columns = [
            (flow, path)
            for flow in chosen
            for path in dict.fromkeys(network.paths[flow])
            if all(network.rates[direction] > 0.0 for direction in path)
        ]
        bounds = sorted({direction for _, path in columns for direction in path})
        limits = np.array(reachable(list(dict.fromkeys(path for _, path in columns)), network.rates, bounds))
        unit = float(limits.max())
        uses = np.array([[float(direction in path) for _, path in columns] for direction in bounds])
        belongs = np.array([[float(flow == owner) for owner, _ in columns] for flow in chosen])
        return cls(chosen, uses, limits / unit, belongs, unit)

    def largest_floor(self, floors: Vector, kept: set[int]) -> tuple[float, Vector]:
        """The largest t such that each flow gets at least t times its floor; flows in `kept` get at least their floor.

        Also returns the price of each flow's floor: its dual variable times the floor. A flow with a positive price
        limits t and gets exactly its floor in every optimum.
        """
        grows = np.array([0.0 if f in kept else floor for f, floor in enumerate(floors)])
        stays = np.array([floor if f in kept else 0.0 for f, floor in enumerate(floors)])
        links = np.hstack([self.uses, np.zeros((len(self.limits), 1))])
        totals = np.hstack([-self.belongs, grows[:, None]])
        costs = np.zeros(links.shape[1])
        costs[-1] = -1.0
        found = solve(costs, np.vstack([links, totals]), np.concatenate([self.limits, -stays]))
        prices = -found.prices[len(self.limits) :] * floors
        return float(found.values[-1]), prices


def link_by_subflow(network: Network) -> dict[str, float]:
    """Divide each link equally among the subflows on it; a path gets the smallest of its shares (Becke 2014, 6.2).

    The connection behind a proxy is one subflow and carries the data of all subflows before the proxy.

    Args:
        network: Paths of the flows and rates of the links.

    Returns:
        Rate of each flow, bit/s.

    """
    before = {
        flow: [path[: len(path) - len(network.behind.get(flow, ()))] for path in paths]
        for flow, paths in network.paths.items()
    }
    behind = {flow: network.behind[flow] for flow, paths in network.paths.items() if paths and flow in network.behind}
    on = Counter(direction for paths in before.values() for path in paths for direction in path)
    on.update(direction for path in behind.values() for direction in path)

    def share(path: Path) -> float:
        return min((network.rates[direction] / on[direction] for direction in path), default=math.inf)

    return {flow: min(sum(map(share, paths)), share(behind.get(flow, ()))) for flow, paths in before.items()}


def link_by_flow(network: Network) -> dict[str, float]:
    """Divide each link equally among the flows on it, whatever their numbers of subflows (Becke 2014, 6.2).

    Args:
        network: Paths of the flows and rates of the links.

    Returns:
        Rate of each flow, bit/s.

    """
    on = Counter(d for paths in network.paths.values() for d in {d for path in paths for d in path})
    parts = {direction: network.rates[direction] / count for direction, count in on.items()}
    return {flow: largest_total_bps(paths, parts) for flow, paths in network.paths.items()}


def network_wide(network: Network) -> dict[str, float]:
    """Divide the largest total rate of competing flows equally among them (Becke 2014, 6.3 and 6.20).

    If a flow cannot use its whole share, the other flows divide the unused part.

    Args:
        network: Paths of the flows and rates of the links.

    Returns:
        Rate of each flow, bit/s; the network may be unable to carry all of them at the same time.

    """
    allocation: dict[str, float] = {}
    for group in competitors(network):
        left, waiting = network.largest_total_bps(group), len(group)
        alone = {flow: network.largest_total_bps([flow]) for flow in group}
        for flow in sorted(group, key=alone.__getitem__):
            allocation[flow] = min(alone[flow], left / waiting)
            left, waiting = left - allocation[flow], waiting - 1
    return {flow: allocation[flow] for flow in network.paths}


def max_min(network: Network) -> dict[str, float]:
    """The max-min fair allocation, by progressive filling (Bertsekas and Gallager 1992, §6.5.2).

    Each step maximises the smallest rate of the remaining flows and then fixes the rates of the flows that limit it.

    Args:
        network: Paths of the flows and rates of the links.

    Returns:
        Rate of each flow, bit/s.

    Raises:
        RunFailed: If the solver does not find a solution.

    """
    return _weighted_max_min(network, dict.fromkeys(network.paths, 1.0))


def access(network: Network) -> dict[str, float]:
    """The max-min fair allocation of rates divided by weights (Bertsekas and Gallager 1992, §6.5.2).

    Args:
        network: Paths of the flows, rates of the links, and weights of flows where they are not `access_links`.

    Returns:
        Rate of each flow, bit/s.

    Raises:
        RunFailed: If the solver does not find a solution.

    """
    numbers = {flow: float(max(1, access_links(network, flow))) for flow in network.paths}
    return _weighted_max_min(network, {**numbers, **network.weights})


def access_links(network: Network, flow: str) -> int:
    """The number of a flow's access links: the links next to its sender or to its receiver, whichever are more.

    A proxy counts as the receiver.
    """
    behind = len(network.behind.get(flow, ()))
    paths = [path[: len(path) - behind] or path for path in network.paths[flow]]
    return max(len({path[0] for path in paths}), len({path[-1] for path in paths})) if paths else 0


def _weighted_max_min(network: Network, weights: Mapping[str, float]) -> dict[str, float]:
    """The allocation that maximises the smallest rate divided by weight, then the next one, by progressive filling."""
    alone_bps = _rates_alone(network)
    allocation = dict.fromkeys(network.paths, 0.0)
    if not alone_bps:
        return allocation
    programme = _Programme.of(network, alone_bps)
    # The largest weight is 1: the unit of the programme then stays the largest rate.
    chosen = np.array([weights[flow] for flow in programme.flows])
    chosen /= chosen.max()
    levels, floors, kept = chosen.copy(), chosen.copy(), set[int]()
    while len(kept) < len(alone_bps):
        level, prices = programme.largest_floor(floors, kept)
        # The prices of growing flows add up to 1: at least one of them is limited.
        held = {f for f in range(len(alone_bps)) if f not in kept and prices[f] > _RATE_TOLERANCE}
        kept |= held
        levels[list(held)] = level * chosen[list(held)]
        # Without this margin, rounding in the solver could leave the next programme without a solution.
        floors[list(held)] = levels[list(held)] * (1.0 - FEASIBILITY)
    return {**allocation, **dict(zip(programme.flows, map(float, levels * programme.unit), strict=True))}


def proportional(network: Network) -> dict[str, float]:
    """The proportionally fair allocation: the largest sum of logarithms of rates (Kelly, Maulloo, Tan 1998, §2).

    A linear programme checks the general solver's result against the definition: no other allocation may have a
    positive sum of relative changes.

    Args:
        network: Paths of the flows and rates of the links.

    Returns:
        Rate of each flow, bit/s.

    Raises:
        RunFailed: If another allocation has a sum of relative changes above one part in a million.

    """
    alone_bps = _rates_alone(network)
    allocation = dict.fromkeys(network.paths, 0.0)
    if not alone_bps:
        return allocation
    programme = _Programme.of(network, alone_bps)
    totals = _largest_product(programme, np.array(list(alone_bps.values())) / programme.unit)
    better = -solve(-(1.0 / totals) @ programme.belongs, programme.uses, programme.limits).cost - len(alone_bps)
    if better > _RATE_TOLERANCE:
        raise RunFailed(f"the proportionally fair allocation was not found: another is better by {better:.1e}")
    return {**allocation, **dict(zip(programme.flows, map(float, totals * programme.unit), strict=True))}


def _rates_alone(network: Network) -> dict[str, float]:
    """Largest rate of each flow without any other traffic, bit/s; flows with rate 0 are left out."""
    alone = {flow: network.largest_total_bps([flow]) for flow in network.paths}
    return {flow: rate for flow, rate in alone.items() if rate > 0.0}


def _largest_product(programme: _Programme, alone: Vector) -> Vector:
    """Totals of flows with the largest product, by sequential least squares (Kraft 1988)."""
    from scipy import optimize

    minimize: Any = optimize.minimize
    # The unit of each path's rate is the path's largest rate: the solver treats large and small paths alike.
    most = np.min(np.where(programme.uses > 0.0, programme.limits[:, None], np.inf), axis=0)
    totals = programme.belongs * most / alone[:, None]
    links = programme.uses * most / programme.limits[:, None]
    # Lower bound: in the optimum, each of n flows has at least 1/n of the rate that it has alone. Otherwise a move
    # towards that rate would increase the product.
    floor = 1.0 / len(alone)

    def shares(x: Vector) -> Vector:
        return np.asarray(np.maximum(totals @ x, 0.5 * floor))

    found = minimize(
        lambda x: -np.sum(np.log(shares(x))),
        np.min(np.where(links > 0.0, (1.0 / links.sum(axis=1))[:, None], np.inf), axis=0),
        jac=lambda x: -(1.0 / shares(x)) @ totals,
        bounds=[(0.0, None)] * len(most),
        constraints=[
            {"type": "ineq", "fun": lambda x: 1.0 - links @ x, "jac": lambda _: -links},
            {"type": "ineq", "fun": lambda x: totals @ x - floor, "jac": lambda _: totals},
        ],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return np.asarray(totals @ found.x * alone)


ALLOCATIONS: dict[str, Callable[[Network], dict[str, float]]] = dict(
    zip(ALLOCATION_NAMES, (link_by_subflow, link_by_flow, network_wide, max_min, proportional, access), strict=True)
)
"""Every allocation by its name."""
