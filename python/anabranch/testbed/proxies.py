"""Runs proxies on hosts of a testbed, for flows through a proxy."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch._core.program import Program
from anabranch.errors import RunFailed
from anabranch.testbed import enter, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROXY = Program(
    name="anabranch-proxy",
    override="ANABRANCH_PROXY",
    task="relays connections",
    elsewhere="the proxies run on Linux only",
    folder="proxy",
)

_START_TIMEOUT_S = 10.0
"""Time for a proxy to listen after its start on a busy machine, and to end."""

_LISTEN_STATE = "0A"
"""State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`)."""


@contextmanager
def running(proxies: Sequence[Mapping[str, Any]], places: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Run the proxies of a layout during the context.

    Args:
        proxies: The proxies.
        places: Namespaces of the hosts, by host.
        folder: Folder for their settings and logs; it is made, and removed at the end.

    Raises:
        InputError: If the program is not installed.
        RunFailed: If a proxy does not listen in time or ends early.

    """
    if not proxies:
        yield
        return
    by_host: dict[str, list[Mapping[str, Any]]] = {}
    for proxy in proxies:
        by_host.setdefault(proxy["host"], []).append(proxy)
    folder.mkdir(mode=0o700)
    started: list[_Running] = []
    try:
        for number, (host, own) in enumerate(by_host.items()):
            started.append(_Running(host, places[host], own, folder / str(number)))
        for process in started:
            process.wait_until_it_listens()
        yield
        for process in started:
            process.check()
    finally:
        for process in started:
            process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def settings(proxies: Sequence[Mapping[str, Any]]) -> str:
    """The settings file of a program that runs these proxies.

    Each proxy sends the client's address in a header (PROXY protocol). By this header, the receiving host distinguishes
    connections of a flow from the proxy's own probes.
    """
    tables = (
        f'[[reverse]]\nname = "{proxy["listen"]}"\nlisten = ["{proxy["listen"]}"]\nto = ["{proxy["to"]}"]\n'
        'proxy_protocol = "v1"\n'
        for proxy in proxies
    )
    return "\n".join(tables)


class _Running:
    """A proxy's process on a host."""

    def __init__(self, host: str, namespace: str, proxies: Sequence[Mapping[str, Any]], stem: Path) -> None:
        self._host = host
        self._keeper = namespaces.FOLDER / namespace
        self._ports = {int(proxy["listen"].rpartition(":")[2]) for proxy in proxies}
        file = stem.with_suffix(".toml")
        file.write_text(settings(proxies), encoding="utf-8")
        self._log = stem.with_suffix(".log")
        command = [str(PROXY.path()), "reverse", "--config", str(file)]
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                enter.arguments(namespace, {}, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._ports <= self._listening():
            self.check()
            if time.monotonic() > deadline:
                raise RunFailed(f'the proxy on host "{self._host}" does not listen after {_START_TIMEOUT_S:g} s')
            time.sleep(0.01)

    def check(self) -> None:
        """Raise RunFailed with the last line of the log if the process has ended."""
        if self._process.poll() is not None:
            log = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
            raise RunFailed(f'the proxy on host "{self._host}" has ended; the last line of its log: {log[-1]}')

    def stop(self) -> None:
        # With SIGTERM the proxy would wait for open connections, which do not end any more.
        self._process.kill()
        self._process.wait(_START_TIMEOUT_S)

    def _listening(self) -> set[int]:
        """The listening ports in the process's namespace; empty before the process has entered it."""
        found = set()
        process = Path(f"/proc/{self._process.pid}")
        for name in ("tcp", "tcp6"):
            try:
                # Before the process has entered its namespace, the file lists the machine's own sockets.
                if (process / "ns" / "net").stat().st_ino != self._keeper.stat().st_ino:
                    break
                lines = (process / "net" / name).read_text(encoding="ascii").splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                _, local, _, state, *_ = line.split()
                if state == _LISTEN_STATE:
                    found.add(int(local.rpartition(":")[2], 16))
        return found
