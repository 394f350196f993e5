"""Builds a test from the options of `anabranch meter run`: flows of a scenario between hosts "client" and "server"."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from anabranch.errors import InputError

PROTOCOLS = ("tcp", "mptcp", "udp", "sctp")

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
workload = {workload}
"""
_DISTRIBUTION = re.compile(r"(const|exp|uniform|pareto)([0-9.,]*)")
_DATAGRAM = 1448
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

    def toml(self) -> str:
        """The flow as a table of a scenario."""
        # A datagram socket takes its remote address from the first received datagram.
        swapped = self.protocol == "udp" and self.direction == "reverse"
        writes, reads = ("server", "client") if swapped else ("client", "server")
        return _FLOW.format(
            name=json.dumps(self.name), writes=writes, reads=reads, protocol=self.protocol,
            direction="forward" if swapped else self.direction, workload=self.workload,
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
    congestion: str | None = None
    buffer: int | None = None
    nagle: bool = False
    keep_delays: bool = False

    def json(self) -> str:
        """The test as JSON for the native module."""
        head = _HEAD.format(seconds=f"{self.seconds + self.omit:.9f}", omit=f"{self.omit:.9f}")
        return json.dumps(
            {
                "scenario": head + "".join(flow.toml() for flow in self.flows),
                "congestion": self.congestion,
                "buffer": self.buffer,
                "nagle": self.nagle,
                "interval_s": self.interval,
                "keep_delays": self.keep_delays,
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
    length = _DATAGRAM if length is None and protocol == "udp" else length
    message = f', message = "{length} B"' if length is not None else ""
    if size is not None:
        if rate is not None:
            raise InputError("--bitrate and --bytes exclude each other; omit one of them")
        return f'{{ kind = "file", size = "{size} B"{message} }}'
    if rate is not None:
        message = message or ', message = "128 KiB"'
        return f'{{ kind = "rate", rate = "{rate:.0f} bit/s"{message} }}'
    return f'{{ kind = "saturated"{message} }}'


def specified(spec: str, number: int) -> FlowPlan:
    """Parse a flow in NetPerfMeter's notation, prefixed with the protocol.

    An example is `tcp:const0:const1400:const0:const0:description=T1`. The format is PROTOCOL:RATE:SIZE for the client's
    messages and :RATE:SIZE for the server's. RATE is constN or expN in messages per second; const0 is as fast as
    possible. SIZE is constN, expN, uniformLOW,HIGH or paretoMIN,SHAPE,MAX in bytes; const0 sends no data.

    Args:
        spec: The specification.
        number: Number of the flow, for its default name.

    Raises:
        InputError: If the specification is not valid.

    """
    protocol, *parts = spec.split(":")
    if protocol not in PROTOCOLS:
        raise InputError(f'--flow {spec}: unknown protocol "{protocol}"; use one of {", ".join(PROTOCOLS)}')
    values = [part for part in parts if "=" not in part]
    options = dict(part.split("=", 1) for part in parts if "=" in part)
    unknown = options.keys() - {"description"}
    if unknown:
        raise InputError(f'--flow {spec}: unknown option "{min(unknown)}"; the only option is "description"')
    match values:
        case [rate, size]:
            forward, back = _workload(spec, rate, size), None
        case [rate, size, back_rate, back_size]:
            forward, back = _workload(spec, rate, size), _workload(spec, back_rate, back_size)
        case _:
            raise InputError(f"--flow {spec}: write PROTOCOL:RATE:SIZE, and :RATE:SIZE for the server's messages")
    name = options.get("description") or f"{protocol}-{number}"
    if forward is not None and back is not None and forward != back:
        raise InputError(f"--flow {spec}: the two directions have different workloads; give one flow per direction")
    direction = "both" if forward is not None and back is not None else "forward" if forward is not None else "reverse"
    workload = forward or back
    if workload is None:
        raise InputError(f"--flow {spec}: neither end sends data; give a size other than const0")
    return FlowPlan(name, protocol, workload, direction)


def _workload(spec: str, rate: str, size: str) -> str | None:
    """Workload of one end; `None` if it sends no data."""
    kind, (messages, *more) = _distribution(spec, rate)
    message = _message(spec, size)
    if message is None:
        return None
    if kind not in {"const", "exp"} or more:
        raise InputError(f"--flow {spec}: a rate must be constN or expN, in messages per second")
    if messages == 0:
        return f'{{ kind = "saturated", message = {message} }}'
    distribution = "exponential" if kind == "exp" else "constant"
    interval = f"{1e9 / messages:.0f} ns"
    return f'{{ kind = "messages", message = {message}, interval = "{interval}", distribution = "{distribution}" }}'


def _message(spec: str, size: str) -> str | None:
    kind, values = _distribution(spec, size)
    whole = [f'"{round(value)} B"' for value in values]
    match (kind, whole):
        case ("const", [only]):
            return only if values[0] else None
        case ("exp", [mean]):
            return f"{{ exponential = {mean} }}"
        case ("uniform", [low, high]):
            return f"{{ uniform = [{low}, {high}] }}"
        case ("pareto", [low, _, high]):
            return f"{{ pareto = {{ min = {low}, shape = {values[1]:g}, max = {high} }} }}"
    raise InputError(
        f'--flow {spec}: "{size}" is not a size; write constN, expN, uniformLOW,HIGH or paretoMIN,SHAPE,MAX'
    )


def _distribution(spec: str, text: str) -> tuple[str, list[float]]:
    match = _DISTRIBUTION.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        return match[1], [float(value) for value in match[2].split(",")]
    except ValueError:
        raise InputError(f'--flow {spec}: "{text}" is not a distribution; write for example const1400') from None
