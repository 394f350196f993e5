"""Multipath TCP connections that open and close on the loopback interface, with a congestion control if it is loaded.

Run in a separate network namespace: `python controls_under_traffic.py CONTROL`. Ends at the end of its input and
prints how many connections ended as expected and how many subflows joined. Errors go to standard error.

"""

from __future__ import annotations

import faulthandler
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

_TIMEOUT_S = 20.0
_BYTES = 400_000
_MPTCP = 262
_TCP_CONGESTION = 13
_SERVER = ("10.9.0.1", 5001)


def prepare() -> None:
    """Give the loopback interface addresses between which subflows join.

    Each connection leaves its ports in TIME-WAIT for a minute, and an address has 28,000: at 500 connections a second
    they would be used up. So at most 4,000 of them wait here.

    """
    Path("/proc/sys/net/ipv4/tcp_max_tw_buckets").write_text("4000", encoding="ascii")
    for command in (
        "ip link set lo up",
        "ip addr add 10.9.0.1/24 dev lo",
        "ip addr add 10.9.0.2/24 dev lo",
        "ip addr add 10.9.0.3/24 dev lo",
        "ip mptcp limits set subflow 4 add_addr_accepted 4",
        "ip mptcp endpoint add 10.9.0.2 dev lo subflow",
        "ip mptcp endpoint add 10.9.0.3 dev lo subflow",
    ):
        subprocess.run(command.split(), check=True)


def serve(server: socket.socket) -> None:
    """Accept connections, read their data, and answer with its length."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_read, args=(connection,), daemon=True).start()


def _read(connection: socket.socket) -> None:
    length = 0
    # The peer resets every third connection.
    with connection, suppress(OSError):
        while data := connection.recv(65_536):
            length += len(data)
        connection.sendall(length.to_bytes(8, "big"))


def talk(control: str, over: threading.Event, ended: list[int]) -> None:
    """Connect, send and read the confirmed length in a loop; every third connection is reset in the middle."""
    turn = 0
    while not over.is_set():
        turn += 1
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, _MPTCP) as client:
            client.settimeout(_TIMEOUT_S)
            client.connect(_SERVER)
            # Another process may have unloaded the control.
            with suppress(OSError):
                client.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, control.encode())
            if turn % 3 == 0:
                client.sendall(bytes(_BYTES // 4))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, (1).to_bytes(4, "little") + bytes(4))
                continue
            for _ in range(4):
                client.sendall(bytes(_BYTES // 4))
                time.sleep(0.002)
            client.shutdown(socket.SHUT_WR)
            if int.from_bytes(client.recv(8), "big") != _BYTES:
                raise RuntimeError("not all has come")
            ended.append(1)


def main() -> None:
    prepare()
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, _MPTCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(_SERVER)
    server.listen(64)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    over, ended = threading.Event(), list[int]()
    failed: list[str] = []

    def note(caught: threading.ExceptHookArgs) -> None:
        failed.append(f"after {len(ended)} connections: {''.join(traceback.format_exception(caught.exc_value))}")

    threading.excepthook = note
    talkers = [threading.Thread(target=talk, args=(sys.argv[1], over, ended)) for _ in range(4)]
    for talker in talkers:
        talker.start()
    print("ready", flush=True)
    sys.stdin.read()
    over.set()
    for talker in talkers:
        talker.join(2 * _TIMEOUT_S)
    joins = next((int(line.split()[1]) for line in _counters() if line.startswith("MPTcpExtMPJoinSynAckRx")), 0)
    print(len(ended), joins, flush=True)
    for text in failed:
        print(text, file=sys.stderr)
    stuck = [talker.name for talker in talkers if talker.is_alive()]
    if stuck:
        print(f"{', '.join(stuck)} did not end:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
    sys.stderr.flush()
    os._exit(1 if failed or stuck else 0)


def _counters() -> list[str]:
    lines = Path("/proc/net/netstat").read_text(encoding="ascii").splitlines()
    found = []
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind, _, rest = names.partition(": ")
        found += [f"{kind}{name} {value}" for name, value in zip(rest.split(), values.split()[1:], strict=True)]
    return found


if __name__ == "__main__":
    main()
