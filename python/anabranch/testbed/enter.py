"""Runs a program on a host of a testbed: in its network namespace, with the names of all hosts in /etc/hosts.

This is a separate program because a process cannot leave a mount namespace it has entered.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

from anabranch.testbed import namespaces

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_HOSTS = Path("/etc/hosts")
_NOT_FOUND = 127


def arguments(namespace: str, hosts: dict[str, str], command: list[str]) -> list[str]:
    """The command line that runs a command in a namespace, with addresses by the names of hosts."""
    return [sys.executable, "-m", "anabranch.testbed.enter", namespace, json.dumps(hosts), *command]


def main() -> None:
    """Enter the namespace and replace this process by the command."""
    _, namespace, hosts, *command = sys.argv
    namespaces.enter(namespace)
    _name_hosts(json.loads(hosts))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"anabranch: {command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        sys.exit(_NOT_FOUND)


def _name_hosts(hosts: dict[str, str]) -> None:
    """Mount a file with the hosts' names over /etc/hosts, for this process and its children."""
    if not _HOSTS.exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(_HOSTS))

    check(libc.unshare(_CLONE_NEWNS))
    # Mounts of this namespace must not propagate to the machine.
    check(libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))
    names = "".join(f"{address} {host}\n" for host, address in hosts.items())
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(f"127.0.0.1 localhost\n::1 localhost\n{names}")
        file.flush()
        Path(file.name).chmod(0o644)
        check(libc.mount(file.name.encode(), str(_HOSTS).encode(), None, _MS_BIND, None))


if __name__ == "__main__":
    main()
