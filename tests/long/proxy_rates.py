"""Compares the rates of proxies over loopback, one after another in each round.

`python tests/long/proxy_rates.py ROUNDS SECONDS NAME=PROGRAM…` runs `socks` and `reverse` of each program
`anabranch-proxy`, and HAProxy if it is installed, with the same buffer of 128 KiB. Prints the median
rates per second of wall-clock time and per second of processor time. The latter does not depend on other programs.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from anabranch.stats import estimate

BUFFER_BYTES = 128 << 10
CHUNK = bytes(1 << 20)
START_TIMEOUT_S = 60.0
HAPROXY = """
global
  nbthread 2
  tune.bufsize {buffer}
defaults
  mode tcp
  timeout connect 10s
  timeout client 60s
  timeout server 60s
listen rates
  bind 127.0.0.1:{listen}
  server one 127.0.0.1:{to}
"""


def free_port() -> int:
    """A free TCP port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """Reads a stream that begins with `u`, and writes to one that begins with `d`, until the client ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            stream, _ = self._listener.accept()
            threading.Thread(target=self._carry, args=(stream,), daemon=True).start()

    @staticmethod
    def _carry(stream: socket.socket) -> None:
        space = bytearray(len(CHUNK))
        with suppress(OSError), stream:
            if stream.recv(1) == b"d":
                while True:
                    stream.sendall(CHUNK)
            total = 0
            while count := stream.recv_into(space):
                total += count
            stream.sendall(struct.pack("!Q", total))


def processor_s(process: int) -> float:
    """Processor time of a process, seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect(port: int, kind: str, server: int) -> socket.socket:
    """A connection to the server through a proxy."""
    stream = socket.create_connection(("127.0.0.1", port))
    if kind == "socks":
        stream.sendall(b"\x05\x01\x00\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack("!H", server))
        answer = b""
        while len(answer) < 12:
            answer += stream.recv(12 - len(answer))
    return stream


def carry(port: int, kind: str, server: int, seconds: float, *, up: bool) -> float:
    """Bits that were carried in this time."""
    with connect(port, kind, server) as stream:
        stream.sendall(b"u" if up else b"d")
        end = time.monotonic() + seconds
        if up:
            while time.monotonic() < end:
                stream.sendall(CHUNK)
            stream.shutdown(socket.SHUT_WR)
            return 8.0 * float(struct.unpack("!Q", stream.recv(8, socket.MSG_WAITALL))[0])
        total, space = 0, bytearray(len(CHUNK))
        while time.monotonic() < end:
            total += stream.recv_into(space)
        return 8.0 * total


def start(program: str, kind: str, server: int, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A proxy and its port."""
    port = free_port()
    file = folder / f"{kind}.conf"
    if kind == "haproxy":
        file.write_text(HAPROXY.format(buffer=BUFFER_BYTES, listen=port, to=server), encoding="utf-8")
        command = [program, "-db", "-f", str(file)]
    elif kind == "socks":
        file.write_text(f'[socks]\nlisten = ["127.0.0.1:{port}"]\nallow = ["127.0.0.0/8"]\n', encoding="utf-8")
        command = [program, "socks", "--config", str(file)]
    else:
        text = f'[[reverse]]\nname = "rates"\nlisten = ["127.0.0.1:{port}"]\nto = ["127.0.0.1:{server}"]\n'
        file.write_text(text, encoding="utf-8")
        command = [program, "reverse", "--config", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        assert process.poll() is None, f"{program} {kind} has ended"
        assert time.monotonic() < deadline, f"{program} {kind} does not listen"
        time.sleep(0.05)


def main(rounds: int, seconds: float, programs: list[str]) -> None:
    """Measure and print a table."""
    server = Server()
    asked = [(*each.split("=", 1), kind) for each in programs for kind in ("socks", "reverse")]
    haproxy = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if haproxy is not None:
        version = subprocess.run([haproxy, "-v"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"version (\S+)", version)
        asked.append((f"HAProxy {found[1] if found else ''}", haproxy, "haproxy"))
    by_clock: dict[tuple[str, str], list[float]] = defaultdict(list)
    by_processor: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, program, kind in asked if number % 2 == 0 else asked[::-1]:
                process, port = start(program, kind, server.port, Path(folder))
                for up in (True, False):
                    before_s, begun_s = processor_s(process.pid), time.monotonic()
                    bits = carry(port, kind, server.port, seconds, up=up)
                    key = f"{name} {kind}".removesuffix(" haproxy"), "up" if up else "down"
                    by_clock[key].append(bits / (time.monotonic() - begun_s) / 1e9)
                    # A clock tick is the least that the kernel shows.
                    used_s = max(processor_s(process.pid) - before_s, 1.0 / os.sysconf("SC_CLK_TCK"))
                    by_processor[key].append(bits / used_s / 1e9)
                process.terminate()
                process.wait()
    print("| proxy | way | Gbit/s | Gbit per second of processor time | of the first program's, by rounds |")
    print("|---|---|---|---|---|")
    for (name, way), rates in by_clock.items():
        of = by_processor[name, way]
        first = by_processor.get((f"{programs[0].partition('=')[0]} {name.rpartition(' ')[2]}", way), of)
        shown = ""
        if first is not of:
            ratio = estimate([ours / theirs for ours, theirs in zip(of, first, strict=True)], "median")
            shown = f"{ratio.centre:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        print(f"| {name} | {way} | {statistics.median(rates):.2f} | {statistics.median(of):.2f} | {shown} |")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
