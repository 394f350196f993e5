"""A scenario's network of the kernel's links (`--links netem`): one namespace per router, veth pairs, tbf and netem.

Packets pass netem (delay and loss), then tbf (rate), then the queue at each end of a link. Settings that these cannot
apply as the simulator does are errors.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, RunFailed
from anabranch.link_values import reverse_of
from anabranch.testbed import namespaces
from anabranch.testbed.kernel import set_sysctl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyroute2 import IPRoute

_ETHERNET_HEADER_BYTES = 14
"""Bytes of the Ethernet header, which tbf counts on veth and a scenario's links do not."""

_MAX_NETEM_PACKETS = 100_000
"""Limit of netem's queue in packets: more than the links of a testbed hold."""

_SIOCETHTOOL = 0x8946
_DISABLED_OFFLOADS = (0x15, 0x17, 0x1F, 0x24, 0x2C)
"""Receive and transmit checksums, TSO, GSO and GRO (`ETHTOOL_SRXCSUM` and so on), which must be off."""

_FORWARDING = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    # A router answers ARP requests for the addresses behind it.
    "net.ipv4.conf.all.proxy_arp": "1",
    "net.ipv4.conf.default.proxy_arp": "1",
}

_LOSSES = {"none", "bernoulli"}
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "packets": 1}


class Wires:
    """The links and routers of a layout, made of veth, tbf and netem between existing namespaces of hosts."""

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

    def make(self) -> None:
        """Make the links with their rates, delays and losses, and switch forwarding on at routers.

        Raises:
            InputError: If this kernel lacks a queueing discipline.
            RunFailed: If the kernel refuses another step.

        """
        for router in self.routers.values():
            namespaces.within(router, _forward)
        for number, link in enumerate(self._layout["scenario"]["link"]):
            directions = [link, reverse_of(link)]
            (node, device), (other, other_device) = (self._ends[2 * number + end] for end in range(2))
            near, far = self._namespaces[node], self._namespaces[other]
            namespaces.within(near, partial(_pair, device, far, other_device, directions))
            namespaces.within(near, partial(_shape, device, directions[0]))
            namespaces.within(far, partial(_shape, other_device, directions[1]))
        for router in self._layout["routers"]:
            namespaces.within(self.routers[router["name"]], partial(_routes, router))


def check(layout: Mapping[str, Any]) -> None:
    """Check that netem, tbf and the kernel's routes can emulate the network of a layout as the simulator does.

    Raises:
        InputError: If they cannot emulate a link, with the link and the remedy.

    """
    for problem in _problems(layout):
        raise InputError(f"{problem}; use --links emulator")


def _problems(layout: Mapping[str, Any]) -> Iterator[str]:
    scenario = layout["scenario"]
    yield from _router_problems(layout)
    if scenario["ip"] != "v4" or any(link.get("ip", "v4") != "v4" for link in scenario["link"]):
        yield "links of netem carry IPv4 only"
    if any("addresses" in link for link in scenario["link"]):
        yield "hosts have one address on each link of netem"
    for link in scenario["link"]:
        for model in (link, reverse_of(link)):
            for problem in _misfits(model):
                yield f'link "{link["name"]}": {problem}'
    hosts = {flow[end] for flow in scenario["flow"] for end in ("from", "to", "through") if end in flow}
    ends = {link["name"]: link["between"] for link in scenario["link"]}
    for event in scenario.get("event", ()):
        if set(event["set"]) != {"state"} or event["direction"] != "both":
            yield f"the event at {event['at']}: events at links of netem can only set the state, in both directions"
        elif not hosts & set(ends[event["link"]]):
            yield f"the event at {event['at']}: only links at hosts can change their state"


def _router_problems(layout: Mapping[str, Any]) -> Iterator[str]:
    if layout["has_alternatives"]:
        yield "routers of netem take one of equally short paths only; set ecmp = false in the scenario"
    if any(router.get("network_control") for router in layout["scenario"].get("router", ())):
        yield "routers of netem answer no requests; set network_control = false in [[router]]"
    if any("source_routes" in router for router in layout["scenario"].get("router", ())):
        yield "routers of netem treat source routes as this machine's kernel does; remove source_routes from [[router]]"
    for box in layout["scenario"].get("middlebox", ()):
        yield f'node "{box["node"]}" is a middlebox, and routers of netem only forward'


def _misfits(model: Mapping[str, Any]) -> Iterator[str]:
    """Settings of one direction of a link that netem and tbf do not have."""
    found = {
        "netem cannot follow a trace of rates": not isinstance(model["rate"], str),
        "netem cannot follow a trace of delays": not isinstance(model["delay"], str),
        "netem duplicates packets differently from the simulator": "duplicate" in model,
        f"netem has no queue {model['queue']['kind']}": model["queue"]["kind"] != "fifo",
        "the jitter of netem reorders packets": _number(model["jitter"], _SECONDS) > 0,
        "netem reorders packets differently from the simulator": "reorder" in model,
        f"netem has no loss model {model['loss']['model']}": model["loss"]["model"] not in _LOSSES,
        "links of netem start in state up": model["state"] != "up",
    }
    yield from (problem for problem, there in found.items() if there)


def _number(text: str, units: Mapping[str, float]) -> float:
    """Convert a quantity of a canonical scenario to the base unit."""
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
    """Make the two ends of a link: one in this namespace, the other in the namespace `peer`."""
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
    """Set delay, loss, rate and queue of a device's outgoing direction."""
    from pyroute2 import IPRoute

    _without_offloads(device)
    with IPRoute() as routes:
        index = routes.link_lookup(ifname=device)[0]
        delay, loss = _number(model["delay"], _SECONDS), model["loss"].get("rate", 0.0)
        parent: dict[str, int] = {"parent": 0xFFFFFFFF}
        if delay > 0 or loss > 0:
            impairment = {"delay": round(delay * 1e6), "loss": loss * 100, "limit": _MAX_NETEM_PACKETS}
            _discipline(routes, "netem", index, handle=0x10000, **parent, **impairment)
            parent = {"parent": 0x10001}
        # tbf counts an Ethernet header per packet, a scenario's link its overhead: scale the rate.
        framed = (model["mtu"] + _ETHERNET_HEADER_BYTES) / (model["mtu"] + model["overhead"])
        rate = round(_number(model["rate"], _RATES) * framed / 8)
        burst = 2 * (model["mtu"] + _ETHERNET_HEADER_BYTES)
        limit, unit = model["queue"]["limit"].split()
        size = math.ceil(float(limit) * _BYTES[unit])
        room = (size * (model["mtu"] + _ETHERNET_HEADER_BYTES) if unit == "packets" else size) + burst
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
            f"or use --links emulator, which needs no module"
        ) from None


def _routes(router: Mapping[str, Any]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as routes:
        devices = {}
        for interface in router["interfaces"]:
            index = devices[interface["index"]] = routes.link_lookup(ifname=interface["device"])[0]
            # Answer ARP requests at once instead of after up to a second.
            _set(f"net.ipv4.neigh.{interface['device']}.proxy_delay", "0")
            # Needed as the source of the router's ARP requests: other routers do not answer requests without one.
            high, low = divmod(interface["index"] + 1, 256)
            routes.addr("add", index=index, address=f"169.254.{high}.{low}", prefixlen=32)
            routes.link("set", index=index, state="up")
        for route in router["routes"]:
            routes.route("add", dst=f"{route['to']}/32", oif=devices[route["interface"]], scope="link")


def _without_offloads(device: str) -> None:
    """Switch offloads off: packets then have the sizes of packets on a wire."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for command in _DISABLED_OFFLOADS:
            value = (ctypes.c_uint32 * 2)(command, 0)
            request = device.encode().ljust(16, b"\0") + ctypes.addressof(value).to_bytes(8, "little").ljust(24, b"\0")
            fcntl.ioctl(channel, _SIOCETHTOOL, request)
