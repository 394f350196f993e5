"""Arguments and answers of both forms of the stack, and the native calls that they become."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import _native
from anabranch._core.simulator import InputErrors
from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

UDP_PORT = 9899
"""Standard port of SCTP in UDP (RFC 6951 §5.1)."""
MTU = 1500
"""MTU of Ethernet, bytes."""
_MIN_MTU = 1280
BACKLOG = 128
"""Connections that wait for their acceptance."""
MAX_READ_BYTES = 65_536
DRAIN_TIMEOUT_S = 5.0

Event = dict[str, Any]
"""An event of a connection: `event` has its name, which determines the other keys (docs/how-to/python-stack.md)."""

Setting = str | int | float | bool
"""The value of a setting: a text as in a scenario ("8 MB", "olia"), a number or a truth value."""


@dataclass(frozen=True)
class Tun:
    """A TUN interface, which is created with the stack and removed with it. Needs CAP_NET_ADMIN."""

    name: str
    """Name of the interface, for example "ana0"."""
    kernel: str
    """The kernel's address with the length of the prefix, for example "10.99.0.1/24"."""
    own: str
    """The address of the stack, for example "10.99.0.2"."""
    backup: bool = False
    """Whether the path carries data only while no other path can."""


@dataclass(frozen=True)
class Message:
    """A received message, or a part of one."""

    data: bytes
    """The bytes of the message or the part."""
    stream: int
    """Number of the stream."""
    ppid: int
    """The payload protocol identifier."""
    unordered: bool
    """Whether the message was sent unordered."""
    more: bool
    """Whether the message continues in the next part of the same stream; only a message larger than the receive buffer
    has parts."""
    aborted: bool
    """Whether the sender has abandoned the message of the previous parts; this part then has no bytes."""


def opened(
    tun: Iterable[Tun], udp: Iterable[str], udp_port: int, mtu: int, pcap: str | Path | None
) -> tuple[_native.Stack, bool]:
    """A stack with these devices, and whether it is behind TUN interfaces.

    Raises:
        InputError: If an argument is not valid, or the capture cannot be written.
        OSError: If the machine refuses a device.

    """
    if not sys.platform.startswith("linux"):
        raise InputError("the stack needs Linux")
    tuns = [(one.name, one.kernel, one.own, one.backup) for one in tun]
    addresses = addresses_of("udp", udp)
    if bool(tuns) == bool(addresses):
        raise InputError("a stack needs either tun or udp; name at least one interface, or one address for udp")
    whole("udp_port", udp_port, 1, 65_535)
    whole("mtu", mtu, _MIN_MTU, 65_535)
    with InputErrors():
        stack = _native.Stack(tuns, addresses, udp_port, mtu, None if pcap is None else str(pcap))
    return stack, bool(tuns)


def connect(
    stack: _native.Stack, remote: str, port: int, protocol: str, settings: Mapping[str, Setting] | None
) -> _native.Call:
    """The call that opens a connection."""
    whole("port", port, 1, 65_535)
    if protocol not in {"tcp", "mptcp"}:
        raise InputError(f'connect needs the protocol "tcp" or "mptcp", not {protocol!r}; use associate for SCTP')
    with InputErrors():
        return stack.connect(remote, port, _choice(protocol, settings))


def associate(
    stack: _native.Stack,
    remote: str | Sequence[str],
    port: int,
    protocol: str,
    settings: Mapping[str, Setting] | None,
    peer_udp_port: int,
) -> _native.Call:
    """The call that opens an association."""
    whole("port", port, 1, 65_535)
    whole("peer_udp_port", peer_udp_port, 1, 65_535)
    if protocol not in {"sctp", "cmt-sctp"}:
        raise InputError(f'associate needs the protocol "sctp" or "cmt-sctp", not {protocol!r}; use connect for TCP')
    addresses = [remote] if isinstance(remote, str) else addresses_of("remote", remote)
    with InputErrors():
        return stack.associate(addresses, port, _choice(protocol, settings), peer_udp_port)


def listen(
    stack: _native.Stack, port: int, protocol: str, settings: Mapping[str, Setting] | None, backlog: int
) -> _native.Call:
    """The call that opens a listener."""
    whole("port", port, 1, 65_535)
    whole("backlog", backlog, 1, 65_535)
    with InputErrors():
        return stack.listen(port, _choice(protocol, settings), backlog)


def send(
    association: _native.Association,
    data: bytes | bytearray | memoryview,
    numbers: tuple[int, int],
    unordered: bool,
    limits: tuple[float | None, int | None, int | None],
) -> _native.Call:
    """The call that sends a message; `numbers` are its stream and its payload protocol identifier."""
    whole("stream", numbers[0], 0, 65_535)
    whole("ppid", numbers[1], 0, 2**32 - 1)
    whole("retransmissions", limits[1] or 0, 0, 255)
    whole("priority", limits[2] or 0, 0, 2**32 - 1)
    with InputErrors():
        return association.send(bytes_of(data), *numbers, unordered, limits)


def change_streams(
    association: _native.Association, request: int | Iterable[int] | None, incoming: bool
) -> _native.Call:
    """The call that adds this number of streams, or resets these streams or all."""
    if isinstance(request, int):
        whole("count", request, 1, 65_535)
    elif request is not None:
        request = [whole("a stream", stream, 0, 65_535) for stream in request]
    with InputErrors():
        return association.change_streams(request, incoming)


def path(number: int) -> int:
    """The identifier of a path.

    Raises:
        InputError: If the value is not one.

    """
    return whole("path", number, 0, 255)


def message(answer: tuple[bytes, int, int, bool, bool, bool] | None) -> Message | None:
    """The message of an answer; `None` at the end."""
    return None if answer is None else Message(*answer)


def bytes_of(data: bytes | bytearray | memoryview) -> bytes:
    """The bytes of data; unlike `bytes`, this refuses numbers."""
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def addresses_of(name: str, addresses: Iterable[str]) -> list[str]:
    """A list of addresses.

    Raises:
        InputError: If the argument is a single text, which Python would take for a list of characters.

    """
    if isinstance(addresses, str):
        raise InputError(f'{name} is a list of addresses; write ["{addresses}"]')
    return list(addresses)


def whole(name: str, number: int, least: int, most: int) -> int:
    """A whole number of this range.

    Raises:
        InputError: If the value is not one.

    """
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, not {number!r}")
    return number


def _choice(protocol: str, settings: Mapping[str, Setting] | None) -> tuple[str, list[tuple[str, str]]]:
    """A protocol and its settings as texts."""
    return protocol, [(key, _text(key, value)) for key, value in (settings or {}).items()]


def _text(key: str, value: Any) -> str:
    if not isinstance(key, str):
        raise InputError(f"the key of a setting must be a text, not {key!r}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InputError(f'setting "{key}" must be a text, a number or a truth value, not {value!r}')
