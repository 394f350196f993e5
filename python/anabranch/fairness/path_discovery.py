"""Discovers the paths that the protocols of a scenario open, and the links from a proxy to the receiving host.

The simulator runs the scenario's network for a short time with hardly any data, without loss and with all links up.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import Request, simulate
from anabranch.fairness.capacity import bits_per_second, directions, seconds
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._core.document import Document, SpeltOut
    from anabranch.fairness.capacity import Path

_SETTLING_S = 10.0
"""Duration of the run besides the round trips: longer than a few initial timeouts of every protocol."""
_ROUND_TRIPS = 20
_RATE_DIVISOR = 100
"""The flows of the run together send at the rate of the slowest link divided by this number."""
_MIN_RATE_BPS = 100.0
_CONTROLS = ("congestion", "scheduler")
"""Keys of a flow that decide when and where it sends, and not which paths it opens."""


@dataclass(frozen=True)
class _Discovery:
    """A scenario of such a run. Two are equal if their flows open the same paths."""

    key: str
    file: str
    """Name of the scenario in messages."""
    scenario: SpeltOut = field(compare=False, hash=False, repr=False)


def _discovery(scenario: SpeltOut, file: str) -> _Discovery:
    """The discovery in an undisturbed scenario."""
    flows = [{key: value for key, value in flow.items() if key not in _CONTROLS} for flow in scenario["flow"]]
    return _Discovery(json.dumps({**scenario, "flow": flows}), file, scenario)


def discover(spelt_out: SpeltOut, file: str) -> Document:
    """The result of such a run; a flow through a proxy ends at the proxy.

    Args:
        spelt_out: The scenario with every default.
        file: Name of the scenario in messages.

    Raises:
        InputError: If the simulator refuses the scenario.

    """
    return _simulated(_discovery(_undisturbed(spelt_out), file))


def links_behind_proxies(spelt_out: SpeltOut, file: str) -> dict[str, Path]:
    """Links of the TCP connection behind a proxy, in the direction of the data, by flow that passes a proxy.

    Args:
        spelt_out: The scenario with every default.
        file: Name of the scenario in messages.

    Raises:
        InputError: If the simulator refuses the scenario.

    """
    flows = [_leg(flow) for flow in spelt_out["flow"] if "through" in flow]
    if not flows:
        return {}
    document = _simulated(_discovery(_undisturbed({**spelt_out, "flow": flows}), file))
    return {
        flow["name"]: directions(flow, path, document)
        for flow in document["flows"]
        for path in flow["paths"][:1]
        if path["links"]
    }


def _leg(flow: Mapping[str, Any]) -> SpeltOut:
    """The connection from a flow's proxy to its receiving host."""
    kept = {key: flow[key] for key in ("name", "to", "direction") if key in flow}
    return {**kept, "from": flow["through"], "protocol": "tcp"}


@lru_cache(maxsize=256)
def _simulated(discovery: _Discovery) -> Document:
    return simulate(Request(_text(discovery.scenario), discovery.file))


def _text(scenario: Mapping[str, Any]) -> str:
    return "\n".join(setting(key, value) for key, value in scenario.items())


def _undisturbed(spelt_out: SpeltOut) -> SpeltOut:
    """A scenario of the same network and protocols in which all paths open undisturbed."""
    sides = [side for link in spelt_out["link"] for side in (link, link.get("reverse", {}))]
    delays = math.fsum(seconds(side["delay"]) for side in sides if isinstance(side.get("delay"), str))
    rates = [bits_per_second(side["rate"]) for side in sides if isinstance(side.get("rate"), str)]
    rate = max(_MIN_RATE_BPS, min(rates, default=1e6) / (_RATE_DIVISOR * len(spelt_out["flow"])))
    return {
        **{key: value for key, value in spelt_out.items() if key != "event"},
        "duration": f"{_SETTLING_S + _ROUND_TRIPS * delays} s",
        "warmup": "0 s",
        "link": [_undisturbed_link(link) for link in spelt_out["link"]],
        "flow": [
            {
                **{key: value for key, value in flow.items() if key not in ("stop", "through")},
                # The paths of a flow through a proxy end at the proxy.
                "to": flow.get("through", flow["to"]),
                "start": "0 s",
                "workload": {"kind": "rate", "rate": f"{rate} bit/s"},
            }
            for flow in spelt_out["flow"]
        ],
    }


def _undisturbed_link(link: Mapping[str, Any]) -> SpeltOut:
    """A link, or one direction of it, that is up, loses nothing and duplicates nothing."""
    kept = {key: value for key, value in link.items() if key not in ("loss", "duplicate")}
    kept["state"] = "up"
    if "reverse" in link:
        kept["reverse"] = _undisturbed_link(link["reverse"])
    return kept
