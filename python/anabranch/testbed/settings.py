"""Computes the kernel settings of each host from a scenario's flows."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch._core.stacks import stacks
from anabranch.errors import InputError
from anabranch.testbed.kernel import SCHEDULERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SUBFLOWS = 8
"""Maximum number of subflows that the kernel's path manager makes besides the first."""
FIRST_ANNOUNCED_PORT = 20_001
"""The first port of endpoints with ports: above those of flows, below those that the kernel chooses for sockets."""

_COMMON_SYSCTLS = {
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_sack": "1",
}
_COMMON_IPV6_SYSCTLS = {
    "net.ipv6.conf.all.accept_dad": "0",
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv6.conf.default.autoconf": "0",
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv6.conf.default.router_solicitations": "0",
}
_NO_INTERFACE = -1
"""The interface of a main table's route to an address of a version of IP that the route's link does not have."""
_INITIAL_BUFFER_BYTES = 131_072
"""Initial size of the kernel's buffers."""
_RECOVERIES = {"sack": ("0", "0"), "prr": ("0", "0"), "rack": ("1", "3")}
"""`tcp_recovery` (RACK) and `tcp_early_retrans` (tail-loss probes), by the flow's `recovery`."""


@dataclass
class HostSettings:
    """Kernel settings of a host."""

    sysctls: dict[str, str] = field(default_factory=dict)
    endpoints: dict[str, int] = field(default_factory=dict)
    """Flags of Multipath TCP's endpoints, by address."""
    ports: dict[str, int] | None = None
    """Number of endpoints with ports, by address; `None` if no Multipath TCP connection needs or excludes them."""
    manager: str = ""
    """The name of the path manager of connections from this host; empty without connections of Multipath TCP."""
    joins: bool = False
    """Whether connections of this host have further subflows."""
    ways: dict[str, int] = field(default_factory=dict)
    """By remote address, the index of the interface for packets without a source address; without an entry, the first
    interface with a route."""
    main: dict[str, int] | None = None
    """By remote address, the index of the interface in the scenario's main table, even if that does not reach it;
    `None` if the scenario has no main table for the host."""
    policy_routing: bool = True
    """Whether each local address has its own routing table."""
    offload: bool = True
    """Whether interfaces use segmentation offload."""
    metrics: dict[str, dict[str, int]] = field(default_factory=dict)
    """Metrics of routes, by remote host."""

    def require_sysctl(self, name: str, value: str, flow: str, *, host: str) -> None:
        """Set a kernel parameter that all flows of a host share.

        Raises:
            InputError: If another flow needs another value.

        """
        before = self.sysctls.setdefault(name, value)
        if before != value:
            raise InputError(
                f'flow "{flow}": the kernel has one {name} for all flows of host "{host}", and another flow needs '
                f"{before} but this one needs {value}; give both the same setting, or use --world sim"
            )

    def require_paths(self, name: str, flow: str, *, host: str) -> None:
        """Set the path manager of connections from this host.

        Raises:
            InputError: If another flow has another path manager.

        """
        if self.manager not in {"", name}:
            raise _one_manager(flow, host)
        self.manager = name

    def require_endpoint(self, address: str, flags: int, flow: str, *, host: str) -> None:
        """Add an endpoint to the path manager.

        Raises:
            InputError: If another flow needs the endpoint with other flags.

        """
        if self.endpoints.setdefault(address, flags) != flags:
            raise _one_manager(flow, host)

    def require_ports(self, ports: dict[str, int], flow: str, *, host: str) -> None:
        """Set the number of endpoints with ports, by address: the kernel announces them on all connections of the host.

        Raises:
            InputError: If another flow needs other such endpoints.

        """
        if self.ports not in (None, ports):
            raise InputError(
                f'flow "{flow}": the kernel announces ports on all connections of host "{host}", and another flow '
                f"needs none, another number or another address; use --world sim"
            )
        self.ports = ports

    def require_interface(self, address: str, interface: int, flow: str, *, host: str) -> None:
        """Set the interface for packets without a source address to an address.

        Raises:
            InputError: If another flow or the scenario's main table needs another interface.

        """
        if self.main is not None and self.main.get(address, interface) != interface:
            raise InputError(
                f'flow "{flow}": the kernel makes {self.manager} pairs by the main table of host "{host}", but '
                f'[[host]] sets other routes; set paths = "fullmesh", give the table these routes, or use --world sim'
            )
        if self.ways.setdefault(address, interface) != interface:
            raise _one_manager(flow, host)

    def renumber(self, old: str, new: str) -> None:
        """Replace an address of this or another host."""
        self.endpoints = {new if address == old else address: flags for address, flags in self.endpoints.items()}
        self.ways = {new if address == old else address: number for address, number in self.ways.items()}
        if self.main is not None:
            self.main = {new if address == old else address: number for address, number in self.main.items()}

    def set_backups(self, backups: set[str]) -> list[str]:
        """Make these addresses backups, and the others regular ones; returns the endpoints whose flags change."""
        changed = []
        for address, flags in self.endpoints.items():
            new = flags | _BACKUP if address in backups else flags & ~_BACKUP
            if new != flags:
                self.endpoints[address] = new
                changed.append(address)
        return changed

    def reserve_buffer(self, name: str, size: int) -> None:
        """Raise the limit of a kind of kernel buffers to at least `size` bytes of data."""
        # The kernel's limit includes its overhead: reserve twice the data.
        most = max(2 * size, int(self.sysctls.get(name, "0").split()[-1]))
        self.sysctls[name] = f"4096 {min(_INITIAL_BUFFER_BYTES, most)} {most}"

    def require_metric(self, name: str, value: int, flow: str, *, there: str) -> None:
        """Set a metric that all flows to a remote host share.

        Raises:
            InputError: If another flow needs another value.

        """
        before = self.metrics.setdefault(there, {}).setdefault(name, value)
        if before != value:
            raise InputError(
                f'flow "{flow}": the kernel has one {name} for all flows to host "{there}", and another flow needs '
                f"{before} but this one needs {value}; give both the same setting, or use --world sim"
            )


SIGNAL, _SUBFLOW, _BACKUP, _FULLMESH = 1, 2, 4, 8
"""Flags of endpoints (`linux/mptcp.h`)."""


def settings(layout: Mapping[str, Any]) -> dict[str, HostSettings]:
    """Kernel settings of each host of a layout, by name.

    Raises:
        InputError: If flows need conflicting settings of a kernel.

    """
    found = _without_flows(layout)
    for flow in layout["scenario"]["flow"]:
        if "kernel" in stacks(flow, "kernel"):
            _flow(found, flow, layout)
    return found


def settings_without_conflicts(
    layout: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]
) -> dict[str, HostSettings]:
    """Kernel settings of each host of a layout, by name, without the flows that conflict with earlier ones."""
    found = _without_flows(layout)
    for flow in flows:
        tried = deepcopy(found)
        with suppress(InputError):
            _flow(tried, flow, layout)
            found = tried
    return found


def _without_flows(layout: Mapping[str, Any]) -> dict[str, HostSettings]:
    scenario = layout["scenario"]
    found = {host["name"]: HostSettings() for host in layout["hosts"]}
    for table in scenario.get("host", ()):
        if "cost" in table:
            raise InputError(
                f'host "{table["name"]}": cost has no meaning in the kernel\'s world, where packets take the time of '
                "this machine's processor; remove cost, or use --world sim"
            )
        found[table["name"]].policy_routing = table["policy_routing"]
        if "default_route" in table or table["routes"]:
            found[table["name"]].main = _main(table, layout)
        if not table.get("mptcp", True):
            found[table["name"]].sysctls["net.mptcp.enabled"] = "0"
    for declared in layout["hosts"]:
        host = found[declared["name"]]
        has_ipv6 = any(":" in interface["address"] for interface in declared["interfaces"])
        host.sysctls.update(
            _COMMON_SYSCTLS | (_COMMON_IPV6_SYSCTLS if has_ipv6 else {"net.ipv6.conf.all.disable_ipv6": "1"})
        )
        host.offload = scenario["offload"]
    return found


def _flow(found: dict[str, HostSettings], flow: Mapping[str, Any], layout: Mapping[str, Any]) -> None:
    for connection in _connections(flow):
        if connection["protocol"] != "udp":
            _tcp(found, connection)
        if connection["protocol"] == "mptcp":
            _mptcp(found, connection, layout)


def _main(table: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, int]:
    """Index of the interface that the scenario's main table of a host uses, by remote address.

    Addresses for which the table has no route are missing. Those whose link lacks their version of IP have
    `_NO_INTERFACE`.
    """
    own = next(host["interfaces"] for host in layout["hosts"] if host["name"] == table["name"])
    places: dict[tuple[str, bool], int] = {}
    for number, interface in enumerate(own):
        places.setdefault((interface["link"], ":" in interface["address"]), number)
    routes, default = dict(table["routes"]), table.get("default_route")
    links = {
        interface["address"]: interface["link"]
        for host in layout["hosts"]
        if host["name"] != table["name"]
        for interface in host["interfaces"]
    }
    # The addresses of translators belong to no host, so the table has no route to them.
    reached = {route["to"]: "" for interface in own for route in interface["routes"]}
    used = {address: routes.get(link, default) for address, link in (reached | links).items()}
    return {
        address: places.get((link, ":" in address), _NO_INTERFACE) for address, link in used.items() if link is not None
    }


def _connections(flow: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The connections of a flow as separate flows: a flow over a proxy has one to the proxy and one behind it."""
    if "through" not in flow:
        return [flow]
    return [{**flow, "to": flow["through"]}, {**flow, "from": flow["through"], "protocol": "tcp"}]


def _tcp(found: dict[str, HostSettings], flow: Mapping[str, Any]) -> None:
    rack, probes = _RECOVERIES[flow["recovery"]]
    wanted = {
        "net.ipv4.tcp_timestamps": str(int(flow["timestamps"])),
        "net.ipv4.tcp_ecn": str(int(flow["ecn"])),
        "net.ipv4.tcp_recovery": rack,
        "net.ipv4.tcp_early_retrans": probes,
    }
    for writes, reads in _ways(flow):
        for host, name, size in (
            (writes, "net.ipv4.tcp_wmem", flow["send_buffer"]),
            (reads, "net.ipv4.tcp_rmem", flow["receive_buffer"]),
        ):
            if size != "auto":
                found[host].reserve_buffer(name, _bytes(size))
    for here, there in ((flow["from"], flow["to"]), (flow["to"], flow["from"])):
        for name, value in wanted.items():
            found[here].require_sysctl(name, value, flow["name"], host=here)
        found[here].require_metric("initcwnd", flow["initial_window"], flow["name"], there=there)
        found[here].require_metric("rto_min", _milliseconds(flow["rto_min"]), flow["name"], there=there)
        if flow.get("mtu"):
            mtu = int(str(flow["mtu"]).split()[0])
            found[here].require_metric("mtu", mtu, flow["name"], there=there)
        # With the metric, the kernel acknowledges each segment at once.
        found[here].require_metric("quickack", int(flow["delayed_ack"] is False), flow["name"], there=there)


def _ways(flow: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sending and the receiving host, for each direction of a flow's data."""
    forward, reverse = (flow["from"], flow["to"]), (flow["to"], flow["from"])
    if flow["direction"] == "both" or flow["workload"]["kind"] == "request-response":
        return [forward, reverse]
    return [reverse if flow["direction"] == "reverse" else forward]


def _mptcp(found: dict[str, HostSettings], flow: Mapping[str, Any], layout: Mapping[str, Any]) -> None:
    scheduler = SCHEDULERS.get(flow["scheduler"], flow["scheduler"])
    for host in (flow["from"], flow["to"]):
        # "0" is the scenario's setting of the host.
        found[host].sysctls.setdefault("net.mptcp.enabled", "1")
        found[host].require_sysctl("net.mptcp.scheduler", scheduler, flow["name"], host=host)
        checksum = str(int(flow["dss_checksum"]))
        found[host].require_sysctl("net.mptcp.checksum_enabled", checksum, flow["name"], host=host)
    sender, receiver = found[flow["from"]], found[flow["to"]]
    name, _, number = flow["paths"].partition(":")
    number = int(number or 1) - 1
    name = name if number or name != "ndiffports" else "default"
    pair = next(pair for pair in layout["flows"] if pair["name"] == flow["name"])
    # Without Multipath TCP the kernel opens no listener for it.
    is_enabled = receiver.sysctls["net.mptcp.enabled"] != "0"
    ports = _announced(flow, layout, pair, number) if number and is_enabled else {}
    sender.require_paths(name, flow["name"], host=flow["from"])
    sender.require_ports({}, flow["name"], host=flow["from"])
    receiver.require_ports(ports, flow["name"], host=flow["to"])
    if name == "default":
        return
    sender.joins = receiver.joins = True
    here, there = (_interfaces(flow, layout, flow[end]) for end in ("from", "to"))
    if ports:
        # The kernel connects to each announced port from the source address of the route to it.
        first = next(place for place, interface in enumerate(here) if interface["address"] == pair["local"])
        sender.require_interface(pair["remote"], first, flow["name"], host=flow["from"])
    if name != "ndiffports":
        _pairs(found, flow, here, there)


def _pairs(
    found: dict[str, HostSettings],
    flow: Mapping[str, Any],
    here: Sequence[Mapping[str, Any]],
    there: Sequence[Mapping[str, Any]],
) -> None:
    """Add the endpoints and routes of `fullmesh` or `disjoint` between the interfaces of both hosts."""
    sender, receiver = found[flow["from"]], found[flow["to"]]
    if flow["paths"] == "fullmesh":
        for end, interfaces, use in (("from", here, _SUBFLOW | _FULLMESH), ("to", there, SIGNAL)):
            for interface in interfaces:
                flags = use | _backup(flow, interface)
                found[flow[end]].require_endpoint(interface["address"], flags, flow["name"], host=flow[end])
        return
    # The kernel connects to each announced address from the source address of the route to it: the i-th route is to
    # the i-th address, which makes disjoint pairs. Endpoints at this host would also connect to the first address.
    for number, (local, remote) in enumerate(zip(here, there, strict=False)):
        if (":" in local["address"]) != (":" in remote["address"]):
            continue
        flags = SIGNAL | _backup(flow, local, remote)
        receiver.require_endpoint(remote["address"], flags, flow["name"], host=flow["to"])
        sender.require_interface(remote["address"], number, flow["name"], host=flow["from"])


def _announced(
    flow: Mapping[str, Any], layout: Mapping[str, Any], pair: Mapping[str, str], number: int
) -> dict[str, int]:
    """The number of ports that the accepting kernel announces at its address of the first pair, by the address.

    A connecting own stack needs none: it opens further subflows from other ports.

    Raises:
        InputError: If the kernel cannot announce or use them.

    """
    connecting, accepting = stacks(flow, "kernel")
    problem = None
    if number > MAX_SUBFLOWS:
        problem = (
            f"the kernel's path manager permits at most {MAX_SUBFLOWS + 1} subflows; "
            f'set paths = "ndiffports:{MAX_SUBFLOWS + 1}", or use --world sim'
        )
    elif connecting == "user":
        return {}
    elif accepting == "user":
        problem = (
            f'the kernel opens subflows to announced ports only, and the own stack of host "{flow["to"]}" announces '
            'none; set stack = "user" or { from = "user" }, or use --world sim'
        )
    elif ":" in pair["remote"] and flow["timestamps"]:
        problem = (
            "the kernel cannot announce an IPv6 address with a port while timestamps fill the header; "
            "set timestamps = false, or use --world sim"
        )
    elif flow["backup"] or any(layout["flows"][event["flow"]] is pair for event in layout["priorities"]):
        problem = "the kernel's subflows of ndiffports all use the same links; remove backup, or use --world sim"
    elif any(address in pair.values() for address in _replaced(layout)):
        problem = (
            "the kernel cannot move subflows of ndiffports to a new address; "
            'remove address = "new" of the event, or use --world sim'
        )
    if problem:
        raise InputError(f'flow "{flow["name"]}": {problem}')
    return {pair["remote"]: number}


def _replaced(layout: Mapping[str, Any]) -> list[str]:
    """The addresses that events replace."""
    changes = [change for change in layout["changes"] if "address" in change]
    return [layout["hosts"][change["host"]]["interfaces"][change["interface"]]["address"] for change in changes]


def _interfaces(flow: Mapping[str, Any], layout: Mapping[str, Any], host: str) -> list[Mapping[str, Any]]:
    interfaces: list[Mapping[str, Any]] = next(h["interfaces"] for h in layout["hosts"] if h["name"] == host)
    if len(interfaces) > MAX_SUBFLOWS:
        raise InputError(
            f'flow "{flow["name"]}": the kernel\'s path manager knows at most {MAX_SUBFLOWS} addresses of a host, '
            f'and "{host}" has {len(interfaces)}'
        )
    return interfaces


def _backup(flow: Mapping[str, Any], *interfaces: Mapping[str, Any]) -> int:
    return _BACKUP if any(interface["link"] in flow["backup"] for interface in interfaces) else 0


def _one_manager(flow: str, host: str) -> InputError:
    return InputError(
        f'flow "{flow}": the kernel has one path manager for all flows of host "{host}", and '
        f"another flow needs it with other settings; use --world sim"
    )


def _bytes(text: str) -> int:
    """Convert a size of a canonical scenario to bytes."""
    value, unit = text.split()
    units = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return round(float(value) * units[unit])


def _milliseconds(text: str) -> int:
    """Convert a time of a canonical scenario to milliseconds."""
    value, unit = text.split()
    return round(float(value) * {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}[unit])
