"""`anabranch meter run`: addresses and ports, one port through a firewall, events as JSON, and options on the wire."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command import anabranch
from dask_machines import free_port
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


def refused(port: str, *arguments: str, host: str = "127.0.0.1") -> str:
    """The sentence that refuses a test."""
    done = anabranch("meter", "run", host, "-p", port, "-t", "0.2", *arguments)
    assert done.returncode in {1, 2}, arguments
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_source_address_and_port_are_used(port: str) -> None:
    first = free_port()
    source = ("-B", "127.0.0.9,::1", "--cport", str(first))
    flows = measured(port, "-t", "0.3", "-i", "0.1", "-P", "2", *source)["flows"]
    ends = [{subflow["local"] for subflow in flow["subflows"]} for flow in flows]
    assert ends == [{f"127.0.0.9:{first}"}, {f"127.0.0.9:{first + 1}"}]


def test_segment_size_and_type_of_service_are_accepted(port: str) -> None:
    (flow,) = measured(port, "-4", "-t", "0.3", "-M", "600", "-S", "0x28")["flows"]
    assert flow["ways"][0]["read"]["bytes"] > 0


def test_contradictory_addresses_and_options_are_refused(port: str) -> None:
    for arguments, says in [
        (("-6",), "127.0.0.1 is no IPv6 address"),
        (("-4", "-B", "::1"), "::1 is no IPv4 address"),
        (("-B", "127.0.0.1,127.0.0.2"), "are both IPv4"),
        (("-B", "::1"), "no source address is IPv4"),
        (("-B", "127.0.0.1,"), "has an empty address"),
        (("-B", "home"), "home is not an IPv4 or IPv6 address"),
        (("-B", "192.0.2.77"), "cannot reach"),
        (("--cport", "65535", "-P", "2"), "above 65535"),
        (("--cport", "0"), "--cport"),
        (("-u", "-M", "600"), "a maximum segment size is an option of tcp and mptcp"),
        (("-M", "9"), "--set-mss"),
        (("-S", "256"), "256 is not a byte"),
        (("-S", "EF"), "is not a byte"),
        (("-u", "-C", "reno"), "a congestion control is an option of tcp, mptcp and sctp"),
        (("--sctp", "-M", "600"), "a maximum segment size is an option of tcp and mptcp"),
        (("--sctp", "-C", "nosuch"), "unknown congestion control nosuch; with sctp use one of reno"),
        (("--sctp", "-w", "2000"), "a buffer of an association has 4096 to 67108864 bytes, but not 2000"),
        (("-J", "--json-stream"), "--json and --json-stream exclude each other"),
        (("--flow", "tcp:const0:const9:id=1", "--flow", "tcp:const0:const9:id=1"), "another flow has the id 1"),
    ]:
        assert says in refused(port, *arguments), arguments


def test_events_are_one_json_object_a_line(port: str) -> None:
    done = anabranch("meter", "run", "127.0.0.1", "-p", port, "-t", "0.6", "-i", "0.2", "--json-stream", "-P", "2")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", *["interval"] * 3, "end"]
    begin, end = events[0]["data"], events[-1]["data"]
    assert (begin["duration_s"], [flow["name"] for flow in begin["flows"]]) == (0.6, ["tcp-1", "tcp-2"])
    written = sum(flow["written_bytes"] for event in events[1:-1] for flow in event["data"]["flows"])
    assert 0 < written <= sum(flow["ways"][0]["written"]["bytes"] for flow in end["flows"])
    assert all(seconds > 0 for seconds in end["processor_s"])
    broken = anabranch("meter", "run", "127.0.0.1", "-p", str(free_port()), "--json-stream")
    assert (broken.returncode, json.loads(broken.stdout)["event"]) == (1, "error")


def test_options_of_flows_shape_their_traffic(port: str) -> None:
    flows = measured(
        port, "-t", "2", "-i", "0.25",
        "--flow", "tcp:const100:const1000:const20:const500:id=7",
        "--flow", "udp:const20:const3000:maxmsgsize=1000",
        "--flow", "tcp:const100:const1000:onoff=+0.5,+0.5,repeat:cc=reno",
        "--flow", "tcp:const100:const1000:start=1:nodelay=off",
    )["flows"]  # fmt: skip
    assert [flow["id"] for flow in flows] == [7, 0, 1, 2]
    both = {way["direction"]: way["read"]["messages"] for way in flows[0]["ways"]}
    assert both["client-to-server"] == pytest.approx(200, rel=0.1)
    assert both["server-to-client"] == pytest.approx(40, rel=0.1)
    split = flows[1]["ways"][0]
    assert split["written"]["messages"] == pytest.approx(120, rel=0.1)
    assert split["written"]["bytes"] == 1000 * split["written"]["messages"]
    on_off = flows[2]["ways"][0]["written"]["intervals"]
    assert [bytes_ > 0 for bytes_ in on_off[:8]] == [False, False, True, True, False, False, True, True]
    assert flows[2]["ways"][0]["written"]["messages"] == pytest.approx(100, rel=0.1)
    assert flows[2]["congestion"] == ["reno", "reno"]
    assert not any(flows[3]["ways"][0]["written"]["intervals"][:4])
    assert flows[3]["ways"][0]["written"]["messages"] == pytest.approx(100, rel=0.1)


@pytest.mark.skipif(bool(WITHOUT_MPTCP), reason=WITHOUT_MPTCP)
def test_scheduler_of_the_kernel_is_compared(port: str) -> None:
    scheduler = Path("/proc/sys/net/mptcp/scheduler").read_text(encoding="ascii").strip()
    line = "tcp:const0:const1400:cmt=mptcp:scheduler="
    (flow,) = measured(port, "-t", "0.2", "--flow", line + scheduler)["flows"]
    assert flow["protocol"] == "mptcp"
    assert "and not nosuch; change it in /proc/sys/net/mptcp/scheduler" in refused(port, "--flow", f"{line}nosuch")


def test_clients_with_a_single_port_wait_for_others(port: str) -> None:
    def test() -> None:
        done.append(anabranch("meter", "run", "127.0.0.1", "-p", port, "-t", "0.5", "--single-port", "-J"))

    done: list[Any] = []
    threads = [threading.Thread(target=test) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    assert sum("waiting for 1 other test" in one.stderr for one in done) >= 1


FIREWALL = """
table inet one_port {
    chain input {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        tcp dport 5210 accept
        udp dport 5210 accept
    }
}
"""


@pytest.mark.skipif(bool(missing("ip", "unshare")), reason=missing("ip", "unshare"))
@pytest.mark.skipif(not shutil.which("nft"), reason="nft (package nftables) is missing")
def test_single_port_passes_a_firewall_with_one_port(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text(FIREWALL, encoding="utf-8")
    meter = f"{sys.executable} -m anabranch meter"
    flows = ["tcp:const0:const1400", "udp:const100:const1000:const50:const500", "tcp:const0:const0:const0:const1400"]
    flows.append("udp:const0:const0:const100:const700")
    flows += ["sctp:const100:const1000:const50:const500:association=1", "sctp:const100:const9000:association=1"]
    flows.append("sctp:const0:const1400:unordered=0.5:unreliable=0.5:rtx_trials=1")
    if not WITHOUT_MPTCP:
        flows += ["mptcp:const0:const1400:const0:const1400"] * 2
    given = " ".join(f"--flow {flow}" for flow in flows)
    script = (
        f"ip link set lo up && nft -f {tmp_path}/rules && {{ {meter} serve > {tmp_path}/served & "
        f"until grep -qs waiting {tmp_path}/served; do sleep 0.05; done; "
        f"{meter} run 127.0.0.1 -t 0.6 -i 0.2 --single-port -J {given} > {tmp_path}/one; one=$?; "
        f"{meter} run 127.0.0.1 -t 0.2 2> {tmp_path}/many; many=$?; kill $!; [ $one = 0 -a $many = 1 ]; }}"
    )
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "Operation not supported" in done.stderr:
        pytest.skip("this kernel has no nftables")
    assert done.returncode == 0, done.stderr
    # Without the option, flows need further ports.
    assert "no answer" in (tmp_path / "many").read_text(encoding="utf-8")
    results = json.loads((tmp_path / "one").read_text(encoding="utf-8"))["flows"]
    assert [flow["protocol"] for flow in results] == [flow.split(":")[0] for flow in flows]
    for flow in results:
        assert all(way["read"]["bytes"] > 0 for way in flow["ways"]), flow["name"]
        if flow["protocol"] in {"tcp", "mptcp"}:
            assert {subflow["local"] for subflow in flow["subflows"]}, flow["name"]
    kernel = [flow for flow in results if flow["protocol"] != "sctp"]
    locals_of_flows = [{subflow["local"] for subflow in flow["subflows"]} for flow in kernel]
    assert sum(map(len, locals_of_flows)) == len(set().union(*locals_of_flows))


LOSSES = """
table inet losses {
    chain input {
        type filter hook input priority 0;
        udp length > 400 numgen random mod 100 < 10 drop
    }
}
"""


@pytest.mark.skipif(bool(missing("ip", "unshare")), reason=missing("ip", "unshare"))
@pytest.mark.skipif(not shutil.which("nft"), reason="nft (package nftables) is missing")
def test_unreliable_messages_of_sctp_are_lost(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text(LOSSES, encoding="utf-8")
    meter = f"{sys.executable} -m anabranch meter"
    line = "sctp:const400:const500"
    fractions = [":unreliable=1", "", ":unordered=1:unreliable=0.5"]
    given = " ".join(f"--flow {line}{more}" for more in fractions)
    script = (
        f"ip link set lo up && nft -f {tmp_path}/rules && {{ {meter} serve > {tmp_path}/served & "
        f"until grep -qs waiting {tmp_path}/served; do sleep 0.05; done; "
        f"{meter} run 127.0.0.1 -t 3 -i 1 -J {given} > {tmp_path}/one; one=$?; kill $!; [ $one = 0 ]; }}"
    )
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "Operation not supported" in done.stderr:
        pytest.skip("this kernel has no nftables")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "one").read_text(encoding="utf-8"))["flows"]
    once, reliable, half = (flow["ways"][0] for flow in results)
    # A tenth of 1,200 messages is lost, but packets may have several messages, and be lost together.
    assert 10 < once["lost_messages"] < 600
    assert reliable["lost_messages"] is None
    assert sum(path["retransmissions"] for path in results[1]["subflows"][-1:]) > 0
    assert reliable["read"]["reordered"] == 0
    assert half["lost_messages"] > 0
    assert half["read"]["reordered"] > 0
