"""Turns flows in NetPerfMeter's notation into flows of a test, and refuses options that a test cannot carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.meter.plan import FlowPlan
from anabranch.meter.specification import Distribution, Frames, Specification, Switches, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CONTROLLED_PROTOCOLS = ("tcp", "mptcp", "sctp")
"""Protocols with congestion control."""
_ALL_PROTOCOLS = (*_CONTROLLED_PROTOCOLS, "udp")
_CMT_OF_MPTCP = ("mptcp", "like-mptcp", "mptcp-like")
_MAX_SUM_ERROR = 1e-9  # of two fractions that add up to 1
_MAX_FRAME_BYTES = 1 << 30
"""Largest frame of a Pareto distribution without a maximum: the limit of a message."""


def specified(text: str, number: int) -> list[FlowPlan]:
    """Plan a flow in NetPerfMeter's notation: one of each direction, if they have different workloads.

    Args:
        text: The flow, for example `tcp:const0:const1400:const0:const0:description=T1`.
        number: Number of the flow, for its default name.

    Raises:
        InputError: If the text is not valid, or a test cannot carry out an option.

    """
    flow = parse(text)
    try:
        return _planned(flow, number)
    except ValueError as reason:
        raise InputError(f"--flow {text}: {reason}") from None


def _planned(flow: Specification, number: int) -> list[FlowPlan]:
    protocol = _protocol(flow)
    options = _carried(flow, protocol)
    start_s = flow.options.get("start", 0.0)
    name = f"{protocol}-{number}"
    forward = _workload(flow.outgoing)
    back = _workload(flow.incoming) if flow.incoming else None

    def plan(workload: str, direction: str) -> FlowPlan:
        return FlowPlan(name, protocol, workload, direction, start_s, options)

    if forward is None and back is None:
        raise ValueError("neither end sends data; give a size other than const0")
    if back is None:
        return [plan(str(forward), "forward")]
    if forward is None:
        return [plan(back, "reverse")]
    if forward == back:
        return [plan(forward, "both")]
    second = FlowPlan(f"{name}-back", protocol, back, "reverse", start_s, {**options, "shares_connection": True})
    return [plan(forward, "forward"), second]


def _protocol(flow: Specification) -> str:
    """The protocol of the flow; `cmt=mptcp` makes a TCP flow one of Multipath TCP."""
    protocol, cmt = flow.protocol, flow.options.get("cmt", "off")
    if protocol == "dccp":
        raise ValueError("this meter has no DCCP, which Linux has removed; use udp")
    if protocol == "tcp" and cmt in _CMT_OF_MPTCP:
        return "mptcp"
    if protocol == "mptcp" and cmt not in _CMT_OF_MPTCP and "cmt" in flow.options:
        raise ValueError(f"cmt={cmt} contradicts the protocol mptcp; omit it, or use tcp")
    if protocol != "mptcp" and cmt not in {"off", "0"}:
        raise ValueError(f"{protocol} sends new data over one path here; omit cmt={cmt}, or use mptcp")
    return protocol


_KEYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "id": ("id", _ALL_PROTOCOLS),
    "description": ("description", _ALL_PROTOCOLS),
    "maxmsgsize": ("max_message", _ALL_PROTOCOLS),
    "sndbuf": ("send_buffer", _ALL_PROTOCOLS),
    "rcvbuf": ("receive_buffer", _ALL_PROTOCOLS),
    "cc": ("congestion", _CONTROLLED_PROTOCOLS),
    "nodelay": ("nagle", _CONTROLLED_PROTOCOLS),
    "error_on_abort": ("tolerates_abort", _ALL_PROTOCOLS),
    "pathmgr": ("path_manager", ("mptcp",)),
    "scheduler": ("scheduler", ("mptcp",)),
    "association": ("association", ("sctp",)),
    "rtx_timeout": ("rtx_timeout_ms", ("sctp",)),
    "rtx_trials": ("rtx_trials", ("sctp",)),
}
"""The native module's name of an option, and the protocols that have it."""


def _carried(flow: Specification, protocol: str) -> dict[str, object]:
    """The options of the flow for the native module."""
    given = flow.options
    delivery = _delivery(protocol, given)
    if "onoff" in given and "start" in given:
        raise ValueError("start and onoff exclude each other; write onoff=TIME for a flow that starts later")
    for name, (refuses, reason) in _REFUSED_OPTIONS.items():
        if name in given and refuses(given[name]):
            raise ValueError(f"{name}: {reason}")
    carried: dict[str, object] = dict(delivery)
    for name, (key, protocols) in _KEYS.items():
        if name in given:
            if protocol not in protocols:
                raise ValueError(f"{name} is an option of {_listed(protocols)}; omit it with {protocol}")
            carried[key] = not given[name] if name in _INVERTED_OPTIONS else given[name]
    if carried.get("path_manager") == "default":
        del carried["path_manager"]
    if "onoff" in given:
        carried["on_off"] = _on_off(given["onoff"])
    return carried


_INVERTED_OPTIONS = ("nodelay", "error_on_abort")
"""Options that are the opposite of the native module's."""

_REFUSED_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "defragtimeout": (lambda _: True, "this meter counts messages, not frames; omit it"),
    "ccid": (lambda _: True, "it is an option of DCCP; omit it"),
    "ndiffports": (lambda _: True, "the path manager opens subflows; add endpoints with ip mptcp endpoint"),
    "debug": (bool, "this meter sets no SO_DEBUG; omit it"),
    "v6only": (lambda _: True, "it applies to a whole test, not to a flow; write the option -6 instead"),
}
"""Options that the meter refuses: a function that selects the refused values, and the reason."""


def _listed(words: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _delivery(protocol: str, given: Mapping[str, Any]) -> dict[str, float]:
    """The fractions of unordered and of unreliable messages, for the native module.

    Raises:
        ValueError: If the fractions contradict each other or their limits, or the protocol does not support them.

    """
    always = 0.0 if protocol == "udp" else 1.0
    fractions: dict[str, float] = {}
    for name, opposite in (("ordered", "unordered"), ("reliable", "unreliable")):
        if name in given and opposite in given and abs(given[name] + given[opposite] - 1) > _MAX_SUM_ERROR:
            raise ValueError(f"{name} and {opposite} must add up to 1; omit one of them")
        fraction = given.get(name, 1 - given[opposite] if opposite in given else always)
        if fraction == always:
            continue
        if protocol != "sctp":
            kind = opposite if protocol == "udp" else name
            raise ValueError(f"all messages over {protocol} are {kind}; write {kind}=1, or omit it")
        fractions[opposite] = given.get(opposite, 1 - fraction)
    limits = [name for name in ("rtx_timeout", "rtx_trials") if name in given]
    if len(limits) > 1:
        raise ValueError("rtx_timeout and rtx_trials exclude each other; omit one of them")
    if limits and protocol == "sctp" and "unreliable" not in fractions:
        raise ValueError(f"{limits[0]} needs unreliable messages; add unreliable=1")
    return fractions


def _on_off(switches: Switches) -> dict[str, object]:
    times_s: list[float] = []
    for relative, time in switches.times:
        if time.kind != "const":
            raise ValueError("random times of onoff are not supported; write numbers of seconds")
        before_s = times_s[-1] if relative and times_s else 0.0
        times_s.append(before_s + time.values[0])
    return {"times_s": times_s, "repeats": switches.repeats}


def _workload(frames: Frames) -> str | None:
    """Workload of one end as TOML; `None` if it sends no data."""
    if not frames.size.values[0] and frames.size.kind == "const":
        return None
    message = _message(frames.size)
    rate = frames.rate
    if rate.kind not in {"const", "exp"}:
        raise ValueError("a rate must be constN or expN, in messages per second")
    (per_second,) = rate.values
    if per_second == 0:
        return f'{{ kind = "saturated", message = {message} }}'
    kind = "exponential" if rate.kind == "exp" else "constant"
    interval = f"{1e9 / per_second:.0f} ns"
    return f'{{ kind = "messages", message = {message}, interval = "{interval}", distribution = "{kind}" }}'


def _message(size: Distribution) -> str:
    """Sizes of messages as TOML."""
    whole = [f'"{round(value)} B"' for value in size.values]
    match size.kind:
        case "const":
            return whole[0]
        case "exp":
            return f"{{ exponential = {whole[0]} }}"
        case "uniform":
            return f"{{ uniform = [{whole[0]}, {whole[1]}] }}"
    least, _, *most = whole
    largest = most[0] if most else f'"{_MAX_FRAME_BYTES} B"'
    return f"{{ pareto = {{ min = {least}, shape = {size.values[1]:g}, max = {largest} }} }}"
