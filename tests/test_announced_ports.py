"""Subflows between two addresses in the kernel's world: ports that the accepting kernel announces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch import InputError, Scenario, run
from anabranch._core.simulator import Capture
from machine import WITHOUT_MPTCP, missing

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(bool(missing() or WITHOUT_MPTCP), reason=missing() or WITHOUT_MPTCP),
]

EQUAL_PATHS = Path(__file__).resolve().parent.parent / "examples" / "equal-paths.toml"
SHORT = ('duration="4 s"', 'warmup="1 s"', "flow.download.congestion=cubic")
SECOND = """
[[flow]]
name = "upload"
from = "client"
to = "server"
protocol = "mptcp"
congestion = "cubic"
paths = "ndiffports:4"
"""
ANNOUNCED = {5001, 20001, 20002, 20003}


def measured(*settings: str, more: str = "") -> dict[str, Any]:
    text = EQUAL_PATHS.read_text(encoding="utf-8") + more
    return dict(run(Scenario(text).with_settings((*SHORT, *settings)), world="kernel").document)


def ports(flow: dict[str, Any], end: str) -> list[int]:
    return [int(path[end].rpartition(":")[2]) for path in flow["paths"]]


def test_client_joins_each_announced_port() -> None:
    document = measured()
    (flow,) = document["flows"]
    # The source of a download is the server.
    assert (set(ports(flow, "local")), len(flow["paths"])) == (ANNOUNCED, 4)
    assert len(set(ports(flow, "remote"))) == 4
    assert all(path["usable"] and path["throughput_bps"] > 0 for path in flow["paths"])
    sums = dict.fromkeys("pq", 0)
    for path in flow["paths"]:
        (way,) = set(path["links"]) & set(sums)
        sums[way] += path["data_packets"]
    for link in document["links"]:
        if link["name"] in sums and link["direction"] == "reverse":
            # Segments that wait in a host at the end have not arrived at the link.
            assert sums[link["name"]] == pytest.approx(link["packets"] + link["drops"], rel=0.1, abs=300)


def test_two_flows_share_announced_ports() -> None:
    flows = measured(more=SECOND)["flows"]
    assert [set(ports(flow, end)) for flow, end in zip(flows, ("local", "remote"), strict=True)] == [
        ANNOUNCED,
        ANNOUNCED - {5001} | {5002},
    ]
    for flow in flows:
        assert len(flow["paths"]) == 4
        # In 3 s the goodput may contain data that arrived before and waited for a gap to close.
        assert min(flow["throughput_bps"], flow["goodput_bps"]) > 1e6


def test_own_stack_joins_kernel_without_announcement() -> None:
    (flow,) = measured('flow.download.stack={ from = "user" }')["flows"]
    assert (set(ports(flow, "local")), len(set(ports(flow, "remote")))) == ({5001}, 4)
    # More than one subflow carries data. Their number depends on the load of the machine, which delays our own stack.
    assert sum(path["data_packets"] > 0 for path in flow["paths"]) > 1
    assert flow["goodput_bps"] > 1e6


def test_ports_are_announced_over_ipv6() -> None:
    (flow,) = measured('ip="v6"', "flow.download.timestamps=false")["flows"]
    assert set(ports(flow, "local")) == ANNOUNCED
    (flow,) = measured('ip="both"')["flows"]
    assert set(ports(flow, "local")) == ANNOUNCED


def test_host_without_mptcp_announces_nothing() -> None:
    (flow,) = measured(more='\n[[host]]\nname = "server"\nmptcp = false\n')["flows"]
    assert (flow["fallback"], set(ports(flow, "local"))) == (True, {5001})


def test_capture_of_shared_ports_is_refused(tmp_path: Path) -> None:
    scenario = Scenario(EQUAL_PATHS.read_text(encoding="utf-8")).with_settings(SHORT)
    with pytest.raises(InputError, match='flow "download" cannot be captured separately'):
        run(scenario, world="kernel", pcap=Capture(str(tmp_path / "x.pcapng"), flows=("download",)))
