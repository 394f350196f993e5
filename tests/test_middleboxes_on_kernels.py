"""Middleboxes between kernels: fallback and number of subflows as in the simulator, at nearly the same rate."""

from __future__ import annotations

import pytest

from anabranch import Scenario, run
from machine import WITHOUT_MPTCP, missing

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(bool(missing() or WITHOUT_MPTCP), reason=missing() or WITHOUT_MPTCP),
]

TWO_WAYS = """
title = "Two ways"
duration = "6 s"
warmup = "2 s"
[link_defaults]
rate = "10 Mbit/s"
delay = "5 ms"
queue = { kind = "fifo", limit = "40 packets" }
[[link]]
name = "wifi"
between = ["C", "N1"]
[[link]]
name = "cell"
between = ["C", "N2"]
[[link]]
name = "north"
between = ["N1", "R"]
[[link]]
name = "south"
between = ["N2", "R"]
[[link]]
name = "last"
between = ["R", "S"]
rate = "100 Mbit/s"
[[flow]]
name = "F"
from = "C"
to = "S"
protocol = "mptcp"
congestion = "cubic"
scheduler = "linux-ahead"
paths = "fullmesh"
initial_path = "wifi"
"""


def box(node: str, side: str, does: str) -> str:
    return f'[[middlebox]]\nnode = "{node}"\nfrom = ["{side}"]\ndoes = {{ {does} }}\n'


CASES = {
    "nat": (box("N1", "wifi", 'kind = "nat"') + box("N2", "cell", 'kind = "nat"'), False, 2),
    "firewall of the server": (box("N2", "south", 'kind = "firewall"'), False, 1),
    "firewall of the client": (box("N2", "cell", 'kind = "firewall"'), False, 2),
    "options stripped": (box("N1", "wifi", 'kind = "strip-options"'), True, 1),
    "server without Multipath TCP": ('[[host]]\nname = "S"\nmptcp = false\n', True, 1),
    "client without Multipath TCP": ('[[host]]\nname = "C"\nmptcp = false\n', True, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_both_worlds_fall_back_alike(name: str) -> None:
    tables, fallback, subflows = CASES[name]
    scenario = Scenario.from_toml(TWO_WAYS + tables)
    found = {}
    for world in ("sim", "kernel"):
        document = run(scenario, world=world).document
        (flow,) = document["flows"]
        usable = sum(path["usable"] for path in flow["paths"])
        assert (flow["fallback"], usable) == (fallback, subflows), (world, flow)
        found[world] = flow["goodput_bps"]
    # A busy machine lowers the rate of the kernel's world, and the first seconds decide about the rest.
    assert 0.8 < found["kernel"] / found["sim"] < 1.2, found
