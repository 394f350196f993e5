"""Sets hosts up: addresses, routes by source address, endpoints of Multipath TCP, kernel parameters."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import RunFailed
from anabranch.testbed import namespaces, subflows
from anabranch.testbed.kernel import set_sysctl, sysctl
from anabranch.testbed.settings import FIRST_ANNOUNCED_PORT, MAX_SUBFLOWS, SIGNAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyroute2 import MPTCP, IPRoute

    from anabranch.testbed.settings import HostSettings

_FIRST_TABLE = 100
"""Number of the routing table of a host's first interface; the tables of the others follow."""

_MAIN_TABLE = 254
"""The main routing table (`RT_TABLE_MAIN`)."""

_TRANSMIT_QUEUE_PACKETS = 10_000
"""Length of an interface's queue, packets: more than a host sends at once, because a full queue would drop packets."""

_NO_DAD_FLAG = 0x02
"""Flag of an address without duplicate address detection (`IFA_F_NODAD`), which is usable at once."""


def prepare(namespace: str, settings: HostSettings) -> dict[str, str]:
    """Set the kernel parameters of a namespace and return their values afterwards.

    Raises:
        RunFailed: If the kernel refuses a value.

    """

    def work() -> dict[str, str]:
        for name, value in settings.sysctls.items():
            try:
                set_sysctl(name, value)
            except FileNotFoundError:
                # The kernel was built without this parameter, for example without IPv6.
                continue
            except OSError as error:
                raise RunFailed(f"the kernel refuses {name} = {value}: {error.strerror}") from None
        # The kernel may change a value that it accepts.
        after = {name: sysctl(name) for name in settings.sysctls}
        return {name: value for name, value in after.items() if value is not None}

    return namespaces.within(namespace, work)


def configure(namespace: str, host: Mapping[str, Any], settings: HostSettings) -> None:
    """Set the addresses and routes of a host's interfaces, and the endpoints of its path manager.

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import IPRoute

        with _netlink_errors(host["name"]), IPRoute() as routes:
            routes.link("set", index=routes.link_lookup(ifname="lo")[0], state="up")
            for number, interface in enumerate(host["interfaces"]):
                _interface(routes, number, interface, settings)
        if settings.joins:
            with _netlink_errors(host["name"]):
                _endpoints(settings)

    namespaces.within(namespace, work)


def switch(namespace: str, host: Mapping[str, Any], number: int, settings: HostSettings, *, up: bool) -> None:
    """Set an interface of a host down, or up again with its routes, which the kernel has removed.

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import IPRoute

        interface = host["interfaces"][number]
        with _netlink_errors(host["name"]), IPRoute() as routes:
            index = routes.link_lookup(ifname=interface["device"])[0]
            routes.link("set", index=index, state="up" if up else "down")
            if up:
                if _family(interface) == socket.AF_INET6:
                    # The kernel also removes IPv6 addresses.
                    _address(routes, index, interface)
                _routes(routes, index, number, interface, settings)

    namespaces.within(namespace, work)


def renumber(namespace: str, host: Mapping[str, Any], number: int, settings: HostSettings, *, old: str) -> None:
    """Replace the address of an interface, with its rule and its endpoint of Multipath TCP.

    The interface of the layout has the new address already, the settings have the old one. A deleted endpoint withdraws
    its address from the peer; the caller makes the new one.

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import MPTCP, IPRoute

        interface = host["interfaces"][number]
        family, length = _family(interface), _length(interface)
        with _netlink_errors(host["name"]), IPRoute() as routes:
            if old in settings.endpoints:
                with MPTCP() as manager:
                    _delete_endpoint(manager, old)
            index = routes.link_lookup(ifname=interface["device"])[0]
            if routes.get_addr(index=index, family=family, address=old):
                routes.addr("del", index=index, address=old, prefixlen=length)
            table = _FIRST_TABLE + number
            if settings.policy_routing:
                routes.rule("del", family=family, src=old, src_len=length, table=table, priority=table)
            _address(routes, index, interface)
            if settings.policy_routing:
                routes.rule("add", family=family, src=interface["address"], src_len=length, table=table, priority=table)

    namespaces.within(namespace, work)


def replace_routes(namespace: str, host: Mapping[str, Any], number: int, settings: HostSettings) -> None:
    """Set the routes of an interface that is up, after a remote address has changed.

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import IPRoute

        interface = host["interfaces"][number]
        with _netlink_errors(host["name"]), IPRoute() as routes:
            index = routes.link_lookup(ifname=interface["device"])[0]
            if routes.get_links(index)[0].get("state") == "up":
                _routes(routes, index, number, interface, settings)

    namespaces.within(namespace, work)


def set_flags(namespace: str, host: str, address: str, flags: int) -> None:
    """Set the flags of an endpoint of Multipath TCP; the kernel informs the peers of a changed priority (MP_PRIO).

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import MPTCP
        from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
        from pyroute2.netlink.generic.mptcp import MPTCP_PM_CMD_SET_FLAGS, mptcp_msg

        with _netlink_errors(host), MPTCP() as manager:
            for number in _endpoint_numbers(manager, address):
                message = mptcp_msg()
                message["cmd"], message["version"] = MPTCP_PM_CMD_SET_FLAGS, 1
                values = [("MPTCP_PM_ADDR_ATTR_ID", number), ("MPTCP_PM_ADDR_ATTR_FLAGS", flags)]
                message["attrs"] = [("MPTCP_PM_ATTR_ADDR", {"attrs": values}, 0x8000)]
                manager.nlm_request(message, msg_type=manager.prid, msg_flags=NLM_F_REQUEST | NLM_F_ACK)

    namespaces.within(namespace, work)


def is_unused(namespace: str, host: str, address: str) -> bool:
    """Whether a Multipath TCP connection lacks a subflow at an address, and none has its only subflow there."""

    def work() -> bool:
        with _netlink_errors(host):
            return subflows.is_missing(address)

    return namespaces.within(namespace, work)


def renew(namespace: str, host: str, address: str, settings: HostSettings) -> None:
    """Delete an endpoint of Multipath TCP and add it again, as a network manager does when a link comes up.

    The kernel tries an endpoint once per connection. If the link is down at that time, the endpoint counts as used and
    the kernel does not try it again when the link comes up. Surviving subflows keep their timeouts.

    Raises:
        RunFailed: If the kernel refuses.

    """

    def work() -> None:
        from pyroute2 import MPTCP

        with _netlink_errors(host), MPTCP() as manager:
            _delete_endpoint(manager, address)
            _add_endpoint(manager, address, settings.endpoints[address])

    namespaces.within(namespace, work)


@contextmanager
def _netlink_errors(host: str) -> Iterator[None]:
    """Convert errors of netlink to `RunFailed`."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        raise RunFailed(f'the kernel refuses to set host "{host}" up: {error.args[-1]}') from None


def _family(interface: Mapping[str, Any]) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in interface["address"] else socket.AF_INET


def _length(interface: Mapping[str, Any]) -> int:
    """Length of the prefix of a single address."""
    return 128 if _family(interface) == socket.AF_INET6 else 32


def _address(routes: IPRoute, index: int, interface: Mapping[str, Any]) -> None:
    flags = {"flags": _NO_DAD_FLAG} if _family(interface) == socket.AF_INET6 else {}
    routes.addr("replace", index=index, address=interface["address"], prefixlen=_length(interface), **flags)


def _interface(routes: IPRoute, number: int, interface: Mapping[str, Any], settings: HostSettings) -> None:
    index = routes.link_lookup(ifname=interface["device"])[0]
    family, length = _family(interface), _length(interface)
    _address(routes, index, interface)
    whole = {} if settings.offload else {"IFLA_GSO_MAX_SEGS": 1}
    routes.link("set", index=index, txqlen=_TRANSMIT_QUEUE_PACKETS, **whole)
    table = _FIRST_TABLE + number
    if settings.policy_routing:
        routes.rule("add", family=family, src=interface["address"], src_len=length, table=table, priority=table)
        # Without a route from this address, the kernel must not use another interface.
        routes.route("add", family=family, dst="default", type="unreachable", table=table)
    if interface["up"]:
        routes.link("set", index=index, state="up")
        _routes(routes, index, number, interface, settings)


def _routes(routes: IPRoute, index: int, number: int, interface: Mapping[str, Any], settings: HostSettings) -> None:
    family, length = _family(interface), _length(interface)
    own = [_FIRST_TABLE + number] if settings.policy_routing else []
    for route in interface["routes"]:
        metrics = {name: value for name, value in settings.metrics.get(route["host"], {}).items() if value}
        for table in own + ([_MAIN_TABLE] if _is_main(route, number, settings) else []):
            routes.route(
                "replace", family=family, dst=f"{route['to']}/{length}", oif=index, prefsrc=interface["address"],
                table=table, metrics={"mtu": route["mtu"], **metrics},
            )  # fmt: skip
    # Routes of a scenario's own table apply even if the interface does not reach the address.
    reached = {route["to"] for route in interface["routes"]}
    for address, by in (settings.main or {}).items():
        if by < 0 or (":" in address) != (":" in interface["address"]):
            continue
        for table in own + ([_MAIN_TABLE] if by == number else []):
            if address not in reached:
                routes.route(
                    "replace", family=family, dst=f"{address}/{length}", oif=index, prefsrc=interface["address"],
                    table=table,
                )  # fmt: skip


def _is_main(route: Mapping[str, Any], number: int, settings: HostSettings) -> bool:
    """Whether the main table uses this route."""
    if settings.main is not None and route["to"] in settings.main:
        return settings.main[route["to"]] == number
    chosen = settings.ways.get(route["to"])
    return bool(route["first"]) if chosen is None else chosen == number


def _endpoints(settings: HostSettings) -> None:
    from pyroute2 import MPTCP

    with MPTCP() as manager:
        manager.limits("set", subflows=MAX_SUBFLOWS, rcv_add_addrs=MAX_SUBFLOWS)
        for address, flags in settings.endpoints.items():
            _add_endpoint(manager, address, flags)
        for address, number in (settings.ports or {}).items():
            for port in range(FIRST_ANNOUNCED_PORT, FIRST_ANNOUNCED_PORT + number):
                # The kernel opens a listener at the port.
                manager.endpoint("add", **{_key(address): address, "port": port, "flags": SIGNAL})


def _endpoint_numbers(manager: MPTCP, address: str) -> list[int]:
    """The identifiers of the endpoints with an address."""
    endpoints = [dict(message.get_nested("MPTCP_PM_ATTR_ADDR")["attrs"]) for message in manager.endpoint("show")]
    keys = ("MPTCP_PM_ADDR_ATTR_ADDR4", "MPTCP_PM_ADDR_ATTR_ADDR6")
    return [
        endpoint["MPTCP_PM_ADDR_ATTR_ID"] for endpoint in endpoints if address in {endpoint.get(key) for key in keys}
    ]


def _delete_endpoint(manager: MPTCP, address: str) -> None:
    for number in _endpoint_numbers(manager, address):
        manager.endpoint("del", id=number)


def _add_endpoint(manager: MPTCP, address: str, flags: int) -> None:
    manager.endpoint("add", **{_key(address): address, "flags": flags})


def _key(address: str) -> str:
    """The parameter of an endpoint for an address."""
    return "addr6" if ":" in address else "addr4"
