"""Finds the subflows of Multipath TCP connections at an address, by `sock_diag(7)`."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CONNECTED_STATES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8
"""States of a connection that can still carry data: ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT."""

_INET_DIAG_INFO = 1 << 1
"""Extension of a request that adds the state of a subflow to the answer (`INET_DIAG_INFO`)."""

_ULP_MPTCP = 3
"""The attribute with the state of a subflow (`INET_ULP_INFO_MPTCP`)."""

_TOKEN_LOCAL = 2
"""The local token of a subflow's connection (`MPTCP_SUBFLOW_ATTR_TOKEN_LOC`)."""


def is_missing(address: str) -> bool:
    """Whether a connection of this namespace lacks a subflow at an address, and none has its only subflow there."""
    wanted = ipaddress.ip_address(address)
    connections = by_token().values()
    return any(wanted not in used for used in connections) and all(used != {wanted} for used in connections)


def by_token() -> dict[int, set[Address]]:
    """The local addresses of the subflows of each connection of this namespace, by the connection's token."""
    from pyroute2 import DiagSocket

    found: dict[int, set[Address]] = defaultdict(set)
    with DiagSocket() as diagnostics:
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in diagnostics.get_sock_stats(
                family=family, states=_CONNECTED_STATES, extensions=_INET_DIAG_INFO
            ):
                token = _subflow(message).get(_TOKEN_LOCAL)
                if token is not None:
                    found[int.from_bytes(token, sys.byteorder)].add(_plain(message["idiag_src"]))
    return found


def _plain(text: str) -> Address:
    """The address of a socket; an IPv4-mapped IPv6 address becomes the IPv4 address."""
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _subflow(message: Any) -> dict[int, bytes]:
    """The attributes of a socket as a subflow; none for other sockets."""
    text = message.get_attr("INET_DIAG_ULP_INFO")
    protocols = dict(_attributes(bytes.fromhex(text.replace(":", "")))) if text else {}
    return dict(_attributes(protocols.get(_ULP_MPTCP, b"")))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Types and values of netlink attributes."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        # The two highest bits are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += max(4, length + 3 & ~3)
