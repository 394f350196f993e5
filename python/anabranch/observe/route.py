"""Traces the route of a pair with an increasing time to live, without root."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import TYPE_CHECKING, Literal

from anabranch.observe import sockets
from anabranch.observe.record import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.observe.pairs import Pair

UDP_PORT = 33_434
"""First UDP port of traceroute; programs rarely listen there."""
_MAX_HOPS = 30
_MAX_SILENT_HOPS = 4
"""Number of successive hops without an answer after which a trace ends."""
_PROBE_TIMEOUT_S = 0.8
_TRIES = 2
_HEADER_BYTES = {socket.AF_INET: 28, socket.AF_INET6: 48}

Answer = tuple[str, bool]
"""Answering address, and whether it is the end of the route."""


def trace(pair: Pair, port: int, *, tries: int = _TRIES) -> Route:
    """Trace the routers of the path by UDP, or by TCP to a port if UDP does not reach the end."""
    try:
        # One socket for all probes: routers that balance load by addresses and ports then use one route.
        with sockets.open_socket(pair, socket.SOCK_DGRAM) as own:
            found = _traced("udp", lambda ttl: _by_udp(own, pair, ttl), tries)
    except OSError:
        found = Route("udp", [], reached=False)
    if found.reached or tries < _TRIES:
        return found
    other = _traced("tcp", lambda ttl: _by_tcp(pair, ttl, port), tries)
    return other if other.reached or len(other.hops) > len(found.hops) else found


def _traced(by: Literal["udp", "tcp"], ask: Callable[[int], Answer | None], tries: int) -> Route:
    hops: list[str | None] = []
    for ttl in range(1, _MAX_HOPS + 1):
        answer = next((one for one in (ask(ttl) for _ in range(tries)) if one is not None), None)
        hops.append(answer and answer[0])
        if answer is not None and answer[1]:
            return Route(by, hops, reached=True)
        if hops[-_MAX_SILENT_HOPS:] == [None] * _MAX_SILENT_HOPS:
            break
    while hops and hops[-1] is None:
        hops.pop()
    return Route(by, hops, reached=False)


def _by_udp(own: socket.socket, pair: Pair, ttl: int) -> Answer | None:
    """Probe with a datagram of this time to live and return the answering address."""
    mark = os.urandom(4) + bytes([ttl])
    sockets.set_ttl(own, ttl)
    try:
        own.sendto(mark, (pair.remote, UDP_PORT))
    except OSError:
        return None
    until = sockets.now() + _PROBE_TIMEOUT_S
    while sockets.wait_for_events(own, 0, until - sockets.now()):
        reported = sockets.next_error(own)
        if reported is None or reported.by is None:
            return None
        # A late answer may belong to an earlier probe; some routers quote too little to identify the probe.
        if not reported.content or mark.startswith(reported.content[: len(mark)]):
            return reported.by, not reported.exceeded and (reported.port or reported.by == pair.remote)
    return None


def _by_tcp(pair: Pair, ttl: int, port: int) -> Answer | None:
    """Probe with a TCP SYN of this time to live and return the answering address."""
    try:
        with sockets.open_socket(pair, socket.SOCK_STREAM) as own:
            sockets.set_ttl(own, ttl)
            status = own.connect_ex((pair.remote, port))
            if status == errno.EINPROGRESS:
                if not sockets.wait_for_events(own, select.POLLOUT, _PROBE_TIMEOUT_S):
                    return None
                reported = sockets.next_error(own)
                if reported is not None and reported.by is not None:
                    return reported.by, not reported.exceeded and reported.by == pair.remote
                status = own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except OSError:
        return None
    return (pair.remote, True) if status in {0, errno.ECONNREFUSED} else None


def path_mtu(pair: Pair) -> tuple[int | None, bool]:
    """The path's MTU in bytes, by path MTU discovery of the kernel, and whether the remote end answered a packet of it.

    Sends datagrams of full size without fragmentation until one arrives or answers stop.
    """
    six = pair.family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
    discover, known = (
        (sockets.IPV6_MTU_DISCOVER, sockets.IPV6_MTU) if six else (sockets.IP_MTU_DISCOVER, sockets.IP_MTU)
    )
    mtu = None
    try:
        with sockets.open_socket(pair, socket.SOCK_DGRAM) as own:
            own.setsockopt(level, discover, sockets.PMTUDISC_DO)
            own.connect((pair.remote, UDP_PORT))
            for _ in range(10):
                before, mtu = mtu, own.getsockopt(level, known)
                # The length field limits a datagram.
                payload = bytes(min(mtu, 65_535) - _HEADER_BYTES[pair.family])
                try:
                    own.send(payload)
                except OSError as error:
                    if error.errno not in {errno.EMSGSIZE, errno.ECONNREFUSED}:
                        return mtu, False
                if not sockets.wait_for_events(own, 0, _PROBE_TIMEOUT_S):
                    # Hosts limit the rate of these answers, so a later probe may be answered again.
                    if before == mtu:
                        return mtu, False
                    continue
                reported = sockets.next_error(own)
                if reported is not None and reported.port and own.getsockopt(level, known) == mtu:
                    return mtu, True
    except OSError:
        return mtu, False
    return mtu, False
