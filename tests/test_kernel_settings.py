"""The kernels' settings that follow from flows; no kernel is used."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anabranch import InputError, _native
from anabranch._core.simulator import Request
from anabranch.errors import RunFailed
from anabranch.testbed import hosts, namespaces, netem, proxies, rootless
from anabranch.testbed.bed import Testbed
from anabranch.testbed.kernel import Kernel, differences
from anabranch.testbed.settings import settings

TEXT = """
title = "Two ways"
duration = "3 s"
[[link]]
name = "one"
between = ["A", "B"]
rate = "10 Mbit/s"
[[link]]
name = "two"
between = ["A", "B"]
rate = "10 Mbit/s"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "mptcp"
congestion = "reno"
"""
EXAMPLE = Path(__file__).parent.parent / "examples" / "gateways.toml"
OLD = Kernel("5.4.0", ("reno", "cubic"), (), mptcp=False, tun=True)
NEW = Kernel("6.12.0", ("reno", "cubic"), ("default", "burst"), mptcp=True, tun=True)
LIA = Kernel("6.12.0", ("lia",), ("default",), mptcp=True, tun=True)

if not hasattr(_native, "layout"):
    pytest.skip("the kernel's world is Linux's", allow_module_level=True)


def layout(*overrides: str, text: str = TEXT) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_native.layout(text, "s.toml", list(overrides)))
    return found


def test_endpoints_follow_the_path_manager_and_the_backup() -> None:
    found = settings(layout('flow.F.backup=["two"]'))
    assert found["A"].endpoints == {"10.0.0.1": 2 | 8, "10.0.0.5": 2 | 8 | 4}
    assert found["B"].endpoints == {"10.0.0.2": 1, "10.0.0.6": 1 | 4}
    assert settings(layout('flow.F.paths="default"'))["A"].endpoints == {}
    assert (found["A"].manager, found["A"].joins, found["B"].joins) == ("fullmesh", True, True)
    alone = settings(layout('flow.F.paths="default"'))
    assert [alone[name].joins for name in "AB"] == [False, False]


def test_disjoint_pairs_use_routes_to_added_addresses() -> None:
    found = settings(layout('flow.F.paths="disjoint"', 'flow.F.backup=["two"]'))
    # With an endpoint, the sender would also join from it to the receiver's first address.
    assert (found["A"].manager, found["A"].endpoints) == ("disjoint", {})
    assert found["A"].ways == {"10.0.0.2": 0, "10.0.0.6": 1}
    assert found["B"].endpoints == {"10.0.0.2": 1, "10.0.0.6": 1 | 4}
    assert (found["B"].manager, found["B"].ways) == ("", {})
    # An address beyond the last pair belongs to no path and is not announced.
    third = '[[link]]\nname = "three"\nbetween = ["B", "C"]\nrate = "1 Mbit/s"\n'
    announced = settings(layout('flow.F.paths="disjoint"', text=TEXT + third))["B"].endpoints
    assert announced == {"10.0.0.2": 1, "10.0.0.6": 1}


def test_accepting_host_announces_ports() -> None:
    found = settings(layout('flow.F.paths="ndiffports:4"', 'flow.F.initial_path="two"'))
    assert (found["A"].ports, found["A"].endpoints, found["A"].ways) == ({}, {}, {"10.0.0.6": 1})
    assert (found["B"].ports, found["B"].endpoints) == ({"10.0.0.6": 3}, {})
    assert (found["A"].joins, found["B"].joins) == (True, True)
    alone = settings(layout('flow.F.paths="ndiffports:1"'))
    assert [(alone[name].ports, alone[name].joins) for name in "AB"] == [({}, False), ({}, False)]
    # The port of a host's first connection is that of its proxy.
    assert settings(layout('flow.F.paths="ndiffports:2"', text=PROXIED))["P"].ports == {"10.0.0.10": 1}


def test_own_stack_needs_no_announced_ports() -> None:
    found = settings(layout('flow.F.paths="ndiffports:4"', 'flow.F.stack={ from = "user" }', "flow.F.ecn=true"))
    assert (found["B"].ports, found["B"].joins, found["B"].endpoints) == ({}, True, {})


SECOND = '[[flow]]\nname = "G"\nfrom = "{}"\nto = "{}"\nprotocol = "mptcp"\ncongestion = "reno"\n'
THIRD = '[[link]]\nname = "three"\nbetween = ["A", "C"]\nrate = "1 Mbit/s"\n'


@pytest.mark.parametrize(
    ("ends", "paths", "host"),
    [
        # Endpoints belong to a host, so the kernel announces them on each connection of the host.
        ("AB", "default", "A"),
        ("AB", "fullmesh", "A"),
        ("AB", "ndiffports:2", "B"),
        ("BA", "default", "B"),
        ("BA", "ndiffports:3", "B"),
        ("CA", "default", "A"),
        ("AC", "default", "A"),
        ("CB", "fullmesh", "B"),
    ],
)
def test_ports_exclude_other_path_managers(ends: str, paths: str, host: str) -> None:
    second = SECOND.format(*ends) + f'paths = "{paths}"\n'
    refused = paths != "default" or ends not in {"CA"}
    text = TEXT.replace('congestion = "reno"\n', 'congestion = "reno"\npaths = "ndiffports:3"\n')
    links = THIRD + THIRD.replace("three", "four").replace('"A"', '"B"')
    chosen = layout(text=text + second + links)
    if not refused:
        assert settings(chosen)["B"].ports == {"10.0.0.2": 2}
        return
    reason = "announces ports on all connections" if host == "B" else "has one path manager for all flows"
    with pytest.raises(InputError, match=f'"G": the kernel {reason} of host "{host}"'):
        settings(chosen)


def test_ports_of_disabled_multipath_tcp_are_not_checked() -> None:
    text = TEXT.replace('congestion = "reno"\n', 'congestion = "reno"\npaths = "ndiffports:20"\n')
    disabled = layout(text=text + '[[host]]\nname = "B"\nmptcp = false\n')
    assert settings(disabled)["B"].ports == {}


def test_equal_flows_share_announced_ports() -> None:
    text = TEXT.replace('congestion = "reno"\n', 'congestion = "reno"\npaths = "ndiffports:3"\n')
    tcp = SECOND.format("B", "A").replace("mptcp", "tcp").replace('"G"', '"H"')
    found = settings(layout(text=f'{text}{SECOND.format("A", "B")}paths = "ndiffports:3"\n{tcp}'))
    assert (found["A"].ports, found["B"].ports) == ({}, {"10.0.0.2": 2})


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (('flow.F.paths="ndiffports:10"',), 'at most 9 subflows; set paths = "ndiffports:9", or use --world sim'),
        (('flow.F.paths="ndiffports:10"', 'flow.F.stack={ from = "user" }'), "at most 9 subflows"),
        (('flow.F.stack={ to = "user" }',), 'the own stack of host "B" announces none'),
        (('ip="v6"',), "set timestamps = false, or use --world sim"),
        (('flow.F.backup=["two"]',), "remove backup, or use --world sim"),
    ],
)
def test_impossible_announced_ports_are_refused(overrides: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=f'^flow "F": .*{re.escape(says)}'):
        settings(layout('flow.F.paths="ndiffports:2"', *overrides))
    settings(layout('flow.F.paths="ndiffports:2"', 'ip="v6"', "flow.F.timestamps=false"))


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ('flow = "F"\nset = { backup = ["two"] }', "remove backup"),
        ('link = "one"\nset = { state = "up", address = "new" }', "cannot move subflows of ndiffports"),
    ],
)
def test_events_without_effect_on_ports_are_refused(event: str, says: str) -> None:
    text = f'{TEXT}[[event]]\nat = "1 s"\n{event}\n'
    settings(layout(text=text))
    with pytest.raises(InputError, match=says):
        settings(layout('flow.F.paths="ndiffports:2"', text=text))
    other = text.replace('link = "one"\nset', 'link = "two"\nset')
    if other != text:
        settings(layout('flow.F.paths="ndiffports:2"', text=other))


def test_both_versions_have_endpoints_and_pairs() -> None:
    both = settings(layout('ip="both"'))
    assert both["A"].endpoints == dict.fromkeys(("10.0.0.1", "2001:db8::1", "10.0.0.5", "2001:db8:0:1::1"), 2 | 8)
    assert "net.ipv6.conf.all.disable_ipv6" not in both["A"].sysctls
    pairs = settings(layout('ip="both"', 'link.two.ip="v4"', 'flow.F.paths="disjoint"'))["A"].ways
    assert pairs == {"10.0.0.2": 0, "2001:db8::2": 1, "10.0.0.6": 2}
    several = settings(layout("link.one.addresses=[1, 2]"))["B"].endpoints
    assert several == {"10.0.0.2": 1, "172.16.0.2": 1, "10.0.0.6": 1}


def test_main_table_has_routes_of_each_version() -> None:
    host = '[[host]]\nname = "A"\ndefault_route = "two"\nroutes = [["one", "one"]]\n'
    main = settings(layout('ip="both"', 'flow.F.paths="default"', text=TEXT + host))["A"].main
    assert main == {"10.0.0.2": 0, "2001:db8::2": 1, "10.0.0.6": 2, "2001:db8:0:1::2": 3}
    without = settings(layout('ip="both"', 'link.two.ip="v4"', 'flow.F.paths="default"', text=TEXT + host))["A"].main
    assert without == {"10.0.0.2": 0, "2001:db8::2": 1, "10.0.0.6": 2}


def test_hosts_take_offload_from_the_scenario() -> None:
    assert {host.offload for host in settings(layout()).values()} == {True}
    assert {host.offload for host in settings(layout("offload=false")).values()} == {False}


def test_kernel_parameters_and_metrics_follow_the_flow() -> None:
    found = settings(
        layout(
            'flow.F.recovery="sack"', "flow.F.ecn=true", "flow.F.delayed_ack=false", "flow.F.initial_window=3",
            'flow.F.rto_min="300 ms"', 'flow.F.send_buffer="64 KiB"', 'flow.F.receive_buffer="2 MB"', "flow.F.mtu=1280",
        )
    )  # fmt: skip
    sysctls = found["A"].sysctls
    assert (sysctls["net.ipv4.tcp_recovery"], sysctls["net.ipv4.tcp_early_retrans"]) == ("0", "0")
    assert (sysctls["net.ipv4.tcp_ecn"], sysctls["net.mptcp.scheduler"]) == ("1", "default")
    assert sysctls["net.ipv4.tcp_wmem"] == "4096 131072 131072"
    assert found["B"].sysctls["net.ipv4.tcp_rmem"] == "4096 131072 4000000"
    assert found["B"].metrics["A"] == {"initcwnd": 3, "rto_min": 300, "quickack": 1, "mtu": 1280}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("ecn = true", "one net.ipv4.tcp_ecn for all flows"),
        ("initial_window = 2", "one initcwnd for all flows"),
        ("timestamps = false", "one net.ipv4.tcp_timestamps for all flows"),
        ('recovery = "sack"', "one net.ipv4.tcp_recovery for all flows"),
        ('rto_min = "500 ms"', "one rto_min for all flows"),
        ("delayed_ack = false", "one quickack for all flows"),
        ('protocol = "mptcp"\ncongestion = "reno"\npaths = "disjoint"', "one path manager for all flows"),
        ('protocol = "mptcp"\ncongestion = "reno"\ndss_checksum = true', "one net.mptcp.checksum_enabled"),
    ],
)
def test_conflicting_flow_settings_are_refused(second: str, says: str) -> None:
    protocol = "" if "protocol" in second else 'protocol = "tcp"\n'
    text = f'{TEXT}[[flow]]\nname = "G"\nfrom = "A"\nto = "B"\n{protocol}{second}\n'
    with pytest.raises(InputError, match=says):
        settings(layout(text=text))


@pytest.mark.parametrize(
    ("kernel", "overrides", "says"),
    [
        (OLD, (), "has no Multipath TCP; use Linux 5.6 or newer"),
        (NEW, ("flow.F.congestion=bbr",), "no congestion control bbr .it has cubic, reno."),
        (NEW, ("flow.F.congestion=vegas",), "load the module tcp_vegas if there is one"),
        (NEW, ("flow.F.congestion=westwood",), "load the module tcp_westwood if there is one"),
        (NEW, ("flow.F.congestion=ledbat",), "Linux has no congestion control ledbat; use --world sim"),
        (NEW, ("flow.F.scheduler=weighted",), "no scheduler weighted .it has default, burst"),
        (NEW, ("flow.F.scheduler=redundant",), "no scheduler redundant"),
        (NEW, ("flow.F.congestion=lia-2011",), "load the module tcp_lia-2011 if there is one"),
        (NEW, ("flow.F.syn_retransmission=multipath",), "retransmits a SYN over the same address pair only"),
        (NEW, ("flow.F.network_control=true",), "the kernel sends no requests of network control"),
        (LIA, ("flow.F.congestion=lia", "flow.F.couple=shared"), "couple all paths"),
        (Kernel("6.12.0", ("reno",), (), mptcp=True, tun=False), (), "modprobe tun"),
    ],
)
def test_unsupported_kernel_settings_are_named(kernel: Kernel, overrides: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        kernel.check(layout(*overrides)["scenario"]["flow"])


@pytest.mark.parametrize("stack", ["kernel", "user"])
def test_gateways_are_refused_in_the_kernels_world(stack: str) -> None:
    text = EXAMPLE.read_text().replace('paths = "binder"', f'paths = "binder"\nstack = "{stack}"')
    with pytest.raises(InputError, match="no path manager binder; choose another, or use --world sim or --world user"):
        NEW.check(layout(text=text)["scenario"]["flow"])


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (('ip="v6"',), "IPv4 only"),
        (('link.one.queue={ kind = "codel" }',), "no queue codel"),
        (('link.one.jitter="1 ms"',), "reorders packets"),
        (('link.one.reorder={ rate = 0.01, delay = "1 ms" }',), "reorders packets differently"),
        (('link.one.loss={ model = "periodic", every = 10 }',), "no loss model periodic"),
        (('link.one.loss={ model = "list", packets = [1, 7] }',), "no loss model list"),
        (("link.one.duplicate.rate=0.1",), "duplicates packets differently"),
        (('link.two.state="down"',), "start in state up"),
    ],
)
def test_settings_unknown_to_netem_are_refused(overrides: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=f"{says}.*; use --links emulator"):
        netem.check(layout(*overrides))


def test_links_of_netem_go_down_at_proxies_too() -> None:
    netem.check(layout(text=f'{PROXIED}[[event]]\nat = "1 s"\nlink = "to-p"\nset = {{ state = "down" }}\n'))


def test_root_with_user_environment_is_not_rootless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_WITHIN_USER_NAMESPACE", "1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for users, within in (("         0          0 4294967295\n", False), ("         0       1000          1\n", True)):
        monkeypatch.setattr(Path, "read_text", lambda *_, users=users, **__: users)
        assert rootless.inside() is within


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ('set = { rate = "1 Mbit/s" }', "can only set the state"),
        ('direction = "reverse"\nset = { state = "down" }', "in both directions"),
    ],
)
def test_events_unknown_to_netem_are_refused(event: str, says: str) -> None:
    text = f'{TEXT}[[event]]\nat = "1 s"\nlink = "one"\n{event}\n'
    with pytest.raises(InputError, match=says):
        netem.check(layout(text=text))
    netem.check(layout())


PROXIED = (
    TEXT.replace('between = ["A", "B"]', 'between = ["A", "R"]')
    + 'through = "P"\n[[link]]\nname = "to-p"\nbetween = ["R", "P"]\nrate = "50 Mbit/s"\n'
    '[[link]]\nname = "to-b"\nbetween = ["R", "B"]\nrate = "50 Mbit/s"\n'
)


def test_proxy_host_has_addresses_on_both_sides() -> None:
    found = layout('flow.F.receive_buffer="2 MB"', 'flow.F.send_buffer="1 MB"', text=PROXIED)
    (proxy,) = found["proxies"]
    assert (proxy["host"], proxy["listen"], proxy["to"]) == ("P", "0.0.0.0:5001", "10.0.0.14:5001")
    hosts = settings(found)
    assert hosts["A"].endpoints == {"10.0.0.1": 2 | 8, "10.0.0.5": 2 | 8}
    assert hosts["P"].endpoints == {"10.0.0.10": 1}
    assert hosts["B"].endpoints == {}
    assert [hosts[name].sysctls.get("net.mptcp.enabled") for name in "APB"] == ["1", "1", None]
    assert hosts["P"].sysctls["net.ipv4.tcp_rmem"].endswith(" 4000000")
    assert hosts["P"].sysctls["net.ipv4.tcp_wmem"].endswith(" 2000000")
    assert hosts["B"].sysctls["net.ipv4.tcp_rmem"].endswith(" 4000000")
    assert set(hosts["P"].metrics) == {"A", "B"}
    assert any("proxy's connections use" in sentence for sentence in differences(found["scenario"]["flow"]))


def test_proxy_file_names_listener_and_target() -> None:
    text = proxies.settings(layout(text=PROXIED)["proxies"])
    (reverse,) = tomllib.loads(text)["reverse"]
    assert (reverse["listen"], reverse["to"]) == (["0.0.0.0:5001"], ["10.0.0.14:5001"])
    assert reverse["proxy_protocol"] == "v1"


def test_too_many_addresses_for_path_manager_refused() -> None:
    links = "".join(f'[[link]]\nname = "l{n}"\nbetween = ["A", "B"]\nrate = "1 Mbit/s"\n' for n in range(7))
    with pytest.raises(InputError, match='at most 8 addresses of a host, and "A" has 9'):
        settings(layout(text=TEXT + links))
    assert not settings(layout('flow.F.paths="default"', text=TEXT + links))["A"].joins


def test_kernel_error_for_a_parameter_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str, __: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(namespaces, "within", lambda _, work: work())
    monkeypatch.setattr(hosts, "set_sysctl", refuse)
    with pytest.raises(RunFailed, match=r"the kernel refuses net\.ipv4\.\S+ = 0: Operation not permitted"):
        hosts.prepare("ab-none", settings(layout())["A"])


def test_differences_are_reported_once() -> None:
    flows = layout("flow.F.recovery=sack")["scenario"]["flow"]
    sentences = differences([*flows, *flows])
    assert len(sentences) == len(set(sentences))
    assert any("PRR" in sentence for sentence in sentences)
    (floor,) = set(differences(layout("flow.F.protocol=tcp", "flow.F.ssthresh_floor=4")["scenario"]["flow"])) - set(
        differences(layout("flow.F.protocol=tcp")["scenario"]["flow"])
    )
    assert "two packets" in floor
    assert differences([{**flows[0], "protocol": "udp"}]) == []


def test_kernel_scheduler_and_windows_are_reported() -> None:
    def about_the_kernel(*overrides: str) -> list[str]:
        sentences = differences(layout(*overrides)["scenario"]["flow"])
        return [word for word in ("linux-ahead", "whole_packets") if any(word in sentence for sentence in sentences)]

    assert about_the_kernel() == ["linux-ahead"]
    assert about_the_kernel("flow.F.congestion=lia") == ["linux-ahead", "whole_packets"]
    own = ("flow.F.congestion=lia", "flow.F.scheduler=linux-ahead", "flow.F.whole_packets=true")
    assert about_the_kernel(*own) == []
    NEW.check(layout("flow.F.scheduler=linux-ahead")["scenario"]["flow"])


CROSSED = (
    TEXT.replace('"A", "B"', '"A", "R"')
    + """
[[link]]
name = "east"
between = ["R", "B"]
rate = "10 Mbit/s"
[[link]]
name = "west"
between = ["R", "B"]
rate = "10 Mbit/s"
[[host]]
name = "A"
default_route = "two"
routes = [["west", "one"]]
"""
)


def test_scenario_routes_go_to_the_main_table() -> None:
    found = settings(layout('flow.F.paths="fullmesh"', text=CROSSED))
    east, west = (interface["address"] for interface in layout(text=CROSSED)["hosts"][1]["interfaces"])
    assert (found["A"].main, found["A"].policy_routing) == ({east: 1, west: 0}, True)
    assert (found["B"].main, found["B"].policy_routing) == (None, True)
    bare = settings(layout('flow.F.paths="fullmesh"', text=f"{CROSSED}policy_routing = false\n"))
    assert (bare["A"].main, bare["A"].policy_routing) == (found["A"].main, False)


def test_routers_of_netem_are_no_middleboxes() -> None:
    text = f'{CROSSED}[[middlebox]]\nnode = "R"\ndoes = {{ kind = "strip-options" }}\n'
    settings(layout(text=text))
    with pytest.raises(InputError, match=r'node "R" is a middlebox, .* use --links emulator'):
        netem.check(layout(text=text))


def test_hosts_route_to_translators() -> None:
    # B reaches the translator's outside address as an address of A.
    text = CROSSED.partition("[[host]]")[0]
    far = '[[link]]\nname = "far"\nbetween = ["R", "C"]\nrate = "10 Mbit/s"\n'
    flow = '[[flow]]\nname = "G"\nfrom = "A"\nto = "C"\nprotocol = "tcp"\n'
    box = '[[middlebox]]\nnode = "R"\nfrom = ["one", "two"]\ndoes = { kind = "nat" }\n'
    found = layout(text=f"{text}{far}{flow}{box}")
    router = next(router for router in found["routers"] if router["name"] == "R")
    number = next(interface["index"] for interface in router["interfaces"] if interface["device"].startswith("link4"))
    outside = f"10.0.0.{4 * (number // 2) + number % 2 + 1}"
    hosts_of = {host["name"]: host for host in found["hosts"]}
    routes = {route["to"]: route["host"] for route in hosts_of["C"]["interfaces"][0]["routes"]}
    assert routes[outside] == "A"


def test_host_without_mptcp_has_no_main_table() -> None:
    text = CROSSED.partition("[[host]]")[0] + '[[host]]\nname = "B"\nmptcp = false\n'
    found = settings(layout('flow.F.protocol="mptcp"', text=text))
    assert [found[name].sysctls["net.mptcp.enabled"] for name in "AB"] == ["1", "0"]
    assert found["B"].main is None


def test_disjoint_pairs_need_the_main_table() -> None:
    with pytest.raises(InputError, match=r'"F": the kernel makes disjoint pairs by the main table of host "A"'):
        settings(layout('flow.F.paths="disjoint"', text=CROSSED))
    ports = ('flow.F.paths="ndiffports:2"', 'flow.F.initial_path=["one", "east"]')
    with pytest.raises(InputError, match=r'"F": the kernel makes ndiffports pairs by the main table of host "A"'):
        settings(layout(*ports, text=CROSSED))
    # An own stack does not use the main table.
    settings(layout(*ports, 'flow.F.stack={ from = "user" }', text=CROSSED))
    pairs = CROSSED.replace('"west", "one"', '"east", "one"')
    assert settings(layout('flow.F.paths="disjoint"', text=pairs))["A"].policy_routing


def test_hosts_have_distinct_namespaces() -> None:
    long = "a" * 60
    text = TEXT.replace('"A"', '"host1"').replace('"B"', f'"{long}"')
    bed = Testbed(Request(text, "s.toml"), "t")
    assert bed.namespaces == {"host1": "ab-t-host0", long: "ab-t-host1"}
    text = TEXT.replace('"A"', '"sender-1"')
    assert Testbed(Request(text, "s.toml"), "t").namespaces == {"sender-1": "ab-t-sender-1", "B": "ab-t-B"}


def test_equal_paths_are_refused_on_links_of_netem() -> None:
    link = '[[link]]\nbetween = ["{}", "{}"]\nrate = "1 Mbit/s"\n'
    links = "".join(
        link.format(*ends).replace("between", f'name = "l{n}"\nbetween')
        for n, ends in enumerate([("A", "R"), ("R", "S"), ("R", "S"), ("S", "B")])
    )
    text = f'duration = "1 s"\n{links}[[flow]]\nfrom = "A"\nto = "B"\nprotocol = "tcp"\n'
    with pytest.raises(InputError, match="one of equally short paths only; set ecmp = false in the scenario"):
        netem.check(layout(text=text))
    netem.check(layout("ecmp=false", text=text))
