"""Flows of the kernel's world with Anabranch's own stack at one end or at both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from anabranch import InputError, Scenario, run
from command import anabranch
from machine import WITHOUT_MPTCP, missing

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
title = "Two ways"
duration = "6 s"
warmup = "0 s"
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
protocol = "mptcp"
congestion = "reno"
paths = "disjoint"
workload = { kind = "file", size = "1 MB" }
"""
TCP = SCENARIO.replace('"mptcp"', '"tcp"').replace('paths = "disjoint"\n', "")
ENDS: dict[str, str | dict[str, str]] = {
    "user to kernel": {"from": "user"},
    "kernel to user": {"to": "user"},
    "user to user": "user",
}


each_end = pytest.mark.parametrize("stack", ENDS.values(), ids=ENDS)
on_machine = pytest.mark.skipif(bool(missing()), reason=missing())
with_mptcp = pytest.mark.skipif(bool(missing() or WITHOUT_MPTCP), reason=missing() or WITHOUT_MPTCP)


def flow(text: str, stack: str | dict[str, str], **changes: Any) -> dict[str, Any]:
    """The only flow of a run with the kernel; a byte that changed on the way would fail the run."""
    scenario = Scenario.from_toml(text).set("flow.F.stack", stack)
    for key, value in changes.items():
        scenario = scenario.set(f"flow.F.{key}", value)
    (found,) = run(scenario, world="kernel").document["flows"]
    return dict(found)


@pytest.mark.machine
@on_machine
@each_end
def test_tcp_delivers_a_file(stack: str | dict[str, str]) -> None:
    found = flow(TCP, stack)
    assert (found["state"], found["delivered_bytes"], found["fallback"]) == ("closed", 1_000_000, False)
    assert found["completion_s"] < 6
    (path,) = found["paths"]
    assert path["data_packets"] >= 600
    assert path["goodput_bps"] > 0
    assert path["links"] == ["one"]
    assert path["cwnd_max_bytes"] > 0
    assert 0.015 < path["srtt_s"] < 1


@pytest.mark.machine
@with_mptcp
@each_end
@pytest.mark.parametrize("direction", ["forward", "both"])
def test_mptcp_uses_both_paths(stack: str | dict[str, str], direction: str) -> None:
    # Linux makes no further subflows once its application has ended writing.
    text = SCENARIO.replace('{ kind = "file", size = "1 MB" }', '{ kind = "saturated" }').replace('"6 s"', '"3 s"')
    found = flow(text, stack, direction=direction)
    assert (found["state"], found["fallback"]) == ("open", False)
    assert found["delivered_bytes"] > 100_000
    if direction == "both":
        assert found["reverse_delivered_bytes"] > 100_000
    assert [path["links"] for path in found["paths"]] == [["one"], ["two"]]
    for path in found["paths"]:
        assert path["goodput_bps"] > 100_000
        assert path["throughput_bps"] >= path["goodput_bps"]


@pytest.mark.machine
@on_machine
@each_end
def test_requests_are_answered(stack: str | dict[str, str]) -> None:
    workload = {"kind": "request-response", "request": "500 B", "response": "5 kB", "count": 20}
    found = flow(TCP, stack, workload=workload)
    assert (found["answers"], found["state"]) == (20, "closed")
    assert found["reverse_delivered_bytes"] == 100_000
    assert found["response_time_s"]["p50"] > 0.02


@pytest.mark.machine
@with_mptcp
def test_own_sender_needs_no_control_of_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "mixed.toml"
    text = SCENARIO.replace('"reno"', '"cmt-rpv2"\nscheduler = "round-robin"')
    kernel_flow = TCP[TCP.index("[[flow]]") :].replace('"F"', '"G"').replace('"1 MB"', '"200 kB"')
    file.write_text(text.replace('name = "F"', 'name = "F"\nstack = { from = "user" }') + kernel_flow, encoding="utf-8")
    capture = tmp_path / "wire.pcapng"
    done = anabranch("run", str(file), "--world", "kernel", "--json", "--pcap", str(capture))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    own, kernels = document["flows"]
    assert (own["congestion"], own["state"], own["delivered_bytes"]) == ("cmt-rpv2", "closed", 1_000_000)
    assert (kernels["congestion"], kernels["state"], kernels["delivered_bytes"]) == ("reno", "closed", 200_000)
    # Only paths of the kernel have its counters.
    assert ["kernel" in flow["paths"][0] for flow in (own, kernels)] == [False, True]
    assert document["scenario"]["flow"][0]["stack"] == {"from": "user"}
    assert capture.stat().st_size > 1_200_000


@pytest.mark.machine
@with_mptcp
@each_end
def test_flow_survives_a_link_that_goes_down_and_up(stack: str | dict[str, str]) -> None:
    events = "".join(
        f'[[event]]\nat = "{at}"\nlink = "one"\nset = {{ state = "{state}" }}\n'
        for at, state in (("0.5 s", "down"), ("1.5 s", "up"))
    )
    text = SCENARIO.replace("[[flow]]", events + "[[flow]]").replace('"6 s"', '"20 s"')
    found = flow(text, stack)
    assert (found["state"], found["delivered_bytes"]) == ("closed", 1_000_000)


@pytest.mark.parametrize("stack", ["user", "kernel", {"from": "user"}, {"from": "kernel", "to": "user"}])
def test_simulator_ignores_the_stack(stack: str | dict[str, str]) -> None:
    plain = run(Scenario.from_toml(SCENARIO))
    chosen = run(Scenario.from_toml(SCENARIO).set("flow.F.stack", stack))
    assert chosen.digest == plain.digest
    assert chosen.document["scenario"]["flow"][0]["stack"] == stack


def test_stacks_that_a_world_lacks_are_refused() -> None:
    scenario = Scenario.from_toml(SCENARIO)
    for stack, complaint in (
        ("linux", 'stack of flow "F" is "linux"; the valid values are user, kernel'),
        ({"form": "user"}, 'unknown key "form" in stack of flow "F"; did you mean "from"?'),
        (True, "stack of flow"),
    ):
        with pytest.raises(InputError, match=complaint):
            scenario.set("flow.F.stack", stack).validate()
    sctp = Scenario.from_toml(TCP.replace('"tcp"', '"sctp"'))
    with pytest.raises(InputError, match="stack"):
        sctp.set("flow.F.stack", "user").validate()
    with pytest.raises(InputError, match='flow "F": the world user has no kernel stack; remove stack'):
        run(scenario.set("flow.F.stack", {"to": "kernel"}), world="user")


@pytest.mark.machine
@on_machine
def test_own_stack_behind_a_proxy_is_refused() -> None:
    link = '[[link]]\nname = "three"\nbetween = ["B", "C"]\nrate = "6 Mbit/s"\n[[flow]]'
    text = SCENARIO.replace("[[flow]]", link).replace('to = "B"', 'to = "C"\nthrough = "B"\nstack = "user"')
    with pytest.raises(InputError, match="a flow through a proxy needs the kernel's stack at both ends"):
        run(Scenario.from_toml(text), world="kernel")
