"""The kernel's world: scenarios over Linux's own protocols, testbeds, and complete removal afterwards."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import replay
import small_study
from anabranch import InputError, Scenario, run
from anabranch.errors import RunFailed
from anabranch.testbed.proxies import PROXY
from command import anabranch
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIO = """
title = "Two ways"
duration = "3 s"
warmup = "1 s"
[[link]]
name = "one"
between = ["A", "B"]
rate = "6 Mbit/s"
delay = "10 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[link]]
name = "two"
between = ["A", "B"]
rate = "4 Mbit/s"
delay = "15 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"
workload = { kind = "saturated" }
"""


pytestmark = [pytest.mark.machine, pytest.mark.skipif(bool(missing()), reason=missing())]


def _left_behind() -> list[str]:
    from anabranch.testbed.bed import existing, holder

    return [namespace for name, namespace in existing() if holder(name) is None]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Checks that each test removed all parts of testbeds whose process has ended."""
    yield
    assert _left_behind() == []


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def measured(scenario: str, *settings: str, trace: Path | None = None) -> dict[str, Any]:
    options = [part for setting in settings for part in ("--set", setting)]
    if trace is not None:
        options += ["--trace", str(trace)]
    done = anabranch("run", scenario, "--world", "kernel", "--json", *options)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def mptcp() -> bool:
    return Path("/proc/sys/net/mptcp/enabled").exists()


def test_tcp_fills_its_link_and_the_result_names_the_host(scenario: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    document = measured(scenario, trace=trace)
    (flow,) = document["flows"]
    assert document["world"] == "kernel"
    assert document["digest"] is None
    # A busy machine lowers the rate; it never exceeds the link's rate.
    assert 3e6 < flow["goodput_bps"] < 6e6
    assert (flow["congestion"], flow["state"], flow["fallback"]) == ("reno", "open", False)
    (path,) = flow["paths"]
    assert (path["name"], path["links"], path["reinjections"]) == ("one", ["one"], None)
    assert path["srtt_mean_s"] > 0.02
    host = document["host"]
    assert host["kernel"] == os.uname().release
    assert host["lateness"]["packets"] > 500
    assert host["sysctls"]["A"]["net.ipv4.tcp_timestamps"] == "1"
    for name in ("paths.csv", "queues.csv"):
        rows = list(csv.DictReader((trace / name).open(encoding="utf-8")))
        assert len(rows) > 20
        assert rows[0]["flow" if name == "paths.csv" else "link"] in {"F", "one"}


@pytest.mark.parametrize(("asked", "taken"), [("two", "two"), ('["one"]', "one")])
def test_connection_takes_the_configured_path(scenario: str, asked: str, taken: str) -> None:
    (flow,) = measured(scenario, f"flow.F.initial_path={asked}", 'duration="2 s"')["flows"]
    assert [path["links"] for path in flow["paths"]] == [[taken]]
    assert flow["delivered_bytes"] > 100_000


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_multipath_tcp_survives_an_outage(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write(
            '[[event]]\nat = "1.5 s"\nlink = "one"\nset = { state = "down" }\n'
            '[[event]]\nat = "2.5 s"\nlink = "one"\nset = { state = "up" }\n'
        )
    document = measured(scenario, "flow.F.protocol=mptcp", "flow.F.congestion=reno", 'duration="5 s"')
    (flow,) = document["flows"]
    assert flow["fallback"] is False
    # The meter itself checks that no byte is lost or changed.
    assert flow["delivered_bytes"] > 1_000_000
    used = {path["name"] for path in flow["paths"] if path["goodput_bps"] > 1e5}
    assert used >= {"one", "two"}
    dropped = [link["drops_by_cause"]["down"] for link in document["links"] if link["name"] == "one"]
    assert sum(dropped) > 0


BEHIND = """
[[link]]
name = "east"
between = ["R", "B"]
rate = "50 Mbit/s"
[[link]]
name = "west"
between = ["R", "B"]
rate = "50 Mbit/s"
"""


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize("pairs", [[["one", "east"], ["two", "west"]], [["two", "west"], ["one", "east"]]])
def test_disjoint_paths_are_exactly_the_pairs(tmp_path: Path, pairs: list[list[str]]) -> None:
    file = tmp_path / "pairs.toml"
    ends = f'"mptcp"\npaths = "disjoint"\ninitial_path = {json.dumps(pairs[0])}'
    text = SCENARIO.replace('between = ["A", "B"]', 'between = ["A", "R"]').replace('"tcp"', ends)
    file.write_text(text + BEHIND, encoding="utf-8")
    (flow,) = measured(str(file))["flows"]
    assert [path["links"] for path in flow["paths"]] == pairs
    assert all(path["goodput_bps"] > 1e6 for path in flow["paths"])


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize(
    ("table", "first", "carry"),
    [
        ("", "one", {"one", "two"}),
        ('[[host]]\nname = "A"\ndefault_route = "two"\n', "two", {"one", "two"}),
        ('[[host]]\nname = "A"\ndefault_route = "two"\npolicy_routing = false\n', "two", {"two"}),
    ],
)
def test_kernel_gets_the_routing_tables_of_a_host(tmp_path: Path, table: str, first: str, carry: set[str]) -> None:
    text = SCENARIO.replace('between = ["A", "B"]', 'between = ["A", "R"]').replace(
        '"tcp"', '"mptcp"\npaths = "fullmesh"'
    )
    file = tmp_path / "routed.toml"
    file.write_text(f"{text}{BEHIND}{table}", encoding="utf-8")
    document = measured(str(file), 'duration="2 s"')
    (flow,) = document["flows"]
    assert flow["paths"][0]["links"][0] == first
    # Links carry mostly data towards the receiver, and acknowledgements in the other direction.
    busy = {
        link["name"]
        for link in document["links"]
        if link["name"] in {"one", "two"} and link["to"] == "R" and link["throughput_bps"] > 1e6
    }
    assert busy == carry
    simulated = anabranch("run", str(file), "--json", "--set", 'duration="2 s"')
    assert simulated.returncode == 0, simulated.stderr
    (twin,) = json.loads(simulated.stdout)["flows"]
    assert twin["paths"][0]["links"] == flow["paths"][0]["links"]


PROXIED = """
[[link]]
name = "to-proxy"
between = ["R", "P"]
rate = "50 Mbit/s"
[[link]]
name = "to-server"
between = ["R", "B"]
rate = "50 Mbit/s"
"""


@pytest.fixture
def proxied(tmp_path: Path) -> str:
    """The scenario with a router in between, and a proxy with the receiving host behind it."""
    if PROXY.find() is None:
        pytest.skip(f"{PROXY.name} is not installed")
    file = tmp_path / "proxied.toml"
    text = SCENARIO.replace('between = ["A", "B"]', 'between = ["A", "R"]').replace('"tcp"', '"mptcp"\nthrough = "P"')
    file.write_text(text + PROXIED, encoding="utf-8")
    return str(file)


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize(("direction", "least"), [("forward", 4e6), ("reverse", 4e6)])
def test_proxy_forwards_a_flow_from_both_paths(proxied: str, direction: str, least: float) -> None:
    document = measured(proxied, f"flow.F.direction={direction}", 'duration="5 s"')
    (flow,) = document["flows"]
    assert (flow["from"], flow["through"], flow["to"], flow["fallback"]) == ("A", "P", "B", False)
    assert least < flow["goodput_bps"] < 10e6
    here, there = ("P", "A") if direction == "reverse" else ("A", "P")
    assert {path["links"][0 if here == "A" else -1] for path in flow["paths"]} == {"one", "two"}
    assert all("to-server" not in path["links"] for path in flow["paths"])
    carried = {(link["from"], link["to"]): link["bytes"] for link in document["links"]}
    if there == "P":
        assert carried["R", "B"] > 1_000_000
        assert carried["P", "R"] > 1_000_000


def test_simulator_supports_proxies(proxied: str) -> None:
    (flow,) = run(Scenario.from_file(proxied)).document["flows"]
    assert (flow["from"], flow["through"], flow["to"], flow["fallback"]) == ("A", "P", "B", False)
    assert {path["links"][0] for path in flow["paths"]} == {"one", "two"}
    # Counted over the whole run: data that arrived out of order before the measurement may be delivered during it.
    assert 6e6 < flow["delivered_bytes"] * 8 / 3 < 10e6


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_proxied_files_and_requests_complete(proxied: str) -> None:
    (flow,) = measured(proxied, 'flow.F.workload={ kind = "file", size = "300 kB" }', 'duration="4 s"')["flows"]
    assert (flow["state"], flow["delivered_bytes"]) == ("closed", 300_000)
    asks = 'flow.F.workload={ kind = "request-response", response = "3 kB", think = "5 ms" }'
    (flow,) = measured(proxied, asks)["flows"]
    assert flow["answers"] > 5


def test_missing_proxy_is_reported_before_the_run(
    proxied: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROXY.override, str(tmp_path / "nothing"))
    done = anabranch("run", proxied, "--world", "kernel")
    assert done.returncode == 2
    assert "which is not an executable file" in done.stderr


def test_file_completes_and_messages_have_an_age(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write(
            '[[flow]]\nname = "file"\nfrom = "B"\nto = "A"\nprotocol = "tcp"\ncongestion = "cubic"\n'
            'workload = { kind = "file", size = "300 kB" }\n'
            '[[flow]]\nname = "words"\nfrom = "B"\nto = "A"\nprotocol = "tcp"\ncongestion = "reno"\n'
            'workload = { kind = "messages", message = "200 B", interval = "10 ms" }\n'
            '[[flow]]\nname = "datagrams"\nfrom = "A"\nto = "B"\nprotocol = "udp"\n'
            'workload = { kind = "on-off", on = "1 s", off = "200 ms", rate = "300 kbit/s", message = "400 B" }\n'
        )
    flows = {flow["name"]: flow for flow in measured(scenario, "flow.F.protocol=tcp")["flows"]}
    assert (flows["file"]["state"], flows["file"]["delivered_bytes"]) == ("closed", 300_000)
    assert flows["file"]["completion_s"] > 0.4
    assert flows["words"]["delivery_delay_s"]["p50"] >= 0.01
    assert flows["words"]["delivered_bytes"] > 20_000
    assert flows["datagrams"]["delivery_delay_s"]["mean"] >= 0.01
    assert flows["datagrams"]["delivered_bytes"] > 40_000
    assert flows["datagrams"]["congestion"] is None


def test_data_flows_both_ways_and_requests_complete(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write(
            '[[flow]]\nname = "asks"\nfrom = "A"\nto = "B"\nprotocol = "tcp"\ncongestion = "cubic"\n'
            'workload = { kind = "request-response", request = "100 B", response = "3 kB", think = "5 ms" }\n'
            '[[flow]]\nname = "asked"\nfrom = "A"\nto = "B"\nprotocol = "tcp"\ndirection = "reverse"\n'
            'congestion = "reno"\nworkload = { kind = "request-response", response = "500 B", count = 7 }\n'
            '[[flow]]\nname = "datagrams"\nfrom = "A"\nto = "B"\nprotocol = "udp"\ndirection = "both"\n'
            'workload = { kind = "rate", rate = "200 kbit/s", message = "400 B" }\n'
        )
    flows = {flow["name"]: flow for flow in measured(scenario, "flow.F.direction=both")["flows"]}
    both = flows["F"]
    assert both["direction"] == "both"
    assert min(both["goodput_bps"], both["reverse_goodput_bps"]) > 1e6
    assert both["reverse_delivery_delay_s"]["p50"] >= 0.01
    assert flows["asks"]["answers"] > 5
    assert flows["asks"]["response_time_s"]["p50"] >= 0.02
    assert flows["asks"]["reverse_delivered_bytes"] >= 3000 * flows["asks"]["answers"]
    assert (flows["asked"]["direction"], flows["asked"]["state"]) == ("reverse", "closed")
    assert (flows["asked"]["delivered_bytes"], flows["asked"]["reverse_delivered_bytes"]) == (7000, 3500)
    assert flows["datagrams"]["reverse_delivered_bytes"] > 10_000


def test_short_flow_has_its_paths(scenario: str) -> None:
    protocol = "mptcp" if mptcp() else "tcp"
    asks = 'workload = { kind = "request-response", response = "5 kB", count = 2 }'
    short = f'from = "A"\nto = "B"\nprotocol = "{protocol}"\ncongestion = "reno"\nstart = "500 ms"\n'
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write(f'[[flow]]\nname = "asks"\n{short}{asks}\n')
        file.write(
            f'[[flow]]\nname = "both"\n{short}direction = "both"\nworkload = {{ kind = "file", size = "3 kB" }}\n'
        )
    near = ('link.one.delay="0 ms"', 'link.one.rate="1 Gbit/s"', "flow.F.start=1 s", 'duration="1.5 s"', 'warmup="0 s"')
    flows = {flow["name"]: flow for flow in measured(scenario, *near)["flows"]}
    for name in ("asks", "both"):
        flow = flows[name]
        assert (flow["state"], flow["fallback"], flow["paths"][0]["name"]) == ("closed", False, "one")
        assert flow["paths"][0]["usable"] is False
        assert flow["throughput_bps"] > 0
        assert flow["completion_s"] < 0.4


def test_datagrams_without_route_count_as_written(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write(
            '[[flow]]\nname = "datagrams"\nfrom = "A"\nto = "B"\nprotocol = "udp"\n'
            'workload = { kind = "rate", rate = "400 kbit/s", message = "1000 B" }\n'
            '[[event]]\nat = "0.5 s"\nlink = "one"\nset = { state = "down" }\n'
        )
    flows = {flow["name"]: flow for flow in measured(scenario, 'duration="2 s"', 'warmup="0 s"')["flows"]}
    assert flows["datagrams"]["written_bytes"] == pytest.approx(100_000, rel=0.1)
    assert flows["datagrams"]["delivered_bytes"] < 50_000


def test_reverse_data_has_its_paths(scenario: str) -> None:
    protocol = "mptcp" if mptcp() else "tcp"
    document = measured(scenario, "flow.F.direction=reverse", f"flow.F.protocol={protocol}")
    (flow,) = document["flows"]
    assert flow["goodput_bps"] > 3e6
    assert flow["paths"][0]["local"].startswith("10.0.0.2:5001")
    assert flow["paths"][0]["cwnd_mean_bytes"] > 10_000
    assert sum(path["goodput_bps"] for path in flow["paths"]) > 3e6


@pytest.mark.parametrize("version", ["v4", "v6"])
def test_kernel_super_packets_are_segmented_first(scenario: str, version: str) -> None:
    document = measured(
        scenario, f'ip="{version}"', 'duration="2 s"', 'warmup="0.5 s"', 'link.one.rate="1 Gbit/s"',
        'link.one.delay="1 ms"', 'link.one.queue={ kind = "fifo", limit = "1000 packets" }', "flow.F.congestion=cubic",
    )  # fmt: skip
    (flow,) = document["flows"]
    # Received data are compared with sent data. A busy machine lowers the rate, which the link limits.
    assert flow["goodput_bps"] > 5e7
    forward, back = (link for link in document["links"] if link["name"] == "one")
    assert forward["drops_by_cause"]["mtu"] == 0
    assert 1300 < forward["bytes"] / forward["packets"] <= 1500
    assert back["bytes"] / back["packets"] < 100


def test_ipv6_addresses_match_the_simulator(scenario: str) -> None:
    document = measured(scenario, 'ip="v6"', 'duration="2 s"', 'warmup="0.5 s"')
    (path,) = document["flows"][0]["paths"]
    assert path["local"].startswith("[2001:db8::1]")
    assert document["flows"][0]["goodput_bps"] > 1e6


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_subflows_use_both_versions_of_ip(scenario: str) -> None:
    document = measured(scenario, 'ip="both"', "flow.F.protocol=mptcp")
    (flow,) = document["flows"]
    carrying = {path["name"] for path in flow["paths"] if path["throughput_bps"] > 0}
    assert carrying == {"one:v4", "one:v6", "two:v4", "two:v6"}
    # More than one link carries, also on a busy machine.
    assert flow["goodput_bps"] > 3e6


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_subflows_use_several_addresses_of_a_link(scenario: str) -> None:
    (flow,) = measured(scenario, "link.one.addresses=[2, 1]", "flow.F.protocol=mptcp")["flows"]
    ends = {path["local"].rpartition(":")[0] for path in flow["paths"] if path["throughput_bps"] > 0}
    assert ends == {"10.0.0.1", "172.16.0.1", "10.0.0.5"}


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_repeated_bytes_are_counted_for_tcp() -> None:
    event = '[[event]]\nat = "1 s"\nlink = "one"\nset = { loss = { model = "bernoulli", rate = 0.03 } }\n'
    text = SCENARIO.replace('duration = "3 s"', 'duration = "7 s"') + event
    document = run(Scenario.from_toml(text), world="kernel").document
    (flow,) = document["flows"]
    # 3 % are lost; the queue drops some more.
    assert 0.015 < flow["repeated_share"] < 0.1
    # The counters of Multipath TCP are incomplete.
    text = text.replace('protocol = "tcp"', 'protocol = "mptcp"')
    (flow,) = run(Scenario.from_toml(text), world="kernel").document["flows"]
    assert "repeated_share" not in flow
    own = text.replace('protocol = "mptcp"', 'protocol = "mptcp"\nstack = { from = "user" }')
    (flow,) = run(Scenario.from_toml(own), world="kernel").document["flows"]
    assert 0 < flow["repeated_share"] < 0.2


def bad(name: str, *settings: str, says: str) -> object:
    return pytest.param(settings, says, id=name)


MISTAKES = [
    bad("sctp", "flow.F.protocol=sctp", says="the kernel's world has no sctp"),
    bad("cmt-sctp", "flow.F.protocol=cmt-sctp", says="the kernel's world has no cmt-sctp"),
    bad("lia-2011", "flow.F.congestion=lia-2011", says="no congestion control lia-2011"),
    bad("coupled", "flow.F.protocol=mptcp", "flow.F.congestion=lia-2011", says="or use --world sim"),
    bad("weighted", "flow.F.protocol=mptcp", "flow.F.scheduler=weighted", says="no scheduler weighted"),
    bad("many ports", "flow.F.protocol=mptcp", 'flow.F.paths="ndiffports:10"', says="at most 9 subflows"),
    bad("round-robin", "flow.F.protocol=mptcp", "flow.F.scheduler=round-robin", says="no scheduler round-robin"),
    bad("redundant", "flow.F.protocol=mptcp", "flow.F.scheduler=redundant", says="no scheduler redundant"),
    bad(
        "tiny datagrams", "flow.F.protocol=udp",
        'flow.F.workload={ kind = "rate", rate = "1 Mbit/s", message = "8 B" }', says="a header of 16 bytes",
    ),
    bad(
        "long datagrams", "flow.F.protocol=udp",
        'flow.F.workload={ kind = "rate", rate = "1 Mbit/s", message = "70 kB" }', says="a datagram has at most",
    ),
    bad("shared address", 'link.two.address_of="one"', 'link.two.between=["A", "R"]', says="which only the simulator"),
    bad("an unknown key", "flow.F.congestoin=reno", says="congestion"),
    bad("no link", 'flow.F.to="C"', says="no link leads"),
]  # fmt: skip


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize(("settings", "says"), MISTAKES)
def test_unsupported_kernel_feature_is_one_sentence(settings: tuple[str, ...], says: str) -> None:
    # Datagrams have no congestion control.
    text = SCENARIO.replace('congestion = "reno"\n', "") if "flow.F.protocol=udp" in settings else SCENARIO
    chosen = Scenario(text).with_settings(settings)
    with pytest.raises(InputError) as raised:
        run(chosen, world="kernel")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "s.toml", "--world", "kernel", "--pcap", "x.pcapng", "--pcap-end", "C"), 'link end "C" to capture'),
        (("run", "s.toml", "--world", "kernel", "--pcap", "x.pcapng", "--pcap-flow", "G"), 'no flow "G" to capture'),
        (("run", "s.toml", "--world", "kernel", "--pcap", "no/x.pcapng"), "cannot write no/x.pcapng"),
        (("run", "s.toml", "--world", "kernel", "--check-wire"), "cannot check packets"),
        (("run", "s.toml", "--world", "krnl"), "krnl"),
        (("emulate", "s.toml"), "Missing argument"),
        (("emulate", "s.toml", "--in", "C", "true"), 'no host "C"'),
        (("emulate", "nothing.toml", "true"), "No such file"),
        (("testbed", "shell", "s.toml", "true"), "is not up"),
        (("testbed", "up", "nothing.toml"), "No such file"),
        (("emulate", "s.toml", "--spin", "20000", "true"), "--spin"),
        (("emulate", "s.toml", "--set", "link.one", "true"), "link.one"),
        (("emulate", "s.toml", "--set", "link.three.rate=1 Mbit/s", "true"), "three"),
        (("testbed", "shell", "nothing.toml"), "is not up"),
        (("testbed", "down", "nothing.toml"), "nothing.toml: no such file, and no testbed of it is up"),
        (("run", "s.toml", "--world", "kernel", "--trace-changes"), "--trace DIR"),
        (("run", "s.toml", "--world", "kernel", "--set", 'duration="0 s"'), "duration"),
        (("emulate", "s.toml", "--set", "flow.F.protocol=sctp", "--in", "C", "true"), 'no host "C"'),
    ],
)
def test_mistakes_on_the_command_line_are_one_sentence(
    scenario: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(Path(scenario).parent)
    done = anabranch(*arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        ["flow.F.protocol=sctp"],
        ["flow.F.protocol=cmt-sctp"],
        ["flow.F.congestion=lia-2011"],
        ["flow.F.protocol=mptcp", "flow.F.scheduler=redundant"],
        ["flow.F.protocol=mptcp", 'flow.F.paths="ndiffports:3"'],
    ],
)
def test_emulate_runs_programs_with_any_flow_settings(scenario: str, settings: list[str]) -> None:
    options = [part for setting in settings for part in ("--set", setting)]
    done = anabranch("emulate", scenario, *options, "--", "echo", "carried")
    assert (done.returncode, done.stdout) == (0, "carried\n"), done.stderr


def test_emulate_applies_the_first_flow_s_settings(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write('[[flow]]\nname = "G"\nfrom = "A"\nto = "B"\nprotocol = "tcp"\ntimestamps = false\n')
    done = anabranch("emulate", scenario, "--", "cat", "/proc/sys/net/ipv4/tcp_timestamps")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_capture_has_the_packets_of_kernels(scenario: str, tmp_path: Path) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write('[[flow]]\nname = "G"\nfrom = "A"\nto = "B"\nprotocol = "tcp"\n')
    capture = tmp_path / "k.pcapng"
    options = ("--pcap", str(capture), "--pcap-flow", "F", "--pcap-end", "A", "--pcap-snaplen", "60")
    short = ("--set", "flow.F.protocol=mptcp", "--set", 'duration="1 s"', "--set", 'warmup="0 s"')
    done = anabranch("run", scenario, "--world", "kernel", *options, *short)
    assert done.returncode == 0, done.stderr
    content = capture.read_bytes()
    for interface in (b"A:one", b"A:two", b"A:one dropped"):
        assert interface in content
    assert b"B:one" not in content
    packets = [packet for each in replay.capture(capture, is_whole=False).values() for packet in each]
    ports = {end.rpartition(":")[2] for packet in packets for end in packet.ends}
    # The second flow uses the next port and has no packets here.
    assert (len(packets) > 20, "5001" in ports, "5002" in ports) == (True, True, False)
    again = anabranch("run", scenario, "--world", "kernel", "--pcap", "/dev/full", *short)
    assert (again.returncode, "cannot write /dev/full: No space left" in again.stderr) == (1, True), again.stderr


def test_results_have_the_counters_of_kernels(scenario: str, tmp_path: Path) -> None:
    document = measured(scenario, 'link.one.loss={ model = "bernoulli", rate = 0.02 }', trace=tmp_path / "trace")
    counters = {host["name"]: host["counters"] for host in document["hosts"]}
    assert set(counters) == {"A", "B"}
    assert counters["A"]["TcpActiveOpens"] == 1
    assert counters["A"]["TcpRetransSegs"] > 0
    assert counters["B"]["IpInReceives"] > 100
    assert not any(name.startswith("Icmp") for name in counters["A"])
    (path,) = document["flows"][0]["paths"]
    assert path["kernel"]["state"] == 1
    assert path["kernel"]["total_retrans"] == path["retransmissions"]
    for name, columns in (
        ("counters.csv", ["host", "counter", "count"]),
        ("subflows.csv", ["flow", "path", "field", "value"]),
    ):
        rows = list(csv.DictReader((tmp_path / "trace" / name).open(encoding="utf-8")))
        assert list(rows[0]) == ["time_s", *columns]
        assert len(rows) > 10


def test_empty_list_of_testbeds_is_a_sentence() -> None:
    from anabranch.testbed.bed import kept

    if kept():
        pytest.skip("another testbed is up on this machine")
    listed = anabranch("testbed", "list")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "anabranch: no testbed is up\n")


LATE = """
[[event]]
at = "1 s"
link = "two"
set = { state = "up" }
"""


def _late(scenario: str, text: str, *settings: str) -> list[list[str]]:
    """The links of the paths that carry data in a run whose link "two" comes up late and has no path before."""
    Path(scenario).write_text(text.replace('name = "two"', 'name = "two"\nstate = "down"') + LATE, encoding="utf-8")
    trace = Path(scenario).parent / "trace"
    (flow,) = measured(scenario, "flow.F.protocol=mptcp", *settings, trace=trace)["flows"]
    rows = list(csv.DictReader((trace / "paths.csv").open(encoding="utf-8")))
    assert all(float(row["time_s"]) >= 1.0 for row in rows if row["path"].startswith("two"))
    return [path["links"] for path in flow["paths"] if path["throughput_bps"] > 0]


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize("paths", ["fullmesh", "disjoint"])
@pytest.mark.parametrize("version", ["v4", "v6"])
def test_link_that_starts_down_is_used_once_up(scenario: str, paths: str, version: str) -> None:
    used = _late(scenario, SCENARIO, f'flow.F.paths="{paths}"', f'ip="{version}"')
    assert used == [["one"], ["two"]]


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize("paths", ["fullmesh", "disjoint"])
def test_late_link_makes_paths_through_routers(scenario: str, paths: str) -> None:
    # The receiver's interface behind the second router is up all the time: its kernel gets no event.
    near = SCENARIO.replace('between = ["A", "B"]', 'between = ["A", "R1"]', 1)
    near = near.replace('between = ["A", "B"]', 'between = ["A", "R2"]', 1)
    far = BEHIND.replace('"R"', '"R1"', 1).replace('"R"', '"R2"', 1)
    assert _late(scenario, near + far, f'flow.F.paths="{paths}"') == [["one", "east"], ["two", "west"]]


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_connection_uses_a_link_that_comes_up_later(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write('[[flow]]\nname = "G"\nfrom = "A"\nto = "B"\nprotocol = "mptcp"\nstart = "600 ms"\n')
        file.write('[[event]]\nat = "500 ms"\nlink = "two"\nset = { state = "down" }\n' + LATE)
    flows = measured(scenario, "flow.F.protocol=mptcp")["flows"]
    assert [flow["state"] for flow in flows] == ["open", "open"]
    assert all({"one", "two"} <= {path["links"][0] for path in flow["paths"]} for flow in flows)


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
@pytest.mark.parametrize("version", ["v4", "v6"])
def test_new_address_of_a_link_is_a_new_path(scenario: str, version: str) -> None:
    near = SCENARIO.replace('between = ["A", "B"]', 'between = ["A", "R"]')
    core = '[[link]]\nname = "core"\nbetween = ["R", "B"]\nrate = "50 Mbit/s"\n'
    event = LATE.replace('state = "up"', 'state = "up", address = "new"')
    Path(scenario).write_text(near + core + event, encoding="utf-8")
    (flow,) = measured(scenario, "flow.F.protocol=mptcp", f'ip="{version}"')["flows"]
    used = [path for path in flow["paths"] if path["throughput_bps"] > 0]
    new = {"v4": "100.64.", "v6": "[2001:db8:40:"}[version]
    assert any(path["local"].startswith(new) and path["links"][0] == "two" for path in used), flow["paths"]
    assert flow["state"] == "open"
    assert flow["gap_s"] < 1.0


@pytest.mark.skipif(not mptcp(), reason="this kernel has no Multipath TCP")
def test_event_of_a_flow_makes_a_path_a_backup(scenario: str) -> None:
    event = '[[event]]\nat = "300 ms"\nflow = "F"\nset = { backup = ["two"] }\n'
    Path(scenario).write_text(SCENARIO.replace('"tcp"', '"mptcp"') + event, encoding="utf-8")
    (flow,) = measured(scenario)["flows"]
    rates = {path["links"][0]: path["throughput_bps"] for path in flow["paths"]}
    assert rates.get("two", 0.0) < 0.05 * rates["one"]


def test_study_runs_on_kernel_and_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = small_study.STUDY.replace("repetitions = 2", "repetitions = 1").replace('"5 s"', '"2 s"')
    small_study.write(tmp_path / "mine", study=study)
    done = anabranch("study", "run", "./mine", "--quick", "--world", "kernel")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results" / "mine").iterdir()
    assert folder.name == "quick-kernel"
    # A checksum, then the record; the first line is the store's header.
    lines = (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    records = [json.loads(line.split(" ", 1)[1]) for line in lines]
    assert len(records) == 2
    assert all(record["document"]["world"] == "kernel" for record in records)
    assert (folder / "report.md").is_file()
    refused = anabranch("study", "run", "bbr-alone", "--quick", "--world", "kernel")
    assert (refused.returncode, "the kernel's world has no" in refused.stderr) == (2, True)


def test_conflicting_kernel_settings_are_reported(scenario: str) -> None:
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write('[[flow]]\nname = "G"\nfrom = "A"\nto = "B"\nprotocol = "tcp"\ntimestamps = false\n')
    done = anabranch("run", scenario, "--world", "kernel")
    assert done.returncode == 2
    assert "one net.ipv4.tcp_timestamps for all flows" in done.stderr


ECHO = "import socket, sys; s = socket.create_server(('', 9)); c, _ = s.accept(); c.sendall(c.recv(5)); c.close()"
ASK = (
    "import os, socket, subprocess, sys, time\n"
    "hosts = dict(part.split('=') for part in os.environ['ANABRANCH_HOSTS'].split())\n"
    "echo = subprocess.Popen(['nsenter', '--net=/run/netns/' + hosts['B'], sys.executable, '-c', sys.argv[1]])\n"
    "for _ in range(100):\n"
    "    try:\n"
    "        s = socket.create_connection(('B', 9))\n"
    "        break\n"
    "    except OSError:\n"
    "        time.sleep(0.05)\n"
    "begun = time.monotonic()\n"
    "s.sendall(b'hello')\n"
    "print(s.recv(5).decode(), time.monotonic() - begun)\n"
    "echo.wait()\n"
)


def test_program_on_a_host_resolves_the_others(scenario: str) -> None:
    done = anabranch("emulate", scenario, "--", sys.executable, "-c", ASK, ECHO)
    assert done.returncode == 0, done.stderr
    said, seconds = done.stdout.split()
    assert said == "hello"
    assert float(seconds) >= 0.02


def test_command_returns_the_status_of_the_program(scenario: str) -> None:
    assert anabranch("emulate", scenario, "--", "sh", "-c", "exit 7").returncode == 7
    assert anabranch("emulate", scenario, "--", "no-such-program").returncode == 127


def test_testbed_stays_up_until_taken_down(scenario: str) -> None:
    up = anabranch("testbed", "up", scenario)
    try:
        assert up.returncode == 0, up.stderr
        rows = [line.split() for line in up.stdout.splitlines()]
        assert [(row[0], row[2:]) for row in rows] == [("A", ["10.0.0.1", "10.0.0.5"]), ("B", ["10.0.0.2", "10.0.0.6"])]
        assert {row[1] for row in rows} <= {path.name for path in Path("/run/netns").iterdir()}
        listed = anabranch("testbed", "list").stdout
        assert any(line.endswith(scenario) for line in listed.splitlines()), listed
        again = anabranch("testbed", "up", scenario)
        assert (again.returncode, "up already" in again.stderr) == (2, True)
        inside = anabranch("testbed", "shell", scenario, "--in", "B", "ip", "-brief", "address")
        assert "10.0.0.2/32" in inside.stdout
        # Start a second testbed at the same time.
        beside = anabranch("emulate", scenario, "--", "ip", "-brief", "address")
        assert "10.0.0.1/32" in beside.stdout
    finally:
        down = anabranch("testbed", "down", scenario)
    assert "taken down" in down.stdout
    assert scenario not in anabranch("testbed", "list").stdout
    gone = anabranch("testbed", "shell", scenario, "true")
    assert gone.returncode == 2


INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("anabranch", run_name="__main__", alter_sys=True)
"""
"""The command line with Ctrl-C enabled: a shell ignores it for tests that it starts in the background."""


def begun(scenario: str, *command: str, hosts: int = 2) -> subprocess.Popen[str]:
    """A run that has already made processes and devices, which have to be removed."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    locks = Path("/run/anabranch")
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for lock in locks.glob("*.lock"):
            made = [name for name in Path("/run/netns").iterdir() if lock.stem in name.name]
            with suppress(FileNotFoundError):
                if f'"pid": {process.pid}' in lock.read_text() and len(made) == hosts:
                    return process
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"{scenario} did not begin")


def test_next_start_removes_remains_of_a_killed_run(scenario: str) -> None:
    process = begun(scenario, "run", scenario, "--world", "kernel")
    process.kill()
    process.communicate()
    assert _left_behind()
    assert anabranch("emulate", scenario, "--", "true").returncode == 0
    assert _left_behind() == []


def test_down_removes_remains_of_a_killed_testbed(scenario: str) -> None:
    process = begun(scenario, "emulate", scenario, "--", "sleep", "60")
    process.kill()
    process.communicate()
    # The parent of the program on the host has ended.
    done = anabranch("testbed", "down")
    assert done.stdout.count("removed ab-") >= 2
    assert _left_behind() == []


def test_ctrl_c_cleans_up(scenario: str) -> None:
    process = begun(scenario, "run", scenario, "--world", "kernel")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.strip() == "anabranch: interrupted"
    assert _left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_run_cleans_up(scenario: str, number: signal.Signals) -> None:
    # A run inherits ignored signals, as under nohup, and would ignore them too.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = begun(scenario, "run", scenario, "--world", "kernel")
    finally:
        signal.signal(number, before)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert _left_behind() == []


def test_remains_of_killed_proxies_are_removed(proxied: str) -> None:
    before = {path.name for path in Path("/run/anabranch").iterdir()}
    temporary = set(Path(tempfile.gettempdir()).glob("anabranch-*"))
    process = begun(proxied, "run", proxied, "--world", "kernel", hosts=3)
    while not list(Path("/run/anabranch").glob("*.proxies/*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert set(Path(tempfile.gettempdir()).glob("anabranch-*")) <= temporary
    assert anabranch("testbed", "down").returncode == 0
    assert [path.name for path in Path("/run/anabranch").glob("*.proxies") if path.name not in before] == []


def test_interfaces_switch_by_the_clock_of_the_network(proxied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.testbed import bed, proxies

    moments: dict[str, float] = {}
    listens, follow = proxies._Running.wait_until_it_listens, bed.Testbed._run_events

    def listening(process: Any) -> None:
        listens(process)
        moments["listens"] = time.monotonic()

    def following(testbed: bed.Testbed, zero_s: float) -> None:
        moments["zero"] = zero_s
        follow(testbed, zero_s)

    monkeypatch.setattr(proxies._Running, "wait_until_it_listens", listening)
    monkeypatch.setattr(bed.Testbed, "_run_events", following)
    run(Scenario.from_file(proxied).with_settings(('duration="0.5 s"', 'warmup="0 s"')), world="kernel")
    # The scenario's time begins when its proxies are ready.
    assert moments["listens"] <= moments["zero"] <= time.monotonic()


def test_failed_interface_switch_is_reported(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.testbed import hosts

    def refuse(*_: object, **__: object) -> None:
        raise RunFailed("the kernel refuses")

    monkeypatch.setattr(hosts, "switch", refuse)
    with Path(scenario).open("a", encoding="utf-8") as file:
        file.write('[[event]]\nat = "0.2 s"\nlink = "two"\nset = { state = "down" }\n')
    with pytest.raises(RunFailed, match=r"the event at 0\.2 s failed: the kernel refuses"):
        run(Scenario.from_file(scenario).with_settings(('duration="0.5 s"', 'warmup="0 s"')), world="kernel")


def test_failed_network_is_reported(scenario: str) -> None:
    if reason := missing("ip"):
        pytest.skip(reason)
    done = anabranch(
        "emulate", scenario, "--", "sh", "-c", "ip link del dev one; while ip link show dev two 2>&-; do :; done"
    )
    assert (done.returncode, "the emulated network failed" in done.stderr) == (1, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_unwritable_trace_is_reported(scenario: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "queues.csv").symlink_to("/dev/full")
    short = ("--set", 'duration="0.3 s"', "--set", 'warmup="0 s"')
    done = anabranch("run", scenario, "--world", "kernel", "--trace", str(trace), *short)
    assert (done.returncode, "queues.csv: No space left" in done.stderr) == (1, True), done.stderr


def test_links_may_have_names_of_other_interfaces(scenario: str) -> None:
    text = Path(scenario).read_text(encoding="utf-8")
    text = text.replace('"one"', '"link1"').replace('"two"', '"a-rather-long-name-of-a-link"')
    Path(scenario).write_text(text, encoding="utf-8")
    assert measured(scenario, 'duration="1 s"', 'warmup="0 s"')["flows"][0]["delivered_bytes"] > 10_000


def test_user_namespace_is_enough(scenario: str) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel makes no user namespaces")
    command = [*namespace, sys.executable, "-m", "anabranch", "run", scenario, "--world", "kernel", "--json"]
    environment = {**os.environ, "ANABRANCH_WITHIN_USER_NAMESPACE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows"][0]["goodput_bps"] > 3e6


def test_command_without_root_restarts_or_explains(scenario: str) -> None:
    others = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if reason := missing("setpriv"):
        pytest.skip(reason)
    if subprocess.run([*others, "sh", "-c", f"{sys.executable} -c pass"], capture_output=True, check=False).returncode:
        pytest.skip("only root may run this Python")
    command = [*others, sys.executable, "-B", "-m", "anabranch", "testbed", "up", scenario]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    assert (done.returncode, "only root" in done.stderr) == (2, True)


def test_doctor_accepts_this_machine() -> None:
    done = anabranch("doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert findings["TUN interfaces"]["there"]
    assert findings["Multipath TCP"]["there"] is mptcp()
    assert done.returncode == 0
    assert "TUN interfaces" in anabranch("doctor").stdout
