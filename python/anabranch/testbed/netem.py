"""A scenario's network of the kernel's own parts (`--links netem`): a namespace a router, veth pairs, tbf and netem.

At each end of a link stands netem (delay and loss) before tbf (rate) before the queue. What these cannot do as the
simulator does it is refused, rather than done in another way.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, RunFailed
from anabranch.testbed import namespaces
from anabranch.testbed.kernel import set_sysctl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyroute2 import IPRoute

_ETHERNET = 14
"""Bytes of a frame that veth counts and a scenario's links do not."""

_IN_FLIGHT = 100_000
"""Packets that wait for their delay: more than any link of a testbed holds."""

_SIOCETHTOOL = 0x8946
_OFF = (0x15, 0x17, 0x1F, 0x24, 0x2C)
"""Receive and transmit checksums, TSO, GSO and GRO (`ETHTOOL_SRXCSUM` and so on): packets shall be those of a wire."""

_FORWARDING = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    # Whoever asks for an address that lies behind a router is told the router's.
    "net.ipv4.conf.all.proxy_arp": "1",
    "net.ipv4.conf.default.proxy_arp": "1",
}

_LOSSES = {"none", "bernoulli"}
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "packets": 1}


class Wires:
    """The links and routers of a layout, made of the kernel's parts, for namespaces of hosts that are there."""

    def __init__(self, layout: Mapping[str, Any], hosts: Mapping[str, str], testbed: str) -> None:
        self._layout = layout
        self.routers = {
            router["name"]: f"ab-{testbed}-router{number}" for number, router in enumerate(layout["routers"])
        }
        self._namespaces = {**hosts, **self.routers}
        self._ends = {
            interface["index"]: (node["name"], interface["device"])
            for node in (*layout["hosts"], *layout["routers"])
            for interface in node["interfaces"]
        }

    def lay(self) -> None:
        """Make the links, with their rates, delays and losses; routers forward.

        Raises:
            InputError: If this kernel lacks a part.
            RunFailed: If it refuses something else.

        """
        for router in self.routers.values():
            namespaces.within(router, _forward)
        for number, link in enumerate(self._layout["scenario"]["link"]):
            directions = [link, {**link, **link.get("reverse", {})}]
            (node, device), (other, other_device) = (self._ends[2 * number + end] for end in range(2))
            near, far = self._namespaces[node], self._namespaces[other]
            namespaces.within(near, partial(_pair, device, far, other_device, directions))
            namespaces.within(near, partial(_shape, device, directions[0]))
            namespaces.within(far, partial(_shape, other_device, directions[1]))
        for router in self._layout["routers"]:
            namespaces.within(self.routers[router["name"]], partial(_routes, router))


def check(scenario: Mapping[str, Any]) -> None:
    """Refuse what netem and tbf do not do as the simulator does.

    Raises:
        InputError: Naming the link and what would help.

    """
    for problem in _problems(scenario):
        raise InputError(f"{problem}; use --links emulator, which does")


def _problems(scenario: Mapping[str, Any]) -> Iterator[str]:
    if scenario["ip"] != "v4":
        yield "links of netem carry IPv4 alone"
    for link in scenario["link"]:
        for model in (link, {**link, **link.get("reverse", {})}):
            for problem in _misfits(model):
                yield f'link "{link["name"]}": {problem}'
    hosts = {flow[end] for flow in scenario["flow"] for end in ("from", "to", "through") if end in flow}
    ends = {link["name"]: link["between"] for link in scenario["link"]}
    for event in scenario.get("event", ()):
        if set(event["set"]) != {"state"} or event["direction"] != "both":
            yield f"the event at {event['at']}: links of netem go down and up, both ways, and change in nothing else"
        elif not hosts & set(ends[event["link"]]):
            yield f"the event at {event['at']}: only links of hosts go down and come up"


def _misfits(model: Mapping[str, Any]) -> Iterator[str]:
    """What a direction of a link asks for that netem and tbf have not."""
    found = {
        "netem has no rate that follows a trace": not isinstance(model["rate"], str),
        f"netem has no queue {model['queue']['kind']}": model["queue"]["kind"] != "fifo",
        "the jitter of netem reorders packets": _number(model["jitter"], _SECONDS) > 0,
        "netem reorders by overtaking, not by holding back": "reorder" in model,
        f"netem has no loss model {model['loss']['model']} like it": model["loss"]["model"] not in _LOSSES,
        "a link of netem begins by being up": model["state"] != "up",
    }
    yield from (problem for problem, there in found.items() if there)


def _number(text: str, units: Mapping[str, float]) -> float:
    """A quantity of a scenario with every default spelt out, whose units are these."""
    value, unit = text.split()
    return float(value) * units[unit]


def _forward() -> None:
    for name, value in _FORWARDING.items():
        _set(name, value)


def _set(name: str, value: str) -> None:
    try:
        set_sysctl(name, value)
    except OSError as error:
        raise RunFailed(f"the kernel refuses {name} = {value}: {error.strerror}") from None


def _pair(device: str, peer: str, other: str, models: list[Mapping[str, Any]]) -> None:
    """Make the two ends of a link, this one and that in the namespace `peer`."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as routes, (namespaces.FOLDER / peer).open() as namespace:
        try:
            routes.link(
                "add", ifname=device, kind="veth", mtu=models[0]["mtu"],
                peer={"ifname": other, "mtu": models[1]["mtu"], "net_ns_fd": namespace.fileno()},
            )  # fmt: skip
        except NetlinkError as error:
            raise RunFailed(
                f"the kernel makes no veth pair for the interface {device}: {error.args[-1]}; load it: modprobe "
                f"veth, or use --links emulator"
            ) from None


def _shape(device: str, model: Mapping[str, Any]) -> None:
    """Give what leaves from a device the delay, loss, rate and queue of its direction."""
    from pyroute2 import IPRoute

    _without_offloads(device)
    with IPRoute() as routes:
        index = routes.link_lookup(ifname=device)[0]
        delay, loss = _number(model["delay"], _SECONDS), model["loss"].get("rate", 0.0)
        parent: dict[str, int] = {"parent": 0xFFFFFFFF}
        if delay > 0 or loss > 0:
            impairment = {"delay": round(delay * 1e6), "loss": loss * 100, "limit": _IN_FLIGHT}
            _discipline(routes, "netem", index, handle=0x10000, **parent, **impairment)
            parent = {"parent": 0x10001}
        # Frames of veth are longer than the packets of a scenario's link, or shorter than what those are framed in.
        framed = (model["mtu"] + _ETHERNET) / (model["mtu"] + model["overhead"])
        rate = round(_number(model["rate"], _RATES) * framed / 8)
        burst = 2 * (model["mtu"] + _ETHERNET)
        limit, unit = model["queue"]["limit"].split()
        size = math.ceil(float(limit) * _BYTES[unit])
        room = (size * (model["mtu"] + _ETHERNET) if unit == "packets" else size) + burst
        _discipline(routes, "tbf", index, handle=0x20000, **parent, rate=rate, burst=burst, limit=room)
        if unit == "packets":
            _discipline(routes, "pfifo", index, handle=0x30000, parent=0x20001, limit=size)


def _discipline(routes: IPRoute, kind: str, index: int, **settings: Any) -> None:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        routes.tc("add", kind, index, **settings)
    except NetlinkError as error:
        raise InputError(
            f"this kernel has no {kind} ({error.args[-1]}); load it: modprobe sch_{kind.removeprefix('p')}, "
            f"or use --links emulator, which needs no part of the kernel's"
        ) from None


def _routes(router: Mapping[str, Any]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as routes:
        devices = {}
        for interface in router["interfaces"]:
            index = devices[interface["index"]] = routes.link_lookup(ifname=interface["device"])[0]
            # It answers at once, and not within a second.
            _set(f"net.ipv4.neigh.{interface['device']}.proxy_delay", "0")
            # Nobody asks for it, but a question from nowhere is answered by hosts alone.
            high, low = divmod(interface["index"] + 1, 256)
            routes.addr("add", index=index, address=f"169.254.{high}.{low}", prefixlen=32)
            routes.link("set", index=index, state="up")
        for route in router["routes"]:
            routes.route("add", dst=f"{route['to']}/32", oif=devices[route["interface"]], scope="link")


def _without_offloads(device: str) -> None:
    """Have packets leave and come as on a wire."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for command in _OFF:
            value = (ctypes.c_uint32 * 2)(command, 0)
            request = device.encode().ljust(16, b"\0") + ctypes.addressof(value).to_bytes(8, "little").ljust(24, b"\0")
            fcntl.ioctl(channel, _SIOCETHTOOL, request)
