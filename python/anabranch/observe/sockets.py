"""ICMP errors about sent packets, from the error queue of a socket (ip(7), `IP_RECVERR`)."""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.observe.pairs import Pair

IP_RECVERR, IPV6_RECVERR = 11, 25
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER = 10, 23
IP_MTU, IPV6_MTU = 14, 24
PMTUDISC_DO = 2
_IPPROTO_IPV6 = socket.IPPROTO_IPV6
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
"""Layout of the kernel's `struct sock_extended_err`."""
_ICMP_ORIGINS = {2, 3}
"""Values of `ee_origin`: ICMP and ICMPv6."""
_TIME_EXCEEDED = {socket.AF_INET: 11, socket.AF_INET6: 3}
"""ICMP type of "time exceeded"."""
_PORT_UNREACHABLE = {socket.AF_INET: (3, 3), socket.AF_INET6: (1, 4)}
"""ICMP type and code of "port unreachable"."""


@dataclass(frozen=True)
class SocketError:
    """An ICMP or local error about a sent packet."""

    number: int
    """Error number, as in errno."""
    by: str | None
    """Address of the reporting router or host; `None` if it was this machine."""
    exceeded: bool
    """Whether the packet's time to live expired."""
    port: bool
    """Whether the packet arrived, but no program listens at the port."""
    content: bytes
    """Quoted beginning of the packet."""


def open_socket(pair: Pair, kind: socket.SocketKind, protocol: int = 0) -> socket.socket:
    """A socket of the pair's family, bound to its local address, that receives ICMP errors.

    Raises:
        OSError: If this machine no longer has the local address, or the kernel refuses.

    """
    own = socket.socket(pair.family, kind | socket.SOCK_NONBLOCK, protocol)
    try:
        six = pair.family == socket.AF_INET6
        own.setsockopt(_IPPROTO_IPV6 if six else socket.IPPROTO_IP, IPV6_RECVERR if six else IP_RECVERR, 1)
        own.bind((pair.local, 0))
    except OSError:
        own.close()
        raise
    return own


def set_ttl(own: socket.socket, ttl: int) -> None:
    """Set the time to live of further packets."""
    if own.family == socket.AF_INET6:
        own.setsockopt(_IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
    else:
        own.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)


def wait_for_events(own: socket.socket, events: int, timeout_s: float) -> int:
    """Wait for an event of a socket among `events`, or an error; returns 0 after the timeout."""
    poll = select.poll()
    poll.register(own, events)
    found = poll.poll(max(0.0, timeout_s) * 1e3)
    return found[0][1] if found else 0


def next_error(own: socket.socket) -> SocketError | None:
    """The next error in the socket's error queue; `None` if it is empty."""
    try:
        content, notes, _, _ = own.recvmsg(2048, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    except OSError:
        return None
    for level, kind, note in notes:
        if (level, kind) in {(socket.IPPROTO_IP, IP_RECVERR), (_IPPROTO_IPV6, IPV6_RECVERR)}:
            return _parsed(own.family, note, content)
    return None


def _parsed(family: int, note: bytes, content: bytes) -> SocketError:
    number, origin, kind, code, *_ = _EXTENDED_ERROR.unpack_from(note)
    reporter = note[_EXTENDED_ERROR.size :]
    by = None
    if origin in _ICMP_ORIGINS:
        six = family == socket.AF_INET6
        by = socket.inet_ntop(family, reporter[8:24] if six else reporter[4:8])
    exceeded = by is not None and kind == _TIME_EXCEEDED[socket.AddressFamily(family)]
    port = by is not None and (kind, code) == _PORT_UNREACHABLE[socket.AddressFamily(family)]
    return SocketError(number, by, exceeded, port, content)


def now() -> float:
    """Seconds of the monotonic clock."""
    return time.monotonic()
