"""Sets hosts up: addresses, routes by source address, endpoints of Multipath TCP, kernel parameters."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import RunFailed
from anabranch.testbed import namespaces, subflows
from anabranch.testbed.kernel import set_sysctl, sysctl
from anabranch.testbed.settings import MAX_SUBFLOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyroute2 import MPTCP, IPRoute

    from anabranch.testbed.settings import HostSettings

_FIRST_TABLE = 100
"""Number of the routing table of a host's first interface; the tables of the others follow."""

_MAIN = 254
"""The main routing table (`RT_TABLE_MAIN`)."""

_TRANSMIT_QUEUE = 10_000
"""Length of an interface's queue, packets: more than a host sends at once, because a full queue would drop packets."""

_NO_DAD = 0x02
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
        if settings.endpoints or settings.manager:
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
                    routes.addr("replace", index=index, address=interface["address"], prefixlen=128, flags=_NO_DAD)
                _routes(routes, index, number, interface, settings)

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
            for message in manager.endpoint("show"):
                endpoint = dict(message.get_nested("MPTCP_PM_ATTR_ADDR")["attrs"])
                if address in {endpoint.get("MPTCP_PM_ADDR_ATTR_ADDR4"), endpoint.get("MPTCP_PM_ADDR_ATTR_ADDR6")}:
                    manager.endpoint("del", id=endpoint["MPTCP_PM_ADDR_ATTR_ID"])
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


def _interface(routes: IPRoute, number: int, interface: Mapping[str, Any], settings: HostSettings) -> None:
    index = routes.link_lookup(ifname=interface["device"])[0]
    family = _family(interface)
    length = 128 if family == socket.AF_INET6 else 32
    flags = {"flags": _NO_DAD} if family == socket.AF_INET6 else {}
    routes.addr("add", index=index, address=interface["address"], prefixlen=length, **flags)
    whole = {} if settings.offload else {"IFLA_GSO_MAX_SEGS": 1}
    routes.link("set", index=index, txqlen=_TRANSMIT_QUEUE, **whole)
    table = _FIRST_TABLE + number
    if settings.policy_routing:
        routes.rule("add", family=family, src=interface["address"], src_len=length, table=table, priority=table)
        # Without a route from this address, the kernel must not use another interface.
        routes.route("add", family=family, dst="default", type="unreachable", table=table)
    if interface["up"]:
        routes.link("set", index=index, state="up")
        _routes(routes, index, number, interface, settings)


def _routes(routes: IPRoute, index: int, number: int, interface: Mapping[str, Any], settings: HostSettings) -> None:
    family = _family(interface)
    length = 128 if family == socket.AF_INET6 else 32
    own = [_FIRST_TABLE + number] if settings.policy_routing else []
    for route in interface["routes"]:
        metrics = {name: value for name, value in settings.metrics.get(route["host"], {}).items() if value}
        for table in own + ([_MAIN] if _is_main(route, number, settings) else []):
            routes.route(
                "replace", family=family, dst=f"{route['to']}/{length}", oif=index, prefsrc=interface["address"],
                table=table, metrics={"mtu": route["mtu"], **metrics},
            )  # fmt: skip
    # Routes of a scenario's own table apply even if the interface does not reach the address.
    reached = {route["to"] for route in interface["routes"]}
    for address, by in (settings.main or {}).items():
        for table in own + ([_MAIN] if by == number else []):
            if address not in reached:
                routes.route(
                    "replace", family=family, dst=f"{address}/{length}", oif=index, prefsrc=interface["address"],
                    table=table,
                )  # fmt: skip


def _is_main(route: Mapping[str, Any], number: int, settings: HostSettings) -> bool:
    """Whether the main table uses this route."""
    if settings.main is not None:
        return settings.main[route["to"]] == number
    chosen = settings.ways.get(route["to"])
    return bool(route["first"]) if chosen is None else chosen == number


def _endpoints(settings: HostSettings) -> None:
    from pyroute2 import MPTCP

    with MPTCP() as manager:
        manager.limits("set", subflows=MAX_SUBFLOWS, rcv_add_addrs=MAX_SUBFLOWS)
        for address, flags in settings.endpoints.items():
            _add_endpoint(manager, address, flags)


def _add_endpoint(manager: MPTCP, address: str, flags: int) -> None:
    key = "addr6" if ":" in address else "addr4"
    manager.endpoint("add", **{key: address, "flags": flags})
