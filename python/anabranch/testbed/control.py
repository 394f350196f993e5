"""Changes of a testbed's links while it is up: a socket of the process that owns the testbed, and its callers.

The folder of the sockets belongs to root alone. Callers are served one after another: the server greets a caller, reads
one line with a request, and answers with one line.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_GREETING = b"ready\n"
_MAX_LINE_BYTES = 1 << 20
_TURN_TIMEOUT_S = 1.0
"""Time for which a caller waits for its turn."""
_READ_TIMEOUT_S = 0.4
"""Time for which the server waits for the request of a caller, below the time for which the next one waits."""
_ANSWER_TIMEOUT_S = 10.0
_POLL_S = 0.2


class Server:
    """Serves the socket of a testbed in a thread.

    Args:
        path: The socket.
        handle: Called with each request; returns the answer.

    """

    def __init__(self, path: Path, handle: Callable[[Mapping[str, Any]], Any]) -> None:
        self._path = path
        self._handle = handle
        self._over = threading.Event()
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(path))
            path.chmod(0o600)
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(_POLL_S)
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving callers, and remove the socket."""
        self._over.set()
        self._thread.join()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                caller, _ = self._socket.accept()
            except TimeoutError:
                continue
            # Ignore errors: the caller has disconnected, or sends nothing.
            with caller, suppress(OSError):
                self._answer(caller)

    def _answer(self, caller: socket.socket) -> None:
        caller.settimeout(_READ_TIMEOUT_S)
        caller.sendall(_GREETING)
        try:
            request = json.loads(_line(caller))
            if not isinstance(request, dict):
                raise ValueError("not a table")
            answer = {"result": self._handle(request)}
        except InputError as error:
            answer = {"input": str(error)}
        except RunFailed as error:
            answer = {"failure": str(error)}
        except ValueError as error:
            answer = {"input": f"the request is not JSON: {error}"}
        caller.sendall(json.dumps(answer).encode() + b"\n")


def call(path: Path, request: Mapping[str, object]) -> Any:
    """Send a request to the socket of a testbed and return the answer.

    Raises:
        InputError: If the request is invalid, or the socket belongs to another user.
        RunFailed: If the testbed does not answer.

    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.settimeout(_TURN_TIMEOUT_S)
        try:
            server.connect(str(path))
            greeting = _line(server)
        except PermissionError:
            raise InputError("this testbed belongs to another user; run it as that user") from None
        except TimeoutError:
            raise RunFailed(
                f"another caller changes this testbed for more than {_TURN_TIMEOUT_S:g} s; try again later"
            ) from None
        except OSError as error:
            raise RunFailed(f"the testbed does not answer at {path}: {error.strerror}") from None
        if greeting != _GREETING:
            raise RunFailed(f"the testbed does not answer at {path}")
        server.settimeout(_ANSWER_TIMEOUT_S)
        try:
            server.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(server))
        except (OSError, ValueError):
            raise RunFailed(f"the testbed at {path} has ended during the call") from None
    if "input" in answer:
        raise InputError(answer["input"])
    if "failure" in answer:
        raise RunFailed(answer["failure"])
    return answer["result"]


def _line(connection: socket.socket) -> bytes:
    """Receive a line, or the bytes before the end."""
    received = b""
    while not received.endswith(b"\n") and len(received) < _MAX_LINE_BYTES:
        part = connection.recv(65_536)
        if not part:
            break
        received += part
    return received
