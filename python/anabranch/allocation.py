"""Fair allocations: what each flow of a network should get, in the senses in which multipath transport is called fair.

The formulas of the first three are those of Becke 2014, "Revisiting the IETF Multipath Extensions on Transport Layer",
chapter 6; the others are the two that the literature on networks compares everything with.

* `link-subflow`: each link is cut into equal parts, one for each subflow on it; a path gets the smallest of its parts
  (6.2).
* `link-flow`: each link is cut into equal parts, one for each flow on it, whatever its number of subflows; a flow gets
  the most that its paths carry within its parts (6.2).
* `network`: what flows that compete can carry together, in equal parts (6.3); who cannot use its part alone leaves the
  rest to the others (6.20). It is an ideal: `is_feasible` says whether the network can carry it.
* `max-min`: no flow can get more without taking it from one that has no more (Bertsekas and Gallager 1992, §6.5.2).
  Where the network can carry `network`, the two are the same.
* `proportional`: no other allocation is better in the sum of relative changes (Kelly, Maulloo, Tan 1998, §2).

Rates are in bit/s and count every bit on the wire. All flows always have something to send.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.capacity import ALLOCATION_NAMES, FEASIBILITY, largest_total_bps, reachable, solve
from anabranch.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from anabranch.capacity import Direction, Network, Path

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]

_TIGHT = 1e-6
"""By how much, as a share, a rate may miss another that it should reach: well above what the solvers leave."""


def is_feasible(network: Network, allocation: Mapping[str, float]) -> bool:
    """Whether a network can carry as much for each flow at the same time."""
    wanted = {flow: rate for flow, rate in allocation.items() if rate > 0.0}
    if not wanted:
        return True
    if any(network.largest_total_bps([flow]) == 0.0 for flow in wanted):
        return False
    programme = _Programme.of(network, wanted)
    scale, _ = programme.largest_floor(np.array(list(wanted.values())) / programme.unit, set())
    return scale >= 1.0 - _TIGHT


def competitors(network: Network) -> list[list[str]]:
    """The flows in groups that compete: those that a link can hold back together, and what follows from that."""
    groups = [[flow] for flow in network.paths]
    for direction in network.rates:
        flows = {flow for flow, paths in network.paths.items() if any(direction in path for path in paths)}
        if len(flows) > 1 and _holds_back(network, direction):
            joined = [group for group in groups if flows & set(group)]
            groups = [group for group in groups if group not in joined] + [[f for group in joined for f in group]]
    order = list(network.paths)
    return sorted((sorted(group, key=order.index) for group in groups), key=lambda group: order.index(group[0]))


def _holds_back(network: Network, direction: Direction) -> bool:
    """Whether the paths over a direction of a link could carry more if it alone were faster."""
    paths = [path for found in network.paths.values() for path in found if direction in path]
    others = [tuple(d for d in path if d != direction) for path in paths]
    return not all(others) or largest_total_bps(others, network.rates) > network.rates[direction] * (1.0 + _TIGHT)


@dataclass(frozen=True)
class _Programme:
    """The rates of paths as variables, in units of the largest rate that matters."""

    flows: tuple[str, ...]
    uses: Matrix
    """Which direction of a link (row) each path (column) uses."""
    limits: Vector
    belongs: Matrix
    """Which flow (row) each path (column) belongs to."""
    unit: float

    @classmethod
    def of(cls, network: Network, flows: Iterable[str]) -> _Programme:
        """The programme of some flows, all of which can carry something."""
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
        """The largest t for which every flow gets t times its floor, or just its floor if it is among `kept`.

        With it the price of each flow's floor: how fast t falls as that floor rises. Who has a price has its floor and
        no more whenever t is the largest.
        """
        grows = np.array([0.0 if f in kept else floor for f, floor in enumerate(floors)])
        stays = np.array([floor if f in kept else 0.0 for f, floor in enumerate(floors)])
        links = np.hstack([self.uses, np.zeros((len(self.limits), 1))])
        totals = np.hstack([-self.belongs, grows[:, None]])
        costs = np.zeros(links.shape[1])
        costs[-1] = -1.0
        found = solve(costs, np.vstack([links, totals]), np.concatenate([self.limits, -stays]))
        prices = -np.asarray(found.ineqlin.marginals)[len(self.limits) :] * floors
        return float(found.x[-1]), prices


def link_by_subflow(network: Network) -> dict[str, float]:
    """Equal parts of each link for each subflow on it; a path gets the smallest of its parts.

    The connection behind a proxy is one subflow, which carries what all subflows before the proxy do.
    """
    before = {
        flow: [path[: len(path) - len(network.behind.get(flow, ()))] for path in paths]
        for flow, paths in network.paths.items()
    }
    behind = {flow: network.behind[flow] for flow, paths in network.paths.items() if paths and flow in network.behind}
    on = Counter(direction for paths in before.values() for path in paths for direction in path)
    on.update(direction for path in behind.values() for direction in path)

    def part(path: Path) -> float:
        return min((network.rates[direction] / on[direction] for direction in path), default=math.inf)

    return {flow: min(sum(map(part, paths)), part(behind.get(flow, ()))) for flow, paths in before.items()}


def link_by_flow(network: Network) -> dict[str, float]:
    """Equal parts of each link for each flow on it, however many subflows it has there."""
    on = Counter(d for paths in network.paths.values() for d in {d for path in paths for d in path})
    parts = {direction: network.rates[direction] / count for direction, count in on.items()}
    return {flow: largest_total_bps(paths, parts) for flow, paths in network.paths.items()}


def network_wide(network: Network) -> dict[str, float]:
    """Equal parts of what competing flows carry together; what one cannot use alone is the others'."""
    allocation: dict[str, float] = {}
    for group in competitors(network):
        left, waiting = network.largest_total_bps(group), len(group)
        alone = {flow: network.largest_total_bps([flow]) for flow in group}
        for flow in sorted(group, key=alone.__getitem__):
            allocation[flow] = min(alone[flow], left / waiting)
            left, waiting = left - allocation[flow], waiting - 1
    return {flow: allocation[flow] for flow in network.paths}


def max_min(network: Network) -> dict[str, float]:
    """The allocation in which no flow can get more without taking it from one that has no more.

    The smallest rate is made as large as it can be; the flows that hold it back stay there; then the smallest of the
    rest.
    """
    able = _able(network)
    allocation = dict.fromkeys(network.paths, 0.0)
    if not able:
        return allocation
    programme = _Programme.of(network, able)
    levels, floors, kept = np.ones(len(able)), np.ones(len(able)), set[int]()
    while len(kept) < len(able):
        level, prices = programme.largest_floor(floors, kept)
        # The prices of those that grow add up to 1, so that one of them at least is held back.
        held = {f for f in range(len(able)) if f not in kept and prices[f] > _TIGHT}
        kept |= held
        levels[list(held)] = level
        # What the solver rounds up must not leave the next programme without a solution.
        floors[list(held)] = level * (1.0 - FEASIBILITY)
    return {**allocation, **dict(zip(programme.flows, map(float, levels * programme.unit), strict=True))}


def proportional(network: Network) -> dict[str, float]:
    """The allocation with the largest sum of logarithms.

    What a general solver finds is held against the definition: no allocation is better in the sum of relative changes,
    which is a linear programme.

    Raises:
        RunFailed: If what was found is not the optimum, by more than one part in a million.

    """
    able = _able(network)
    allocation = dict.fromkeys(network.paths, 0.0)
    if not able:
        return allocation
    programme = _Programme.of(network, able)
    totals = _largest_product(programme, np.array(list(able.values())) / programme.unit)
    better = -float(solve(-(1.0 / totals) @ programme.belongs, programme.uses, programme.limits).fun) - len(able)
    if better > _TIGHT:
        raise RunFailed(f"the proportionally fair allocation was not found: another is better by {better:.1e}")
    return {**allocation, **dict(zip(programme.flows, map(float, totals * programme.unit), strict=True))}


def _able(network: Network) -> dict[str, float]:
    """What each flow could carry alone, of those that can carry anything."""
    alone = {flow: network.largest_total_bps([flow]) for flow in network.paths}
    return {flow: rate for flow, rate in alone.items() if rate > 0.0}


def _largest_product(programme: _Programme, alone: Vector) -> Vector:
    """Totals of flows with the largest product, by sequential least squares (Kraft 1988)."""
    from scipy import optimize

    minimize: Any = optimize.minimize
    # Rates of paths in units of what each could carry, so that large and small ones are solved for alike.
    most = np.min(np.where(programme.uses > 0.0, programme.limits[:, None], np.inf), axis=0)
    totals = programme.belongs * most / alone[:, None]
    links = programme.uses * most / programme.limits[:, None]
    # No flow of the optimum has less than its part of what it could carry alone: giving it all of that would be better.
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
    zip(ALLOCATION_NAMES, (link_by_subflow, link_by_flow, network_wide, max_min, proportional), strict=True)
)
"""Every allocation by its name."""
