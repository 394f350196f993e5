"""The stack with calls that wait in the calling thread and release the interpreter meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import InputErrors
from anabranch.stack import values
from anabranch.stack.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from anabranch import _native
    from anabranch._core.states import ConnectionReport
    from anabranch.stack.values import Event, Message, Setting, Tun


def _answer(call: _native.Call, timeout_s: float | None = None) -> Any:
    with InputErrors():
        return call.wait(timeout_s)


class Stack:
    """A host in user space, in a separate thread, with its devices.

    Leaving its `with` block stops it: by `stop` in order, or at once after an exception. A program that ends without
    stopping loses unsent data. Calls with `timeout_s` raise `TimeoutError` after this time.
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
        """Create the devices and start the host.

        Args:
            tun: TUN interfaces, for TCP and Multipath TCP. They are created in the network namespace of the thread.
            udp: Addresses of the machine that carry SCTP in UDP (RFC 6951). A stack has either `tun` or `udp`.
            udp_port: Own UDP port.
            mtu: Largest IP packet in bytes.
            pcap: File for a capture of all packets (pcapng).

        Raises:
            InputError: If an argument is not valid, or the capture cannot be written.
            OSError: If the machine refuses a device, for example without CAP_NET_ADMIN.

        """
        self._stack, self._has_tun = values.opened(tun, udp, udp_port, mtu, pcap)
        self._stopped = False

    def connect(
        self,
        remote: str,
        port: int,
        protocol: str = "mptcp",
        settings: Mapping[str, Setting] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Stream:
        """Open a connection of TCP or Multipath TCP; it starts from the first address of the same family.

        Args:
            remote: IP address of the peer.
            port: Port of the peer.
            protocol: "tcp" or "mptcp".
            settings: Keys of the protocol, as those of a flow in scenarios, such as `{"congestion": "olia"}`.
            timeout_s: Longest time to wait, in seconds.

        Raises:
            InputError: If an argument is not valid.
            OSError: If the peer refuses or does not answer.

        """
        return Stream(_answer(values.connect(self._stack, remote, port, protocol, settings), timeout_s))

    def associate(
        self,
        remote: str | Sequence[str],
        port: int,
        protocol: str = "cmt-sctp",
        settings: Mapping[str, Setting] | None = None,
        *,
        peer_udp_port: int = values.UDP_PORT,
        timeout_s: float | None = None,
    ) -> Association:
        """Open an association of SCTP or CMT-SCTP.

        Args:
            remote: IP address of the peer, or several ones; the first is used first.
            port: SCTP port of the peer.
            protocol: "sctp" or "cmt-sctp".
            settings: Keys of the protocol, as those of a flow in scenarios, such as `{"congestion": "cmt-rpv2"}`.
            peer_udp_port: UDP port of the peer.
            timeout_s: Longest time to wait, in seconds.

        Raises:
            InputError: If an argument is not valid.
            OSError: If the peer refuses or does not answer.

        """
        call = values.associate(self._stack, remote, port, protocol, settings, peer_udp_port)
        return Association(_answer(call, timeout_s))

    def listen(
        self,
        port: int,
        protocol: str | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        backlog: int = values.BACKLOG,
    ) -> Listener:
        """Listen on a port of all addresses.

        Args:
            port: The port.
            protocol: "tcp", "mptcp", "sctp" or "cmt-sctp"; by default "mptcp" with `tun`, "cmt-sctp" with `udp`.
            settings: Keys of the protocol, for all accepted connections.
            backlog: Connections that may wait for their acceptance.

        Raises:
            InputError: If an argument is not valid.
            OSError: If the port is in use.

        """
        protocol = protocol or ("mptcp" if self._has_tun else "cmt-sctp")
        return Listener(_answer(values.listen(self._stack, port, protocol, settings, backlog)))

    def remove_address(self, address: str) -> None:
        """Stop using an address: connections close their paths from it and inform their peers (REMOVE_ADDR, ASCONF).

        Args:
            address: An address of the stack.

        Raises:
            InputError: If the stack does not have it.

        """
        with InputErrors():
            call = self._stack.use_address(address, False)
        _answer(call)

    def restore_address(self, address: str) -> None:
        """Use an address again that was removed.

        Args:
            address: An address of the stack.

        Raises:
            InputError: If the stack does not have it.

        """
        with InputErrors():
            call = self._stack.use_address(address, True)
        _answer(call)

    def reports(self) -> list[ConnectionReport]:
        """State and counters of all connections; docs/reference/endpoint.md lists the keys."""
        reports: list[ConnectionReport] = json.loads(_answer(self._stack.reports()))
        return reports

    def stop(self, timeout_s: float = values.DRAIN_TIMEOUT_S) -> int:
        """End writing on all connections, wait for their ends, and stop the host.

        Args:
            timeout_s: Longest time to wait, in seconds; then the remaining connections are aborted.

        Returns:
            The number of connections that were aborted.

        Raises:
            OSError: If the stack was stopped before, or the capture cannot be written.

        """
        return self._stop(timeout_s)

    def abort(self) -> int:
        """Abort all connections and stop the host. Returns the number of connections that were aborted."""
        return self._stop(None)

    def _stop(self, timeout_s: float | None) -> int:
        with InputErrors():
            call = self._stack.stop(timeout_s)
        self._stopped = True
        aborted: int = _answer(call)
        return aborted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stopped:
            self._stop(values.DRAIN_TIMEOUT_S if kind is None else None)


class Listener:
    """A port that accepts connections."""

    def __init__(self, native: _native.Listener) -> None:
        self._listener = native

    def accept(self, timeout_s: float | None = None) -> Stream:
        """Wait for a connection of TCP or Multipath TCP.

        Args:
            timeout_s: Longest time to wait, in seconds.

        Raises:
            InputError: If the listener is for SCTP.
            OSError: If the stack has stopped.

        """
        with InputErrors():
            call = self._listener.accept()
        return Stream(_answer(call, timeout_s))

    def accept_association(self, timeout_s: float | None = None) -> Association:
        """Wait for an association.

        Args:
            timeout_s: Longest time to wait, in seconds.

        Raises:
            InputError: If the listener is for TCP.
            OSError: If the stack has stopped.

        """
        with InputErrors():
            call = self._listener.accept_association()
        return Association(_answer(call, timeout_s))

    def close(self) -> None:
        """Close the port; connections that were not accepted are aborted."""
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Connection(Handle):
    """The calls that streams and associations have in common."""

    def ended(self, timeout_s: float | None = None) -> str:
        """Wait for the end of the connection and return its reason.

        "closed" means that the peer has acknowledged all written data, and that both sides have closed; the others are
        "reset", "aborted", "timed out", "unreachable" and "refused".

        Args:
            timeout_s: Longest time to wait, in seconds.

        """
        with InputErrors():
            call = self._handle.ended()
        reason: str = _answer(call, timeout_s)
        return reason

    def event(self, timeout_s: float | None = None) -> Event | None:
        """Wait for the next event, such as `{"event": "path_up", "path": 1}`; `None` after the end of the connection.

        Args:
            timeout_s: Longest time to wait, in seconds.

        """
        with InputErrors():
            call = self._handle.event()
        event: Event | None = json.loads(_answer(call, timeout_s))
        return event

    def report(self) -> ConnectionReport:
        """State and counters, also after the end; docs/reference/endpoint.md lists the keys."""
        with InputErrors():
            call = self._handle.report()
        report: ConnectionReport = json.loads(_answer(call))
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        self.close()


class Stream(_Connection):
    """A connection of TCP or Multipath TCP. Iterating returns its data until the end."""

    def __init__(self, native: _native.Stream) -> None:
        super().__init__(native)
        self._stream = native

    def read(self, max_bytes: int = values.MAX_READ_BYTES, timeout_s: float | None = None) -> bytes:
        """Wait for data and return it; empty at the end.

        Args:
            max_bytes: Largest number of bytes to return.
            timeout_s: Longest time to wait, in seconds; no data is lost then.

        Raises:
            OSError: If the connection did not end in order.

        """
        values.whole("max_bytes", max_bytes, 1, 2**31)
        with InputErrors():
            call = self._stream.read(max_bytes)
        data: bytes = _answer(call, timeout_s)
        return data

    def write(self, data: bytes | bytearray | memoryview, timeout_s: float | None = None) -> None:
        """Write all data; wait while the send buffer is full.

        Args:
            data: The bytes.
            timeout_s: Longest time to wait, in seconds; a part may have been written then.

        Raises:
            OSError: If the connection has ended, or this side has ended writing.

        """
        with InputErrors():
            call = self._stream.write(values.bytes_of(data))
        _answer(call, timeout_s)

    def set_backup(self, path: int, backup: bool) -> None:
        """Make a subflow a backup, or a usual one, for both directions (MP_PRIO, RFC 8684 §3.3.8).

        Args:
            path: Identifier of the path, as in reports.
            backup: Whether it carries data only while no other subflow can.

        Raises:
            OSError: If there is no such subflow, or the connection is plain TCP.

        """
        with InputErrors():
            call = self._stream.set_backup(values.path(path), backup)
        _answer(call)

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data


class Association(_Connection):
    """An association of SCTP or CMT-SCTP. Iterating returns its messages until the end."""

    def __init__(self, native: _native.Association) -> None:
        super().__init__(native)
        self._association = native

    def send(
        self,
        data: bytes | bytearray | memoryview,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        lifetime_s: float | None = None,
        retransmissions: int | None = None,
        priority: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message; wait while the send buffer is full.

        Args:
            data: The bytes, at least one.
            stream: The stream.
            ppid: Payload protocol identifier, which the peer gets with the message.
            unordered: The message may overtake others.
            lifetime_s: Age in seconds after which it is abandoned (RFC 3758).
            retransmissions: Retransmissions after which it is abandoned (RFC 7496).
            priority: It is abandoned for a message with a smaller number (RFC 7496). At most one of the three is given.
            timeout_s: Longest time to wait, in seconds; the message is not sent then.

        Raises:
            InputError: If an argument is not valid, or an earlier message named a stream that does not exist.
            OSError: If the association has ended.

        """
        limits = (lifetime_s, retransmissions, priority)
        _answer(values.send(self._association, data, (stream, ppid), unordered, limits), timeout_s)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Wait for the next message; `None` after the peer's last one.

        Args:
            timeout_s: Longest time to wait, in seconds; no message is lost then.

        Raises:
            OSError: If the association did not end in order.

        """
        with InputErrors():
            call = self._association.receive()
        return values.message(_answer(call, timeout_s))

    def set_primary(self, path: int) -> None:
        """Make a path the primary path.

        Args:
            path: Identifier of the path, as in reports.

        Raises:
            OSError: If there is no such path, or it is not active.

        """
        with InputErrors():
            call = self._association.set_primary(values.path(path))
        _answer(call)

    def add_streams(self, count: int, *, incoming: bool = False) -> bool:
        """Request further streams (RFC 6525). An event reports the outcome.

        Args:
            count: Number of further streams.
            incoming: Whether the peer sends on them.

        Returns:
            False if an end lacks the extension.

        """
        made: bool = _answer(values.change_streams(self._association, count, incoming))
        return made

    def reset_streams(self, streams: Iterable[int] | None = None, *, incoming: bool = False) -> bool:
        """Request the reset of streams (RFC 6525). An event reports the outcome.

        Args:
            streams: The streams; by default all of both directions, and the TSNs.
            incoming: Whether the peer sends on them.

        Returns:
            False if an end lacks the extension, or a stream does not exist.

        """
        made: bool = _answer(values.change_streams(self._association, streams, incoming))
        return made

    def __iter__(self) -> Iterator[Message]:
        while (message := self.receive()) is not None:
            yield message
