"""The stack of user space from Python: over UDP on the loopback interface, and over TUN interfaces in a namespace."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch._core.states import ConnectionReport, PathReport
from anabranch.errors import InputError
from anabranch.stack import Association, Listener, Stack, Tun, aio
from command import interrupted
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/how-to/python-stack.md"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stack needs Linux")

LIMIT_S = 60
"""Longest time to wait for an answer."""


def addresses(test: int, end: int) -> list[str]:
    """Two loopback addresses of a test's end; each test has others."""
    return [f"127.116.{test}.{2 * end + 1}", f"127.116.{test}.{2 * end + 2}"]


@contextmanager
def pair(test: int, **settings: Any) -> Iterator[tuple[Stack, Stack, Listener, Association, Association]]:
    """Two hosts, the listener of the second, and both ends of an association."""
    with ExitStack() as stack:
        client, server = (stack.enter_context(Stack(udp=addresses(test, end))) for end in (0, 1))
        listener = server.listen(7, settings=settings)
        here = client.associate(addresses(test, 1), 7, settings=settings, timeout_s=LIMIT_S)
        yield client, server, listener, here, listener.accept_association(LIMIT_S)


def next_event(end: Association, name: str) -> dict[str, Any]:
    """The association's next event of this name; events of other names before it are dropped."""
    while (event := end.event(LIMIT_S)) is not None:
        if event["event"] == name:
            return event
    raise AssertionError(name)


def run_async(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), LIMIT_S))


def examples() -> list[tuple[str, str]]:
    """The examples of the page, and their outputs."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)


def test_examples_print_their_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    for code, output in examples():
        if output:
            exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
            assert capsys.readouterr().out == output


def test_messages_keep_their_attributes() -> None:
    with pair(1, streams=3) as (_, _, _, here, there):
        here.send(b"a", stream=2, ppid=77)
        here.send(bytearray(b"b"), unordered=True, lifetime_s=30)
        here.send(memoryview(b"c"), retransmissions=4)
        seen = {message.data: message for message in (there.receive(LIMIT_S) for _ in range(3)) if message}
        assert (seen[b"a"].stream, seen[b"a"].ppid, seen[b"a"].unordered) == (2, 77, False)
        assert seen[b"b"].unordered
        assert not any(message.more or message.aborted for message in seen.values())
        here.shutdown()
        assert there.receive(LIMIT_S) is None
        assert (here.ended(LIMIT_S), there.ended(LIMIT_S)) == ("closed", "closed")


def test_large_transfer_uses_both_paths_and_threads() -> None:
    parts = [bytes([number % 251]) * 30_000 for number in range(100)]
    with pair(2) as (client, _, _, here, there):

        def send() -> None:
            for part in parts:
                here.send(part, timeout_s=LIMIT_S)
            here.shutdown()

        thread = threading.Thread(target=send)
        thread.start()
        assert [message.data for message in there] == parts
        thread.join()
        assert here.ended(LIMIT_S) == "closed"
        report = here.report()
        assert report["acknowledged_bytes"] == sum(map(len, parts))
        assert all(path["sent_bytes"] > 10_000 for path in report["paths"])
        assert client.reports() == []


def test_waiting_call_lets_other_threads_run() -> None:
    with pair(3) as (_, _, _, here, there):
        received: list[bytes] = []

        def receive() -> None:
            message = there.receive(LIMIT_S)
            received.append(message.data if message else b"")

        thread = threading.Thread(target=receive)
        thread.start()
        # The other thread waits, or will wait, and this one goes on.
        here.send(b"now")
        thread.join()
        assert received == [b"now"]


def test_timeout_loses_no_message() -> None:
    with pair(4) as (_, _, listener, here, there):
        for _ in range(20):
            with pytest.raises(TimeoutError, match="the call has timed out"):
                there.receive(0.001)
            with pytest.raises(TimeoutError):
                listener.accept_association(0)
        here.send(b"late")
        message = there.receive(LIMIT_S)
        assert message is not None
        assert message.data == b"late"


def test_sender_waits_for_a_receiver_that_does_not_receive() -> None:
    with pair(5, send_buffer="100 kB", receive_buffer="100 kB") as (_, _, _, here, there):
        sent = 0
        for _ in range(100):
            try:
                here.send(bytes(50_000), timeout_s=0.3)
            except TimeoutError:
                break
            sent += 1
        # Two queues of 256 KiB between stacks and handles, the send buffer and the receive buffer.
        assert 4 <= sent <= 20
        # A message that fills the receive buffer arrives in parts.
        left = sent * 50_000
        while left:
            message = there.receive(LIMIT_S)
            assert message is not None
            left -= len(message.data)


def test_failures_are_those_of_sockets() -> None:
    with pair(6) as (client, server, listener, here, there):
        with pytest.raises(ConnectionRefusedError, match="the peer refused the connection"):
            client.associate(addresses(6, 1), 9, timeout_s=LIMIT_S)
        with pytest.raises(OSError, match="port 7 is in use"):
            server.listen(7)
        with pytest.raises(OSError, match=r"cannot use UDP at 127\.116\.6\.1:9899: .*; choose another UDP port"):
            Stack(udp=addresses(6, 0))
        there.abort()
        with pytest.raises(ConnectionResetError, match="the peer reset the connection"):
            here.receive(LIMIT_S)
        assert (here.ended(LIMIT_S), there.ended(LIMIT_S)) == ("reset", "aborted")
        with pytest.raises(ConnectionResetError):
            here.send(b"x")
        client.stop(LIMIT_S)
        with pytest.raises(OSError, match="the stack has stopped"):
            client.associate(addresses(6, 1), 7)
        with pytest.raises(OSError, match="the stack has stopped"):
            client.stop()
        listener.close()
        with pytest.raises(InputError, match="it was closed"):
            listener.accept_association()


def test_write_after_shutdown_is_a_broken_pipe() -> None:
    with pair(7) as (_, _, _, here, _):
        here.shutdown()
        with pytest.raises(BrokenPipeError):
            here.send(b"x")


def test_message_on_a_missing_stream_is_refused_later() -> None:
    with pair(8) as (_, _, _, here, there):
        here.send(b"lost", stream=5)
        assert next_event(here, "no_such_stream") == {"event": "no_such_stream", "stream": 5, "streams": 1}
        with pytest.raises(InputError, match="stream 5 does not exist: the association has 1 outgoing streams"):
            here.send(b"refused")
        here.send(b"sent")
        message = there.receive(LIMIT_S)
        assert message is not None
        assert message.data == b"sent"


def test_streams_are_added_and_reset() -> None:
    with pair(9) as (_, _, _, here, there):
        assert here.add_streams(3)
        assert next_event(here, "streams_added")["streams"] == 4
        here.send(b"on the fourth", stream=3)
        message = there.receive(LIMIT_S)
        assert message is not None
        assert message.stream == 3
        assert here.reset_streams([3])
        assert next_event(here, "stream_reset") == {"event": "stream_reset", "incoming": False, "stream": 3}
        assert not here.reset_streams([9])


MISTAKES: list[tuple[str, Callable[[Stack, Association], object]]] = [
    ("port must be a whole number from 1 to 65535, not 70000", lambda host, _: host.listen(70_000)),
    ('protocol is "cmt-stcp"; did you mean "cmt-sctp"?', lambda host, _: host.listen(9, "cmt-stcp")),
    ("UDP carries SCTP only; use a TUN interface for tcp", lambda host, _: host.listen(9, "tcp")),
    ('connect needs the protocol "tcp" or "mptcp", not \'sctp\'', lambda host, _: host.connect("127.0.0.1", 9, "sctp")),
    ('"localhost" is not an IPv4 or IPv6 address', lambda host, _: host.associate("localhost", 9)),
    ("the peer has no address; name at least one", lambda host, _: host.associate([], 9)),
    ('setting "congestion": ', lambda host, _: host.listen(9, settings={"congestion": "rno"})),
    ('setting "streams" must be a text, a number or', lambda host, _: host.listen(9, settings={"streams": [1]})),  # type: ignore[dict-item]
    ("the key of a setting must be a text, not 5", lambda host, _: host.listen(9, settings={5: "x"})),  # type: ignore[dict-item]
    ("a message needs at least one byte", lambda _, here: here.send(b"")),
    ("stream must be a whole number from 0 to 65535", lambda _, here: here.send(b"x", stream=-1)),
    ("lifetime_s, retransmissions and priority exclude", lambda _, here: here.send(b"x", lifetime_s=1, priority=1)),
    ("lifetime_s must be a number of seconds from 0 on", lambda _, here: here.send(b"x", lifetime_s=float("nan"))),
    ("a timeout must be a number of seconds from 0 on", lambda _, here: here.receive(-1)),
    ("path must be a whole number from 0 to 255", lambda _, here: here.set_primary(256)),
    ("no device has the address", lambda host, _: host.remove_address("127.9.9.9")),
    ("a stack needs either tun or udp", lambda *_: Stack()),
    ('udp is a list of addresses; write ["127.0.0.1"]', lambda *_: Stack(udp="127.0.0.1")),
    ("mtu must be a whole number from 1280 to 65535", lambda *_: Stack(udp=["127.0.0.1"], mtu=100)),
    ('interface "t" has the addresses "10.0.0.1"', lambda *_: Stack(tun=[Tun("t", "10.0.0.1", "10.0.0.2")])),
    ("cannot write /no/such/x: ", lambda *_: Stack(udp=["127.116.10.9"], pcap="/no/such/x")),
]


def test_mistakes_are_one_sentence() -> None:
    with pair(10) as (client, _, _, here, there):
        for expected, call in MISTAKES:
            with pytest.raises(InputError, match=re.escape(expected)) as caught:
                call(client, here)
            assert "\n" not in str(caught.value)
        with pytest.raises(TypeError):
            here.send(5)  # type: ignore[arg-type]
        here.send(b"still connected")
        assert there.receive(LIMIT_S)


def test_exception_in_a_block_aborts_the_connections() -> None:
    with Stack(udp=addresses(11, 1)) as server:
        listener = server.listen(7)
        kept = []

        def fail() -> None:
            with Stack(udp=addresses(11, 0)) as client:
                kept.append(client.associate(addresses(11, 1), 7, timeout_s=LIMIT_S))
                raise LookupError

        with pytest.raises(LookupError):
            fail()
        with pytest.raises(ConnectionResetError):
            listener.accept_association(LIMIT_S).receive(LIMIT_S)
        assert kept[0].ended(LIMIT_S) == "aborted"


def test_ctrl_c_ends_a_waiting_call() -> None:
    script = (
        "from anabranch.stack import Stack\n"
        "with Stack(udp=['127.116.12.1']) as host:\n"
        "    listener = host.listen(7)\n"
        "    print('waiting', flush=True)\n"
        "    listener.accept_association()\n"
    )
    assert "KeyboardInterrupt" in interrupted(script, "waiting")


def test_asyncio_serves_many_associations_at_once() -> None:
    async def test() -> None:
        async with aio.Stack(udp=addresses(13, 1)) as server, aio.Stack(udp=addresses(13, 0)) as client:
            listener = await server.listen(7)

            async def serve() -> None:
                async with await listener.accept_association() as accepted:
                    async for message in accepted:
                        await accepted.send(message.data[::-1])

            async def ask(number: int) -> bytes:
                association = await client.associate(addresses(13, 1), 7)
                await association.send(b"%d-%d" % (number, number * 7))
                message = await association.receive()
                association.shutdown()
                assert await association.ended() == "closed"
                return message.data if message else b""

            serving = [asyncio.create_task(serve()) for _ in range(50)]
            answers = await asyncio.gather(*(ask(number) for number in range(50)))
            assert answers == [(b"%d-%d" % (number, number * 7))[::-1] for number in range(50)]
            await asyncio.gather(*serving)

    run_async(test)


def test_cancelled_call_loses_no_message() -> None:
    async def test() -> None:
        async with aio.Stack(udp=addresses(14, 1)) as server, aio.Stack(udp=addresses(14, 0)) as client:
            listener = await server.listen(7)
            here = await client.associate(addresses(14, 1), 7)
            there = await listener.accept_association()
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(there.receive(), 0.001)
            waiting = asyncio.create_task(there.receive())
            await here.send(b"late")
            message = await waiting
            assert message is not None
            assert message.data == b"late"
            assert (await here.report())["written_bytes"] == 4
            await client.abort()
            with pytest.raises(ConnectionResetError):
                await there.receive()

    run_async(test)


def test_loops_of_several_threads_share_a_stack() -> None:
    with pair(15) as (_, server, _, here, there):

        async def ask(number: int) -> int:
            await asyncio.to_thread(here.send, b"x", stream=0, ppid=number)
            message = await asyncio.to_thread(there.receive)
            return message.ppid if message else -1

        seen = [asyncio.run(ask(number)) for number in range(3)]
        assert seen == [0, 1, 2]
        (report,) = server.reports()
        assert set(report) == set(ConnectionReport.__annotations__)
        assert set(report["paths"][0]) == set(PathReport.__annotations__)


SCRIPT = """
import asyncio, hashlib, json, socket, subprocess, threading
from anabranch.stack import Stack, Tun, aio

subprocess.run("ip link set lo up && sysctl -qw net.ipv4.ip_forward=1", shell=True, check=True)

# Example of the page: a client of the kernel's Multipath TCP or TCP.
try:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
except OSError:
    listening = socket.socket()
listening.bind(("0.0.0.0", 8080))
listening.listen()

def serve():
    accepted, _ = listening.accept()
    while accepted.recv(4096):
        pass
    accepted.sendall(b"HTTP/1.0 200 OK")
    accepted.close()

serving = threading.Thread(target=serve)
serving.start()
exec(EXAMPLE)
serving.join()

# Two stacks over two pairs of interfaces, between which the kernel forwards.
def tuns(end):
    return [Tun(f"{end}{path}", f"10.{end}.{path}.1/24", f"10.{end}.{path}.2") for path in (50, 51)]

data = bytes(range(251)) * 8000
with Stack(tun=tuns(7)) as server, Stack(tun=tuns(8)) as client:
    listener = server.listen(80, settings={"paths": "fullmesh"})
    stream = client.connect("10.7.50.2", 80, settings={"congestion": "olia", "paths": "fullmesh"}, timeout_s=30)
    accepted = listener.accept(30)
    assert (stream.local.split(":")[0], stream.remote) == ("10.8.50.2", "10.7.50.2:80") == (
        accepted.remote.split(":")[0], accepted.local), (stream, accepted)
    for _ in range(3):
        assert stream.event(30)["event"] == "path_up"
    stream.set_backup(3, True)
    def write():
        stream.write(data, timeout_s=30)
        stream.shutdown()
    writing = threading.Thread(target=write)
    writing.start()
    assert b"".join(accepted) == data
    accepted.write(b"done")
    accepted.shutdown()
    assert stream.read(100, 30) == b"done" and stream.read(100, 30) == b""
    writing.join()
    assert stream.ended(30) == accepted.ended(30) == "closed"
    report = stream.report()
    assert not report["fallback"] and report["acknowledged_bytes"] == len(data)
    assert [path["backup"] for path in report["paths"]] == [False, False, False, True], report
    assert sum(path["sent_bytes"] > 0 for path in report["paths"]) >= 2, report
    try:
        stream.write(b"x")
    except BrokenPipeError:
        pass
    else:
        raise AssertionError
    plain = client.connect("10.7.50.2", 80, "tcp", timeout_s=30)
    with listener.accept(30) as there:
        there.abort()
        try:
            plain.read(timeout_s=30)
        except ConnectionResetError:
            pass
        else:
            raise AssertionError

async def main():
    async with aio.Stack(tun=tuns(7)) as server, aio.Stack(tun=tuns(8)) as client:
        listener = await server.listen(80)
        async def serve():
            async with await listener.accept() as stream:
                async for part in stream:
                    await stream.write(part)
                stream.shutdown()
                await stream.ended()
        serving = asyncio.create_task(serve())
        stream = await client.connect("10.7.50.2", 80)
        async def write():
            await stream.write(data)
            stream.shutdown()
        writing = asyncio.create_task(write())
        assert b"".join([part async for part in stream]) == data
        await writing
        await serving
        assert await stream.ended() == "closed"

asyncio.run(asyncio.wait_for(main(), 60))
print("whole")
"""


@pytest.mark.machine
@pytest.mark.skipif(bool(missing("ip", "unshare")), reason=missing("ip", "unshare"))
def test_streams_over_tun_interfaces(tmp_path: Path) -> None:
    (example,) = (code for code, output in examples() if not output)
    script = SCRIPT.replace("EXAMPLE", repr(example))
    command = ["unshare", "--net", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "HTTP/1.0 200 OK\nwhole\n"
    assert (tmp_path / "packets.pcapng").stat().st_size > 500
