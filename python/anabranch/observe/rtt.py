"""Measures round-trip times of a pair, by ICMP if the kernel allows users to ping, otherwise by TCP handshakes."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from statistics import median
from typing import TYPE_CHECKING, Literal

from anabranch.observe import sockets
from anabranch.observe.record import RoundTrip

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.observe.pairs import Pair

PROBES = 5
_PROBE_TIMEOUT_S = 0.95
"""Timeout of a probe, seconds; below the second after which TCP retransmits a SYN (RFC 6298)."""
_PROBE_INTERVAL_S = 0.05
_ECHO_TYPES = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""ICMP types of echo request and echo reply."""
_ICMP_PROTOCOL = {socket.AF_INET: socket.IPPROTO_ICMP, socket.AF_INET6: socket.IPPROTO_ICMPV6}


def round_trips(pair: Pair, port: int) -> tuple[RoundTrip | None, str | None]:
    """Round-trip times, or the reason for which there are none.

    A host that does not answer pings is probed at a TCP port: an open port accepts, a closed port refuses.
    """
    times, _ = _asked(lambda: _ping(pair))
    by: Literal["icmp", "tcp-connect"] = "icmp"
    reason = None
    if not any(times):
        times, reason = _asked(lambda: _connect(pair, port))
        by = "tcp-connect"
    answered = [one for one in times if one is not None]
    if not answered:
        return None, reason or "no answer"
    least, most = min(answered), max(answered)
    return RoundTrip(by, len(times), len(times) - len(answered), least, median(answered), most), None


def _asked(probe: Callable[[], float | None]) -> tuple[list[float | None], str | None]:
    """Results of successive probes; ends early after an error that further probes would repeat."""
    times: list[float | None] = []
    try:
        for _ in range(PROBES):
            if times:
                time.sleep(_PROBE_INTERVAL_S)
            times.append(probe())
            # A host that answers neither of the first two probes counts as unreachable.
            if times == [None, None]:
                break
    except OSError as error:
        if not any(times):
            return [], os.strerror(error.errno or 0).lower()
        times.append(None)
    return times, None


def _ping(pair: Pair) -> float | None:
    """Seconds until an echo reply arrives; `None` after the timeout.

    Raises:
        OSError: If the kernel does not allow users to ping (`net.ipv4.ping_group_range`), or there is no route.

    """
    request, answer = _ECHO_TYPES[pair.family]
    mark = os.urandom(16)
    with sockets.open_socket(pair, socket.SOCK_DGRAM, _ICMP_PROTOCOL[pair.family]) as own:
        begun = sockets.now()
        # The kernel fills in identifier and checksum.
        own.sendto(struct.pack("!BBHHH", request, 0, 0, 0, 1) + mark, (pair.remote, 0))
        while sockets.wait_for_events(own, select.POLLIN, begun + _PROBE_TIMEOUT_S - sockets.now()) & select.POLLIN:
            content = own.recv(2048)
            if content[0] == answer and content[8:] == mark:
                return sockets.now() - begun
    return None


def _connect(pair: Pair, port: int) -> float | None:
    """Seconds until a connection is accepted or refused; `None` after the timeout.

    Raises:
        OSError: If a router or this machine reports that the host is unreachable.

    """
    with sockets.open_socket(pair, socket.SOCK_STREAM) as own:
        begun = sockets.now()
        status = own.connect_ex((pair.remote, port))
        if status == errno.EINPROGRESS:
            if not sockets.wait_for_events(own, select.POLLOUT, _PROBE_TIMEOUT_S):
                return None
            status = own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        taken = sockets.now() - begun
    if status in {0, errno.ECONNREFUSED}:
        return taken
    raise OSError(status, os.strerror(status))
