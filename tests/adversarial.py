"""Sends hostile messages to a service of this machine, and reports the longest wait of an honest client as JSON.

`python adversarial.py SERVICE MESSAGES -- COMMAND…`, in a new network namespace: mutated requests name any address.
COMMAND starts the service and prints the port where it listens. MESSAGES go to it one per connection, from random
addresses of loopback: valid messages with changed, missing and added bytes, and random bytes. Half of the connections
end with the message, the others stay open until the next group.
"""

from __future__ import annotations

import json
import random
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 24
GROUP_S = 0.02
PROGRESS_GROUPS = 1000
PROBE_INTERVAL_S = 0.2
START_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 60.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
HONEST = "127.200.0.1"

SCENARIO = """title = "t"
duration = "100 ms"
[[link]]
between = ["client", "server"]
rate = "1 Gbit/s"
[[flow]]
name = "f"
from = "server"
to = "client"
protocol = "tcp"
workload = { kind = "saturated" }
"""
HELLO = b'{"hello":{"protocol":4,"version":"0.1.0","boot":""}}\n'
PLAN = json.dumps({"plan": {"cookie": 7, "plan": {
    "scenario": SCENARIO, "interval_s": 1.0, "keep_delays": False,
}}}).encode() + b"\n"  # fmt: skip
GET = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LOOPBACK = bytes(10) + b"\xff\xff" + socket.inet_aton("127.0.0.1")
CONNECT = b"\x01\x06\x22\x63\x0a\x05%s" + LOOPBACK
SERVER_PORT = 9009
"""Port of the server that the honest client requests; a configuration may name it."""
VALID = {
    "meter": [HELLO, HELLO + PLAN, HELLO + PLAN + b'{"go":{"zero_ns":0}}\n', b'{"done":{"early":true}}\n', b"[" * 5000],
    "socks": [
        b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x09",
        b"\x05\x01\x00\x05\x01\x00\x03\x09localhost\x00\x09hello",
        b"\x05\x01\x00\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x09",
        b"\x05\x02\x00\x02\x01\x05alice\x06secret",
    ],
    "convert": [
        CONNECT % struct.pack("!H", 9),
        CONNECT % struct.pack("!H", SERVER_PORT) + b"hello",
        b"\x01\x02\x22\x63\x01\x01\0\0",
        b"\x01\x09\x22\x63\x16\x03\0\0" + bytes(8) + (CONNECT % b"\0\x09")[4:],
        b"\x01\x07\x22\x63\x0a\x06\0\x09" + LOOPBACK + b"\x1e\x04\x01\x02",
        b"\x01\xff\x22\x63" + b"\x63\x02\0\0\0\0\0\0" * 127,
    ],
    "reverse": [
        GET % b"",
        GET % (b"x" * 9000),
        b"PROXY TCP4 127.0.0.1 127.0.0.1 9 9\r\n" + GET % b"",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(508),
    ],
    "watch": [GET % b"", GET % b"metrics", GET % (b"x" * 9000), b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"],
}


def message(draw: random.Random, valid: list[bytes]) -> bytes:
    """A valid message with some damage, or random bytes."""
    if draw.random() < 0.1:
        return draw.randbytes(draw.randrange(1, 2000))
    found = bytearray(draw.choice(valid))
    for _ in range(draw.randrange(4)):
        found[draw.randrange(len(found))] = draw.choice((0, 1, 255, 34, draw.randrange(256)))
    match draw.randrange(4):
        case 0:
            return bytes(found[: draw.randrange(1, len(found) + 1)])
        case 1:
            at = draw.randrange(len(found))
            return bytes(found[:at] + draw.randbytes(draw.randrange(1, 300)) + found[at:])
        case _:
            return bytes(found)


def attack(draw: random.Random, port: int, valid: list[bytes], count: int) -> None:
    """Send a group of messages, and reset the connections that the service has not ended in time."""
    group = []
    for _ in range(count):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        each.bind((f"127.{draw.randrange(1, 199)}.{draw.randrange(256)}.{draw.randrange(1, 255)}", 0))
        with suppress(OSError):
            each.connect(("127.0.0.1", port))
            each.setblocking(False)
            each.send(message(draw, valid))
            if draw.random() < 0.5:
                each.shutdown(socket.SHUT_WR)
        group.append(each)
    poller = select.poll()
    for each in group:
        poller.register(each, select.POLLIN)
    end = time.monotonic() + GROUP_S
    waiting = {each.fileno() for each in group}
    while waiting and (left := end - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(1000.0 * left):
            poller.unregister(descriptor)
            waiting.discard(descriptor)
    for each in group:
        each.close()


def connect(port: int) -> socket.socket:
    """A connection of the honest client."""
    return socket.create_connection(("127.0.0.1", port), PROBE_TIMEOUT_S, (HONEST, 0))


def ask_meter(port: int) -> bool:
    """Whether the meter is ready for a test."""
    with connect(port) as stream, stream.makefile("rwb") as lines:
        for sent in (HELLO, PLAN):
            lines.write(sent)
            lines.flush()
            answer = lines.readline()
        return answer.startswith(b'{"ready"')


def ask_socks(port: int, server: tuple[str, int]) -> bool:
    """Whether the proxy carries bytes to a server and back."""
    with connect(port) as stream:
        host, number = server
        stream.sendall(b"\x05\x01\x00\x05\x01\x00\x01" + socket.inet_aton(host) + struct.pack("!H", number) + b"hello")
        with stream.makefile("rb") as received:
            answer = received.read(17)
    return answer[:4] == b"\x05\x00\x05\x00" and answer[-5:] == b"hello"


def ask_convert(port: int, server: tuple[str, int]) -> bool:
    """Whether the converter carries bytes to a server and back."""
    with connect(port) as stream:
        stream.sendall(CONNECT % struct.pack("!H", server[1]) + b"hello")
        with stream.makefile("rb") as received:
            head = received.read(4)
            answer = received.read(4 * head[1] - 4)
            return answer[:1] == b"\x14" and received.read(5) == b"hello"


def ask_reverse(port: int) -> bool:
    """Whether the reverse proxy carries bytes to its server and back."""
    with connect(port) as stream, stream.makefile("rb") as received:
        stream.sendall(b"hello")
        return received.read(5) == b"hello"


def ask_watch(port: int) -> bool:
    """Whether the status page answers."""
    with connect(port) as stream:
        stream.sendall(GET % b"metrics")
        return stream.recv(64).startswith(b"HTTP/1.1 200")


def echo() -> tuple[str, int]:
    """The address of a server that returns the first data of each connection and keeps silent connections open."""
    listener = socket.create_server(("127.0.0.1", SERVER_PORT), backlog=512)

    def answer(stream: socket.socket) -> None:
        with suppress(OSError), stream:
            stream.settimeout(1.0)
            stream.sendall(stream.recv(64))

    def serve() -> None:
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=answer, args=(stream,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    host, port = listener.getsockname()
    return host, port


@dataclass
class Honest(threading.Thread):
    """Repeats requests to the service and records their durations; a refusal counts as waiting."""

    ask: Callable[[], bool]
    waits_s: list[float] = field(default_factory=list)
    is_stopped: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Ask until `is_stopped`."""
        while not self.is_stopped:
            begun_s = time.monotonic()
            while not self._is_answered() and time.monotonic() - begun_s < PROBE_TIMEOUT_S:
                time.sleep(0.02)
            self.waits_s.append(time.monotonic() - begun_s)
            time.sleep(PROBE_INTERVAL_S)

    def _is_answered(self) -> bool:
        with suppress(OSError):
            return self.ask()
        return False


def memory_bytes(process: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1]) * 4096


def started(command: list[str], service: str) -> tuple[subprocess.Popen[str], int]:
    """The service and its port, from the line that names it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    pattern = {"meter": r"waiting at .*:(\d+)", "watch": r"page at .*:(\d+)/"}
    found = None
    while found is None:
        line = process.stdout.readline()
        assert line, "the service does not start"
        found = re.search(pattern.get(service, r"listening on .*:(\d+)"), line)
    lines = process.stdout

    def discard() -> None:
        for _ in lines:
            pass

    threading.Thread(target=discard, daemon=True).start()
    return process, int(found[1])


def measured(service: str, messages: int, command: list[str]) -> dict[str, Any]:
    """Attack a service and return the waits of the honest client, and the memory before and after."""
    server = echo()
    process, port = started(command, service)
    ask: Callable[[int], bool] = {
        "convert": lambda at: ask_convert(at, server), "meter": ask_meter, "reverse": ask_reverse,
        "socks": lambda at: ask_socks(at, server), "watch": ask_watch,
    }[service]  # fmt: skip
    honest = Honest(lambda: ask(port))
    draw, left = random.Random(1), messages
    try:
        # Serve some clients before memory is measured first, so that their threads, buffers and tables exist.
        for _ in range(8):
            attack(draw, port, VALID[service], GROUP)
        before = memory_bytes(process.pid)
        honest.start()
        most, begun_s = before, time.monotonic()
        while left > 0:
            attack(draw, port, VALID[service], min(GROUP, left))
            left -= GROUP
            most = max(most, memory_bytes(process.pid))
            if left // GROUP % PROGRESS_GROUPS == 0:
                waited_s = max(honest.waits_s, default=0.0)
                print(f"{left} left, longest wait {waited_s:.3f} s, {most} B", file=sys.stderr, flush=True)
        honest.is_stopped = True
        honest.join(2.0 * PROBE_TIMEOUT_S)
        assert process.poll() is None, "the service has ended"
    finally:
        process.terminate()
        process.wait()
    waits = sorted(honest.waits_s)
    return {
        "messages": messages, "seconds": time.monotonic() - begun_s, "probes": len(waits), "longest_s": waits[-1],
        "median_s": waits[len(waits) // 2], "before_bytes": before, "most_bytes": most,
    }  # fmt: skip


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), sys.argv[4:])))
