"""`anabranch meter`: two endpoints on this machine, their output, and the files of OMNeT++."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.cli.meter import _plan
from anabranch.errors import InputError
from anabranch.meter.flows import specified
from anabranch.meter.plan import usual
from command import anabranch
from machine import WITHOUT_MPTCP, missing
from meters import measured, served_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform != "linux", reason="the meter needs Linux"),
]


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    """The port of a meter that listens on loopback."""
    yield from served_port()


def test_meter_prints_lines_like_iperf3(port: str) -> None:
    done = anabranch("meter", "run", "127.0.0.1", "-p", port, "-t", "1", "-i", "0.25", "-P", "2", "-C", "reno")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("tcp-1 ") and "0.25-0.50 s" in line for line in lines) == 1
    assert sum(line.startswith("sum ") for line in lines) == 5
    assert re.search(r"tcp-2 -> [0-9.]+ [GM]bit/s; .* delay mean", done.stdout)
    document = measured(port, "-t", "0.5", "-R", "-c", "reno")
    (flow,) = document["flows"]
    assert (flow["ways"][0]["direction"], flow["congestion"]) == ("server-to-client", ["reno", "reno"])
    assert flow["ways"][0]["goodput_bps"] > 1e7
    both = measured(port, "-t", "0.5", "--bidir", "-n", "1M")["flows"][0]["ways"]
    assert [way["read"]["bytes"] for way in both] == [1 << 20, 1 << 20]
    (datagrams,) = measured(port, "-t", "1", "-u", "-R", "-b", "2M", "-l", "1000")["flows"]
    assert datagrams["ways"][0]["read"]["messages"] + datagrams["ways"][0]["lost_messages"] >= 200
    assert datagrams["congestion"] == [None, None]


def test_interrupt_ends_a_server_with_silent_client() -> None:
    command = [sys.executable, "-m", "anabranch", "meter", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):
            begun_s = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert (process.returncode, said.strip()) == (130, "anabranch: interrupted")
    # A silent client has five seconds for its greeting.
    assert time.monotonic() - begun_s < 5.0


def test_size_ends_the_test_unless_a_time_is_given(port: str) -> None:
    (way,) = measured(port, "-n", "3M")["flows"][0]["ways"]
    assert way["read"]["bytes"] == 3 << 20
    assert way["read"]["completed_s"] is not None
    plan: dict[str, Any] = {
        "omit": 1.0, "interval": 1.0, "reverse": False, "bidir": False, "parallel": 1, "congestion": None,
        "bitrate": None, "length": None, "window": None, "nagle": False, "protocol": None, "workload": None,
        "flows": (), "keep_delays": False,
    }  # fmt: skip
    assert _plan(seconds=None, size=None, **plan).seconds == 10
    assert _plan(seconds=None, size=1e12, **plan).seconds > 86_400
    short = anabranch("meter", "run", "127.0.0.1", "-p", port, "-t", "0.1", "-n", "1T")
    assert "The test ended before all 1,099,511,627,776 B arrived." in short.stdout


def test_omit_excludes_the_start(port: str) -> None:
    document = measured(port, "-t", "0.5", "-O", "0.5", "-b", "8M", "-l", "1000")
    (way,) = document["flows"][0]["ways"]
    assert (document["warmup_s"], document["duration_s"]) == (0.5, pytest.approx(1.0))
    assert way["read"]["measured_bytes"] == pytest.approx(way["read"]["bytes"] / 2, rel=0.2)
    assert way["goodput_bps"] == pytest.approx(8e6, rel=0.2)


@pytest.mark.skipif(bool(WITHOUT_MPTCP), reason=WITHOUT_MPTCP)
def test_multipath_tcp_shows_its_subflows(port: str) -> None:
    (flow,) = measured(port, "-m", "-t", "0.6", "-i", "0.2")["flows"]
    assert flow["protocol"] == "mptcp"
    assert flow["ways"][0]["goodput_bps"] > 1e7
    assert {subflow["remote"].rpartition(":")[0] for subflow in flow["subflows"]} == {"127.0.0.1"}
    assert flow["subflows"][-1]["bytes_sent"] > 0


def scalars(file: Path) -> dict[tuple[str, str], float]:
    """The scalars of a file, by module and name, with lines split as OMNeT++'s reader splits them."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "version 3"
    assert lines[1].startswith("run ")
    found = {}
    for line in lines[2:]:
        match = re.fullmatch(r'(?:attr \S+ ".*"|scalar (\S+) "(.+)" (\S+))', line)
        assert match, line
        if match[1]:
            found[match[1], match[2]] = float(match[3])
    return found


def vectors(file: Path) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """The vectors of a file, by module and name."""
    names: dict[str, tuple[str, str]] = {}
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines()[2:]:
        declared = re.fullmatch(r'vector (\d+) (\S+) "(.+)" TV', line)
        if declared:
            names[declared[1]] = (declared[2], declared[3])
            found[declared[2], declared[3]] = []
        elif not line.startswith("attr "):
            identifier, at, value = line.split("\t")
            found[names[identifier]].append((float(at), float(value)))
    return found


def test_omnet_files_contain_each_message_delay(port: str, tmp_path: Path) -> None:
    prefix = tmp_path / "out"
    document = measured(
        port, "-t", "2", "-i", "0.5", "--omnet", str(prefix),
        "--workload", '{ kind = "messages", message = "200 B", interval = "100 us", count = 10000 }',
    )  # fmt: skip
    (way,) = document["flows"][0]["ways"]
    assert way["read"]["messages"] == 10_000
    found = scalars(tmp_path / "out.sca")
    reads = "netPerfMeter.passive.flow[0]"
    assert found[reads, "Received Packets"] == 10_000
    assert found[reads, "Received Bytes"] == found["netPerfMeter.active.flow[0]", "Transmitted Bytes"] == 2_000_000
    assert found[reads, "Received Bit Rate"] == way["goodput_bps"]
    assert found["netPerfMeter.passive.total", "Received Bit Rate"] == way["goodput_bps"]
    over_time = vectors(tmp_path / "out-0.vec")
    delays = over_time[reads, "Delay"]
    assert len(delays) == 10_000
    assert [at for at, _ in delays] == sorted(at for at, _ in delays)
    mean = sum(delay for _, delay in delays) / len(delays)
    assert mean == pytest.approx(found[reads, "Delay mean"], rel=0.01)
    rates = over_time[reads, "Received Bit Rate"]
    # One message every 100 us gives 16 Mbit/s.
    assert rates[0][0] == 0.5
    assert rates[0][1] == pytest.approx(16e6, rel=0.3)
    assert over_time["netPerfMeter.active.flow[0].subflow[0]", "Congestion Window"][0][1] > 0


def test_omnet_has_a_vector_file_per_flow(port: str, tmp_path: Path) -> None:
    flows = ["tcp:const0:const1400:id=7", "udp:const100:const500", "sctp:const100:const500"]
    given = [word for flow in flows for word in ("--flow", flow)]
    measured(port, "-t", "0.4", "-i", "0.1", "--omnet", str(tmp_path / "out"), *given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-0.vec", "out-1.vec", "out-7.vec", "out.sca"]
    for number in (0, 1, 7):
        modules = {module for module, _ in vectors(tmp_path / f"out-{number}.vec")}
        ends = {f"netPerfMeter.{end}.flow[{number}]" for end in ("active", "passive")}
        assert ends <= modules <= {*ends, f"netPerfMeter.active.flow[{number}].subflow[0]"}


def test_netperfmeter_specifications_are_accepted(port: str) -> None:
    flows = measured(
        port, "-t", "0.5", "--flow", "tcp:const0:const1400:const0:const0:description=T1",
        "--flow", "udp:const0:const0:const200:uniform100,1400", "--flow", "tcp:exp500:exp700:exp500:exp700",
    )["flows"]  # fmt: skip
    assert [flow["name"] for flow in flows] == ["T1", "udp-2", "tcp-3"]
    assert [[way["direction"] for way in flow["ways"]] for flow in flows] == [
        ["client-to-server"], ["server-to-client"], ["client-to-server", "server-to-client"],
    ]  # fmt: skip
    assert flows[1]["ways"][0]["written"]["messages"] in range(80, 110)
    assert flows[2]["ways"][1]["read"]["messages"] > 100


def refusal(spec: str, says: str) -> object:
    return pytest.param(spec, says, id=spec)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        refusal("quic:const0:const1400", 'unknown protocol "quic"'),
        refusal("tcp:const0", "write PROTOCOL:RATE:SIZE"),
        refusal("tcp:const0:const0", "neither end sends data"),
        refusal("tcp:fast:const1400", "is not a distribution"),
        refusal("tcp:uniform1,2:const1400", "a rate must be constN or expN"),
        refusal("tcp:const0:pareto1", "is not a distribution"),
        pytest.param("tcp:const0:const" + "1" * 310, "const has a number above 1e+15", id="size of 310 digits"),
        pytest.param("tcp:" + "1" * 5000 + ":const9", "const has a number above 1e+15", id="rate of 5000 digits"),
        pytest.param("tcp:const0:const9:id=" + "1" * 5000, "write a whole number from 0", id="id of 5000 digits"),
        pytest.param("tcp:const0:const9:onoff=" + "1" * 400, "has a number above 1e+15", id="time of 400 digits"),
    ],
)
def test_invalid_specifications_are_refused(spec: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        specified(spec, 1)


@pytest.mark.parametrize(
    ("host", "named"),
    [("192.0.2.1:5210", "192.0.2.1"), ("[2001:db8::1]:5210", "2001:db8::1"), ("server.example:5210", "server.example")],
)
def test_port_after_the_host_is_refused(host: str, named: str) -> None:
    done = anabranch("meter", "run", host)
    assert done.returncode == 2
    assert f'"{host}" is not a host: write {named} --port 5210' in done.stderr


def test_contradictory_options_are_refused(port: str) -> None:
    for arguments, says in [
        (("-R", "--bidir"), "--reverse and --bidir exclude each other"),
        (("-n", "1M", "-b", "1M"), "--bitrate and --bytes exclude each other"),
        (("--workload", '{ kind = "saturated" }', "-l", "100"), "omit --bitrate, --bytes and --length"),
        (("--flow", "tcp:const0:const9", "-u"), "omit --workload and the option of the protocol"),
        (("-u", "-l", "70000"), "a datagram has at most"),
        (("-u", "-m"), "--udp and --mptcp select different protocols"),
        (("--sctp", "-u"), "select different protocols"),
        (("-l", "100G"), "write at most 1073741824"),
        (("-w", "3G"), "write at most 2147483647"),
        (("-t", "abc"), "'abc' is not a valid number"),
        (("-P", "1e3"), "'1e3' is not a valid whole number"),
        (("-u", "-n", "1M"), "feedback that udp does not have"),
        (("--workload", '{ kind = "satrated" }'), "saturated"),
        (("-b", "fast"), "is not a number from 1 on"),
        (("-b", "inf"), "is not a number from 1 on"),
        (("-C", "nosuch"), "the congestion control nosuch"),
        (("-t", "0"), "--time"),
        (("-t", "nan"), "nan is not a time"),
        (("-i", "inf"), "--interval"),
        (("-O", "1e9"), "--omit"),
    ]:
        done = anabranch("meter", "run", "127.0.0.1", "-p", port, *arguments)
        assert done.returncode in {1, 2}, arguments
        assert says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    assert usual("udp", rate=None, length=None, size=None).count("1000000 bit/s") == 1


def test_unreachable_or_foreign_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = str(other.getsockname()[1])

        def answer() -> None:
            with other.accept()[0] as connection:
                connection.recv(100)
                connection.sendall(b"SSH-2.0-something\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = anabranch("meter", "run", "127.0.0.1", "-p", number)
        thread.join()
    assert (done.returncode, "does not answer like a meter" in done.stderr) == (1, True)
    gone = anabranch("meter", "run", "127.0.0.1", "-p", number)
    assert (gone.returncode, "there is no meter server at 127.0.0.1" in gone.stderr) == (1, True)
    taken = anabranch("meter", "serve", "--bind", "192.0.2.1")
    assert (taken.returncode, "cannot listen at 192.0.2.1" in taken.stderr) == (1, True)
    wrong = anabranch("meter", "serve", "--bind", "everywhere")
    assert (wrong.returncode, "is not an IPv4 or IPv6 address" in wrong.stderr) == (2, True)


def test_one_off_server_ends_after_one_test() -> None:
    command = [sys.executable, "-m", "anabranch", "meter", "serve", "-p", "0", "--one-off"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    number = server.stdout.readline().rpartition(":")[2].strip()
    client = subprocess.Popen(
        [sys.executable, "-m", "anabranch", "meter", "run", "127.0.0.1", "-p", number, "-t", "60", "-i", "0.1"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdout is not None
    assert client.stdout.readline().startswith("flow")
    client.kill()
    client.communicate()
    # The killed client's test does not count, so the one-off server still serves one.
    assert "closed the connection" in server.stdout.readline()
    assert measured(number, "-t", "0.2")["flows"]
    assert server.wait(10) == 0


@pytest.mark.skipif(not Path("/proc/sys/net/ipv6/bindv6only").exists(), reason="this kernel has no IPv6")
def test_wildcard_server_accepts_ipv4_and_ipv6() -> None:
    command = [sys.executable, "-m", "anabranch", "meter", "serve", "--bind", "::", "-p", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    number = server.stdout.readline().rpartition(":")[2].strip()
    try:
        for address in ("127.0.0.1", "::1"):
            done = anabranch("meter", "run", address, "-p", number, "-t", "0.3", "-J", "-R")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["flows"][0]["ways"][0]["goodput_bps"] > 1e6
    finally:
        server.terminate()
        server.wait(10)


LINK = """
title = "A slow link"
duration = "30 s"
[[link]]
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "5 ms"
queue = { kind = "fifo", limit = "50 packets" }
[[flow]]
from = "A"
to = "B"
protocol = "tcp"
workload = { kind = "saturated" }
"""

PLAIN = """
import socket, time
server = socket.create_connection(("B", 5400))
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
until = time.monotonic() + 5
while time.monotonic() < until:
    server.sendall(bytes(1 << 14))
"""

COUNT = """
import socket, time
connection = socket.create_server(("", 5400)).accept()[0]
begun, counted, now = time.monotonic(), 0, 0.0
while now < 4.5 and (read := len(connection.recv(1 << 18))):
    now = time.monotonic() - begun
    counted += read if now >= 1.5 else 0
print(counted * 8 / (now - 1.5))
"""


def until_served(folder: Path) -> str:
    """A shell loop that waits until the meter with this output accepts tests."""
    return f"until grep -qs waiting {folder}/served; do sleep 0.05; done"


@pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))
def test_meter_rate_matches_a_plain_sender(tmp_path: Path) -> None:
    scenario = tmp_path / "link.toml"
    scenario.write_text(LINK, encoding="utf-8")
    script = tmp_path / "both.sh"
    run = f"{sys.executable} -m anabranch meter"
    script.write_text(
        f"B=${{ANABRANCH_HOSTS##*B=}}\n"
        f"ip netns exec $B {sys.executable} -c '{COUNT}' > {tmp_path}/plain &\n"
        f"ip netns exec $B {run} serve --bind 0.0.0.0 --one-off > {tmp_path}/served &\n"
        f"{until_served(tmp_path)}\n{sys.executable} -c '{PLAIN}'\n"
        f"{run} run B -t 3 -O 1.5 -C reno -J > {tmp_path}/meter\n",
        encoding="utf-8",
    )
    done = anabranch("emulate", str(scenario), "--", "sh", str(script))
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 300
    while not (tmp_path / "plain").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    plain = float((tmp_path / "plain").read_text())
    (flow,) = json.loads((tmp_path / "meter").read_text())["flows"]
    # In long runs on an idle machine, the difference is 1 %.
    assert flow["ways"][0]["goodput_bps"] == pytest.approx(plain, rel=0.1)
    assert flow["ways"][0]["read"]["delay_s"]["p50"] > 0.005


@pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))
@pytest.mark.skipif(bool(WITHOUT_MPTCP), reason=WITHOUT_MPTCP)
def test_subflows_over_two_links_have_a_line_each(tmp_path: Path) -> None:
    scenario = tmp_path / "links.toml"
    second = LINK[LINK.index("[[link]]") : LINK.index("[[flow]]")].replace("[[link]]", '[[link]]\nname = "two"')
    text = LINK.replace("[[flow]]", second + "[[flow]]").replace('"tcp"', '"mptcp"\ncongestion = "reno"')
    scenario.write_text(text, encoding="utf-8")
    run = f"{sys.executable} -m anabranch meter"
    script = (
        f"ip netns exec ${{ANABRANCH_HOSTS##*B=}} {run} serve --bind 0.0.0.0 --one-off > {tmp_path}/served & "
        f"{until_served(tmp_path)}; "
        f"{run} run B -t 4 -i 1 -m -C reno"
    )
    done = anabranch("emulate", str(scenario), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    for address in ("10.0.0.1", "10.0.0.5"):
        assert re.search(rf"^  {address} .* [1-9][0-9.]* [kM]bit/s ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))
def test_datagrams_in_flight_at_the_end_are_counted(tmp_path: Path) -> None:
    scenario = tmp_path / "far.toml"
    scenario.write_text(LINK.replace('"5 ms"', '"300 ms"'), encoding="utf-8")
    run = f"{sys.executable} -m anabranch meter"
    script = (
        f"ip netns exec ${{ANABRANCH_HOSTS##*B=}} {run} serve --bind 0.0.0.0 --one-off > {tmp_path}/served & "
        f"{until_served(tmp_path)}; "
        f"{run} run B -t 1 -u -b 1M -l 1000 -J"
    )
    done = anabranch("emulate", str(scenario), "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    (way,) = json.loads(done.stdout)["flows"][0]["ways"]
    assert way["lost_messages"] == 0
    assert way["open_messages"] == way["written"]["messages"] - way["read"]["messages"] > 10


@pytest.mark.skipif(bool(missing("ip", "unshare")), reason=missing("ip", "unshare"))
@pytest.mark.skipif(not Path("/proc/sys/net/ipv6/bindv6only").exists(), reason="this kernel has no IPv6")
@pytest.mark.parametrize("bind", ["::", "fe80::77%v0"])
def test_link_local_addresses_are_accepted(bind: str, tmp_path: Path) -> None:
    links = "ip link set lo up && ip link add dev v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up"
    address = "ip addr add fe80::77/64 dev v0 nodad"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", f"{links} && {address}"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("this kernel has no veth")
    meter = f"{sys.executable} -m anabranch meter"
    tests = " && ".join(f"{meter} run fe80::77%v0 -t 0.2 {more}" for more in ("", "-u -R"))
    served = f"{meter} serve --bind {bind} > {tmp_path}/served"
    script = f"{links} && {address} && {{ {served} & {until_served(tmp_path)}; {tests}; s=$?; kill $!; exit $s; }}"
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("tcp -> " in done.stdout, "udp <- " in done.stdout) == (True, True)
