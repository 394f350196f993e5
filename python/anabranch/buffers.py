"""Sizes of send and receive buffers that keep all paths of a flow busy, by the formulas of the literature.

* `round-trip`: twice the largest round-trip time times the total rate of the paths (RFC 8684, §3.3.1).
* `retransmission`: (3 · largest round-trip time + largest timeout) times the sum of the rates of all paths, each
  without any other traffic (Becke 2014, §5.1.2.2): large enough during a retransmission by timeout.
* `one-way`: twice the largest one-way delay times the total rate of the paths (Becke 2014, §7.3.3).

The total rate counts a link that several paths share once. Paths are counted *by pair* of addresses, as Multipath TCP
opens them, or *by destination*, as CMT-SCTP does: of the paths to one link at the receiver only the fastest counts.
Delays are those of the links, without queues and transmission times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import Request, canonical, simulate
from anabranch.errors import InputError
from anabranch.fairness.capacity import largest_total_bps, seconds
from anabranch.fairness.shares import states_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anabranch.fairness.capacity import Network, Path
    from anabranch.scenario import Scenario


@dataclass(frozen=True)
class FlowPaths:
    """Paths of a flow in one state of the network, with the rates and delays of their links."""

    network: Network
    flow: str
    paths: tuple[Path, ...]
    rto_min_s: float
    delays_s: Mapping[str, tuple[float, float]]
    """Delays from the first node of a link to its second and back, seconds, by link."""

    def one_way_s(self, path: Path) -> float:
        """Delay from the sender to the receiver, seconds."""
        return math.fsum(self.delays_s[link][0 if forward else 1] for link, forward in path)

    def round_trip_s(self, path: Path) -> float:
        """Round-trip delay over the same links, seconds."""
        return math.fsum(math.fsum(self.delays_s[link]) for link, _ in path)

    def rate_bps(self, path: Path) -> float:
        """Rate of a path without any other traffic, bit/s."""
        return min(self.network.rates[direction] for direction in path)

    def by_destination(self) -> FlowPaths:
        """The fastest path to each of the receiver's links; of equally fast paths the one with the smallest delay."""
        best: dict[Any, Path] = {}
        for path in sorted(self.paths, key=lambda path: (-self.rate_bps(path), self.round_trip_s(path))):
            best.setdefault(path[-1], path)
        return replace(self, paths=tuple(best.values()))

    @property
    def total_bps(self) -> float:
        """Total rate of the paths without any other traffic, bit/s."""
        return largest_total_bps(self.paths, self.network.rates)


def round_trip_bytes(flow: FlowPaths, _rto_s: float | None = None) -> float:
    """Twice the largest round-trip time times the total rate (RFC 8684, §3.3.1)."""
    return 2.0 * max(map(flow.round_trip_s, flow.paths), default=0.0) * flow.total_bps / 8.0


def retransmission_bytes(flow: FlowPaths, rto_s: float | None = None) -> float:
    """(3 · largest round-trip time + largest timeout) · sum of the rates of all paths (Becke 2014, §5.1.2.2).

    If none is given, the timeout is that of a path without queues: its round-trip time, at least `rto_min` (RFC 6298).
    """
    trip_s = max(map(flow.round_trip_s, flow.paths), default=0.0)
    timeout_s = max(flow.rto_min_s, trip_s) if rto_s is None else rto_s
    return (3.0 * trip_s + timeout_s) * math.fsum(map(flow.rate_bps, flow.paths)) / 8.0


def one_way_bytes(flow: FlowPaths, _rto_s: float | None = None) -> float:
    """Twice the largest one-way delay times the total rate (Becke 2014, §7.3.3)."""
    return 2.0 * max(map(flow.one_way_s, flow.paths), default=0.0) * flow.total_bps / 8.0


FORMULAS: dict[str, Callable[[FlowPaths, float | None], float]] = {
    "round-trip": round_trip_bytes, "retransmission": retransmission_bytes, "one-way": one_way_bytes,
}  # fmt: skip
"""Functions from a flow's paths and a timeout in seconds to the size in bytes, by name."""
COUNTS = ("pair", "destination")
"""Ways to count the paths of a flow."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of buffers of one flow."""

    flow: str
    paths: Mapping[str, int]
    """Number of paths by way to count them, one of `COUNTS`."""
    sizes_bytes: Mapping[str, Mapping[str, float]]
    """Size by way to count the paths and by formula."""
    send_buffer: str
    """The size in the scenario."""
    receive_buffer: str
    """The size in the scenario."""

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "flow": self.flow,
            "send_buffer": self.send_buffer,
            "receive_buffer": self.receive_buffer,
            "paths": dict(self.paths),
            "sizes_bytes": {count: dict(sizes) for count, sizes in self.sizes_bytes.items()},
        }


def states_of_flows(scenario: Scenario) -> dict[str, list[FlowPaths]]:
    """Paths of each flow in every state of the network, by flow; UDP flows are left out.

    Raises:
        InputError: If the scenario is not valid, or a link on a path follows a trace.

    """
    spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
    left_out = [flow["name"] for flow in spelt_out["flow"] if flow["protocol"] == "udp"]
    states = states_of(spelt_out, left_out, scenario.file)
    delays = {link["name"]: _delays_s(link) for link in spelt_out["link"]}
    return {
        flow["name"]: [
            FlowPaths(network, flow["name"], network.paths[flow["name"]], seconds(flow["rto_min"]), delays)
            for network, _ in states
        ]
        for flow in spelt_out["flow"]
        if flow["name"] not in left_out
    }


def buffers(scenario: Scenario, rto_s: float | None = None) -> list[Sizes]:
    """Compute the buffers of each flow by each formula: the largest size over all states of the network.

    Args:
        scenario: The scenario.
        rto_s: Largest retransmission timeout, seconds; by default that of paths without queues.

    Returns:
        Sizes of each flow except UDP flows, in the order of the scenario.

    Raises:
        InputError: If the scenario is not valid, a link on a path follows a trace, or all flows use UDP.

    """
    spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
    by_name = {flow["name"]: flow for flow in spelt_out["flow"]}
    if all(flow["protocol"] == "udp" for flow in by_name.values()):
        raise InputError("all flows use UDP, which has no such buffers; add a TCP, MPTCP or SCTP flow", scenario.file)
    found = []
    for name, states in states_of_flows(scenario).items():
        counted = {"pair": states, "destination": [state.by_destination() for state in states]}
        found.append(
            Sizes(
                flow=name,
                paths={count: max(len(state.paths) for state in chosen) for count, chosen in counted.items()},
                sizes_bytes={
                    count: {formula: max(size(state, rto_s) for state in chosen) for formula, size in FORMULAS.items()}
                    for count, chosen in counted.items()
                },
                send_buffer=str(by_name[name]["send_buffer"]),
                receive_buffer=str(by_name[name]["receive_buffer"]),
            )
        )
    return found


def prove(scenario: Scenario, found: list[Sizes]) -> dict[str, dict[str, float]]:
    """Goodput of each flow in runs with the file's buffers and with the buffers of each formula and way to count.

    Returns:
        Goodput by flow in bit/s, by "file" and by "FORMULA by COUNT"; all flows have buffers of the same formula.

    Raises:
        InputError: If the simulator refuses a size.

    """
    chosen = {"file": scenario}
    for count in COUNTS:
        for formula in FORMULAS:
            changed = scenario
            for sizes in found:
                size = f"{max(1, math.ceil(sizes.sizes_bytes[count][formula]))} B"
                for key in ("send_buffer", "receive_buffer"):
                    changed = changed.set(f"flow.{sizes.flow}.{key}", size)
            chosen[f"{formula} by {count}"] = changed
    goodputs = {}
    for name, changed in chosen.items():
        document = simulate(Request(changed.text, changed.file, changed.overrides))
        goodputs[name] = {flow["name"]: float(flow["goodput_bps"]) for flow in document["flows"]}
    return goodputs


def _delays_s(link: Mapping[str, Any]) -> tuple[float, float]:
    back: Mapping[str, Any] = link.get("reverse", {})
    delays = (link["delay"], back.get("delay", link["delay"]))
    if not all(isinstance(delay, str) for delay in delays):
        raise InputError(f'the delay of link "{link["name"]}" follows a trace; give it a constant delay')
    return seconds(delays[0]), seconds(delays[1])
