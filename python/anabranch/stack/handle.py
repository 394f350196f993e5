"""The part of connections that never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._core.simulator import InputErrors

if TYPE_CHECKING:
    from anabranch import _native


class Handle:
    """A handle of a connection: the calls that both forms of the stack have in common."""

    def __init__(self, native: _native.Stream | _native.Association) -> None:
        with InputErrors():
            self._addresses = native.addresses()
        self._handle = native

    @property
    def local(self) -> str | None:
        """Local address and port of the first path."""
        return self._addresses[0]

    @property
    def remote(self) -> str | None:
        """Remote address and port of the first path."""
        return self._addresses[1]

    def shutdown(self) -> None:
        """End writing after the unsent data. Reading continues; `ended` waits until the peer has acknowledged all."""
        with InputErrors():
            self._handle.shutdown()

    def abort(self) -> None:
        """End the connection at once (RST, MP_FASTCLOSE, ABORT). Data in flight is lost; waiting calls end."""
        with InputErrors():
            self._handle.abort()

    def close(self) -> None:
        """Release the connection; written data is still sent. If received data is unread, the connection is reset."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.local} to {self.remote})"
