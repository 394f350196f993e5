"""The stack for asyncio: the classes of `anabranch.stack` with coroutines in place of calls that wait.

Cancelling a task ends its call, so `asyncio.timeout` limits each of them. The stack's thread never waits for the
interpreter.

>>> from anabranch.stack import aio
>>> async with aio.Stack(udp=["127.0.0.1"]) as client:
...     association = await client.associate("127.0.0.3", 7)
...     await association.send(b"hello")
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch._core.simulator import InputErrors
from anabranch.stack import values
from anabranch.stack.event_loop import answer
from anabranch.stack.handle import Handle
from anabranch.stack.values import Message, Tun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from anabranch import _native
    from anabranch._core.states import ConnectionReport
    from anabranch.stack.values import Event, Setting

__all__ = ["Association", "Listener", "Message", "Stack", "Stream", "Tun"]


class Stack:
    """A host in user space, as `anabranch.stack.Stack`.

    Leaving its `async with` block stops it: by `stop` in order, or at once after an exception.
    """

    def __init__(
        self,
        *,
        tun: Iterable[Tun] = (),
        udp: Iterable[str] = (),
        udp_port: int = values.UDP_PORT,
        mtu: int = values.MTU,
        pcap: str | Path | None = None,
    ) -> None:
        """Create the devices and start the host: `tun`, `udp`, `udp_port`, `mtu`, `pcap` as `anabranch.stack.Stack`."""
        self._stack, self._has_tun = values.opened(tun, udp, udp_port, mtu, pcap)
        self._stopped = False

    async def connect(
        self,
        remote: str,
        port: int,
        protocol: str = "mptcp",
        settings: Mapping[str, Setting] | None = None,
    ) -> Stream:
        """Open a connection, as `anabranch.stack.Stack.connect`.

        Args:
            remote: IP address of the peer.
            port: Port of the peer.
            protocol: "tcp" or "mptcp".
            settings: Keys of the protocol, as those of a flow in scenarios, such as `{"congestion": "olia"}`.

        """
        return Stream(await answer(values.connect(self._stack, remote, port, protocol, settings)))

    async def associate(
        self,
        remote: str | Sequence[str],
        port: int,
        protocol: str = "cmt-sctp",
        settings: Mapping[str, Setting] | None = None,
        *,
        peer_udp_port: int = values.UDP_PORT,
    ) -> Association:
        """Open an association, as `anabranch.stack.Stack.associate`.

        Args:
            remote: IP address of the peer, or several ones; the first is used first.
            port: SCTP port of the peer.
            protocol: "sctp" or "cmt-sctp".
            settings: Keys of the protocol, as those of a flow in scenarios, such as `{"congestion": "cmt-rpv2"}`.
            peer_udp_port: UDP port of the peer.

        """
        call = values.associate(self._stack, remote, port, protocol, settings, peer_udp_port)
        return Association(await answer(call))

    async def listen(
        self,
        port: int,
        protocol: str | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        backlog: int = values.BACKLOG,
    ) -> Listener:
        """Listen on a port, as `anabranch.stack.Stack.listen`.

        Args:
            port: The port.
            protocol: "tcp", "mptcp", "sctp" or "cmt-sctp"; by default "mptcp" with `tun`, "cmt-sctp" with `udp`.
            settings: Keys of the protocol, for all accepted connections.
            backlog: Connections that may wait for their acceptance.

        """
        protocol = protocol or ("mptcp" if self._has_tun else "cmt-sctp")
        return Listener(await answer(values.listen(self._stack, port, protocol, settings, backlog)))

    async def remove_address(self, address: str) -> None:
        """Stop using an address, as `anabranch.stack.Stack.remove_address`.

        Args:
            address: An address of the stack.

        """
        with InputErrors():
            call = self._stack.use_address(address, False)
        await answer(call)

    async def restore_address(self, address: str) -> None:
        """Use an address again, as `anabranch.stack.Stack.restore_address`.

        Args:
            address: An address of the stack.

        """
        with InputErrors():
            call = self._stack.use_address(address, True)
        await answer(call)

    async def reports(self) -> list[ConnectionReport]:
        """State and counters of all connections; docs/reference/endpoint.md lists the keys."""
        reports: list[ConnectionReport] = json.loads(await answer(self._stack.reports()))
        return reports

    async def stop(self, timeout_s: float = values.DRAIN_TIMEOUT_S) -> int:
        """Stop the host, as `anabranch.stack.Stack.stop`.

        Args:
            timeout_s: Longest time to wait, in seconds; then the remaining connections are aborted.

        """
        return await self._stop(timeout_s)

    async def abort(self) -> int:
        """Abort all connections and stop the host. Returns the number of connections that were aborted."""
        return await self._stop(None)

    async def _stop(self, timeout_s: float | None) -> int:
        with InputErrors():
            call = self._stack.stop(timeout_s)
        self._stopped = True
        aborted: int = await answer(call)
        return aborted

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stopped:
            await self._stop(values.DRAIN_TIMEOUT_S if kind is None else None)


class Listener:
    """A port that accepts connections, as `anabranch.stack.Listener`."""

    def __init__(self, native: _native.Listener) -> None:
        self._listener = native

    async def accept(self) -> Stream:
        """Wait for a connection, as `anabranch.stack.Listener.accept`."""
        with InputErrors():
            call = self._listener.accept()
        return Stream(await answer(call))

    async def accept_association(self) -> Association:
        """Wait for an association, as `anabranch.stack.Listener.accept_association`."""
        with InputErrors():
            call = self._listener.accept_association()
        return Association(await answer(call))

    def close(self) -> None:
        """Close the port; connections that were not accepted are aborted."""
        self._listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _Connection(Handle):
    """The calls that streams and associations have in common."""

    async def ended(self) -> str:
        """Wait for the end of the connection and return its reason, as `anabranch.stack.Stream.ended`."""
        with InputErrors():
            call = self._handle.ended()
        reason: str = await answer(call)
        return reason

    async def event(self) -> Event | None:
        """Wait for the next event, as `anabranch.stack.Stream.event`; `None` after the end of the connection."""
        with InputErrors():
            call = self._handle.event()
        event: Event | None = json.loads(await answer(call))
        return event

    async def report(self) -> ConnectionReport:
        """State and counters, also after the end; docs/reference/endpoint.md lists the keys."""
        with InputErrors():
            call = self._handle.report()
        report: ConnectionReport = json.loads(await answer(call))
        return report

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        self.close()


class Stream(_Connection):
    """A connection of TCP or Multipath TCP, as `anabranch.stack.Stream`. Iterating returns its data until the end."""

    def __init__(self, native: _native.Stream) -> None:
        super().__init__(native)
        self._stream = native

    async def read(self, max_bytes: int = values.MAX_READ_BYTES) -> bytes:
        """Wait for data and return it; empty at the end.

        Args:
            max_bytes: Largest number of bytes to return.

        """
        values.whole("max_bytes", max_bytes, 1, 2**31)
        with InputErrors():
            call = self._stream.read(max_bytes)
        data: bytes = await answer(call)
        return data

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all data; wait while the send buffer is full.

        Args:
            data: The bytes.

        """
        with InputErrors():
            call = self._stream.write(values.bytes_of(data))
        await answer(call)

    async def set_backup(self, path: int, backup: bool) -> None:
        """Make a subflow a backup or a usual one, as `anabranch.stack.Stream.set_backup`.

        Args:
            path: Identifier of the path, as in reports.
            backup: Whether it carries data only while no other subflow can.

        """
        with InputErrors():
            call = self._stream.set_backup(values.path(path), backup)
        await answer(call)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data


class Association(_Connection):
    """An association of SCTP or CMT-SCTP, as `anabranch.stack.Association`. Iterating returns its messages."""

    def __init__(self, native: _native.Association) -> None:
        super().__init__(native)
        self._association = native

    async def send(
        self,
        data: bytes | bytearray | memoryview,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        lifetime_s: float | None = None,
        retransmissions: int | None = None,
        priority: int | None = None,
    ) -> None:
        """Send a message, as `anabranch.stack.Association.send`; wait while the send buffer is full.

        Args:
            data: The bytes, at least one.
            stream: The stream.
            ppid: Payload protocol identifier, which the peer gets with the message.
            unordered: The message may overtake others.
            lifetime_s: Age in seconds after which it is abandoned (RFC 3758).
            retransmissions: Retransmissions after which it is abandoned (RFC 7496).
            priority: It is abandoned for a message with a smaller number (RFC 7496). At most one of the three is given.

        """
        limits = (lifetime_s, retransmissions, priority)
        await answer(values.send(self._association, data, (stream, ppid), unordered, limits))

    async def receive(self) -> Message | None:
        """Wait for the next message; `None` after the peer's last one."""
        with InputErrors():
            call = self._association.receive()
        return values.message(await answer(call))

    async def set_primary(self, path: int) -> None:
        """Choose the primary path, as `anabranch.stack.Association.set_primary`.

        Args:
            path: Identifier of the path, as in reports.

        """
        with InputErrors():
            call = self._association.set_primary(values.path(path))
        await answer(call)

    async def add_streams(self, count: int, *, incoming: bool = False) -> bool:
        """Request further streams, as `anabranch.stack.Association.add_streams`.

        Args:
            count: Number of further streams.
            incoming: Whether the peer sends on them.

        """
        made: bool = await answer(values.change_streams(self._association, count, incoming))
        return made

    async def reset_streams(self, streams: Iterable[int] | None = None, *, incoming: bool = False) -> bool:
        """Request the reset of streams, as `anabranch.stack.Association.reset_streams`.

        Args:
            streams: The streams; by default all of both directions, and the TSNs.
            incoming: Whether the peer sends on them.

        """
        made: bool = await answer(values.change_streams(self._association, streams, incoming))
        return made

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self.receive()) is not None:
            yield message
