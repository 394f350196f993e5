"""Proxies on hosts of a testbed, for flows whose connection ends there."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import RunFailed
from anabranch.program import Program
from anabranch.testbed import enter, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROXY = Program(
    name="anabranch-proxy",
    override="ANABRANCH_PROXY",
    task="relays connections",
    elsewhere="the proxies are Linux's",
    folder="proxy",
)

_PATIENCE_S = 10.0
"""How long a proxy may take to begin, on a busy machine, and to end."""

_LISTENS = "0A"
"""The state of a socket that listens, in `/proc/net/tcp` (`TCP_LISTEN`)."""


@contextmanager
def running(proxies: Sequence[Mapping[str, Any]], places: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Have these proxies of a layout run meanwhile.

    Args:
        proxies: The proxies.
        places: The namespaces of hosts.
        folder: Where their settings and what they say are kept meanwhile. Is made, and removed at the end.

    Raises:
        InputError: If the program is not installed.
        RunFailed: If one of them does not begin, or ends before its time.

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
    """The file of a program that is these proxies.

    Each says in a header who its client is (the PROXY protocol): by that the receiving host tells a flow from the proxy
    itself, which connects as well to see whether it is there.
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
        deadline = time.monotonic() + _PATIENCE_S
        while not self._ports <= self._listening():
            self.check()
            if time.monotonic() > deadline:
                raise RunFailed(f'the proxy on host "{self._host}" does not listen after {_PATIENCE_S:g} s')
            time.sleep(0.01)

    def check(self) -> None:
        """Raise RunFailed if it has ended, with what it said last."""
        if self._process.poll() is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
            raise RunFailed(f'the proxy on host "{self._host}" has ended; it said: {said[-1]}')

    def stop(self) -> None:
        # It has nothing to lose, and with SIGTERM it would wait for connections that nobody ends any more.
        self._process.kill()
        self._process.wait(_PATIENCE_S)

    def _listening(self) -> set[int]:
        """The ports that listen in its namespace, once it is there."""
        found = set()
        process = Path(f"/proc/{self._process.pid}")
        for name in ("tcp", "tcp6"):
            try:
                # Before it has entered its namespace it sees what listens on the machine itself.
                if (process / "ns" / "net").stat().st_ino != self._keeper.stat().st_ino:
                    break
                lines = (process / "net" / name).read_text(encoding="ascii").splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                _, local, _, state, *_ = line.split()
                if state == _LISTENS:
                    found.add(int(local.rpartition(":")[2], 16))
        return found
