"""Serves one page on loopback, to the user's own browser only.

A foreign web page must not read it. Names that resolve to 127.0.0.1 have another Host header (DNS rebinding), and
requests of other pages have another Origin; both are refused. No file is served.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anabranch.errors import InputError

ADDRESS = "127.0.0.1"

_REQUEST_TIMEOUT_S = 10.0
_DEFAULT_PORT = 80
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """A server of one page on loopback.

    Args:
        html: The page.
        port: The port; 0 for any free one.

    Raises:
        InputError: If the port cannot be used.

    """

    daemon_threads = True

    def __init__(self, html: str, port: int) -> None:
        self.content = html.encode()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} of {ADDRESS} cannot be used: {error.strerror}; choose another --port"
            ) from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that has closed its connection; report a bug as usual."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def names(self) -> set[str]:
        """The values of the Host header that are accepted."""
        port = self.server_address[1]
        names = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
        return names | ({ADDRESS, "localhost"} if port == _DEFAULT_PORT else set())

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_TIMEOUT_S
    server: PageServer
    server_version = "anabranch"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing for a request."""

    def _answer(self, *, has_body: bool) -> None:
        status, text = self._refusal()
        content = self.server.content if status is HTTPStatus.OK else text.encode()
        self.send_response(status)
        kind = "text/html" if status is HTTPStatus.OK else "text/plain"
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if has_body:
            self.wfile.write(content)

    def _refusal(self) -> tuple[HTTPStatus, str]:
        """The status of the request, with the reason if it is refused."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.names:
            return HTTPStatus.FORBIDDEN, f"this server answers requests to {self.server.url} only\n"
        origins = self.headers.get_all("Origin") or []
        if any(origin not in {f"http://{name}" for name in self.server.names} for origin in origins):
            return HTTPStatus.FORBIDDEN, "this server answers no requests of other pages\n"
        if self.path != "/":
            return HTTPStatus.NOT_FOUND, "this server has one page, /\n"
        return HTTPStatus.OK, ""
