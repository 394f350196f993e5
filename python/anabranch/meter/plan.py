"""Builds a test from the options of `anabranch meter run`: flows of a scenario between hosts "client" and "server"."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = """title = "meter"
duration = "{seconds} s"
warmup = "{omit} s"
[[link]]
between = ["client", "server"]
rate = "1 Gbit/s"
"""
_FLOW = """[[flow]]
name = {name}
from = "{writes}"
to = "{reads}"
protocol = "{protocol}"
direction = "{direction}"
start = "{start} s"
workload = {workload}
"""
_DATAGRAM_BYTES = 1448
"""Payload in bytes that fits an Ethernet packet with IPv6, with a margin."""


@dataclass(frozen=True)
class FlowPlan:
    """A flow of a test, with its direction and workload."""

    name: str
    protocol: str
    workload: str
    """Workload of a scenario, as TOML."""
    direction: str = "forward"
    """`forward`: the client writes; `reverse`: the server writes; `both`: both write."""
    start_s: float = 0.0
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of its connection and traffic, with the names of `FlowOptions` of the native module."""

    @property
    def label(self) -> str:
        """Name in the results."""
        return str(self.options.get("description", self.name))

    @property
    def shares_connection(self) -> bool:
        """Whether this flow uses the connection of the previous flow in the other direction."""
        return bool(self.options.get("shares_connection"))

    def toml(self) -> str:
        """The flow as a table of a scenario."""
        # A datagram socket takes its remote address from the first received datagram.
        swapped = self.protocol == "udp" and self.direction == "reverse"
        writes, reads = ("server", "client") if swapped else ("client", "server")
        return _FLOW.format(
            name=json.dumps(self.name), writes=writes, reads=reads, protocol=self.protocol,
            direction="forward" if swapped else self.direction, workload=self.workload, start=f"{self.start_s:.9f}",
        )  # fmt: skip


@dataclass(frozen=True)
class TestPlan:
    """A test: its flows, duration and options."""

    __test__ = False  # pytest would collect the class by its name

    flows: list[FlowPlan] = field(default_factory=list)
    seconds: float = 10.0
    omit: float = 0.0
    """Additional seconds at the start that are not measured."""
    interval: float = 1.0
    keep_delays: bool = False
    single_port: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the flows in the result."""
        return [flow.label for flow in self.flows if not flow.shares_connection]

    def json(self) -> str:
        """The test as JSON for the native module."""
        head = _HEAD.format(seconds=f"{self.seconds + self.omit:.9f}", omit=f"{self.omit:.9f}")
        return json.dumps(
            {
                "scenario": head + "".join(flow.toml() for flow in self.flows),
                "interval_s": self.interval,
                "keep_delays": self.keep_delays,
                "single_port": self.single_port,
                "options": [flow.options for flow in self.flows],
            }
        )


def usual(protocol: str, *, rate: float | None, length: int | None, size: int | None) -> str:
    """The workload of a flow without a NetPerfMeter specification, as TOML.

    Args:
        protocol: Protocol of the flow.
        rate: Rate in bit/s; `None` for the largest possible rate, or 1 Mbit/s with UDP.
        length: Length of messages, bytes; `None` for the default.
        size: Bytes to send; `None` to send until the end of the test.

    Raises:
        InputError: If both `rate` and `size` are given.

    """
    if protocol == "udp" and rate is None and size is None:
        rate = 1e6
    length = _DATAGRAM_BYTES if length is None and protocol == "udp" else length
    message = f', message = "{length} B"' if length is not None else ""
    if size is not None:
        if rate is not None:
            raise InputError("--bitrate and --bytes exclude each other; omit one of them")
        return f'{{ kind = "file", size = "{size} B"{message} }}'
    if rate is not None:
        message = message or ', message = "128 KiB"'
        return f'{{ kind = "rate", rate = "{rate:.0f} bit/s"{message} }}'
    return f'{{ kind = "saturated"{message} }}'
