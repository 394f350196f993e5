"""Fair allocations: against results worked by hand, against brute force, and with the paths of real scenarios.

`ANABRANCH_LONG=1` compares 1,000 random networks with brute force instead of 200, which takes a minute.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anabranch
from anabranch._core.simulator import simulate
from anabranch.fairness import path_discovery
from anabranch.fairness.allocation import ALLOCATIONS, access_links, competitors, is_feasible
from anabranch.fairness.capacity import Network
from command import anabranch as command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request

NETWORKS = 1_000 if os.environ.get("ANABRANCH_LONG") else 200


def network(paths: dict[str, list[str]], **rates: float) -> Network:
    """Flows with paths such as "U+M" over links with rates."""
    found = {
        flow: tuple(tuple((link, True) for link in path.split("+")) for path in ways) for flow, ways in paths.items()
    }
    return Network(found, {(link, True): rate for link, rate in rates.items()})


CHAIN = network({"F0": ["a", "b"], "F1": ["b", "c"], "F2": ["c"]}, a=12, b=12, c=12)
RING = network({"A": ["x", "y+z"], "B": ["y", "z+x"], "C": ["z", "x+y"]}, x=12, y=12, z=12)
DRAWBACK = network({"M1": ["U", "U+M"], "M2": ["L", "L+M"], "S": ["U+L"]}, U=12, M=12, L=12)


def rates(name: str, chosen: Network) -> list[float]:
    return list(ALLOCATIONS[name](chosen).values())


def test_chain_of_figure_6_1_matches() -> None:
    # F0 has alpha alone; F0 and F1 halve beta, F1 and F2 halve gamma.
    assert rates("link-subflow", CHAIN) == pytest.approx([18, 12, 6])
    assert rates("link-flow", CHAIN) == pytest.approx([18, 12, 6])
    for name in ("network", "max-min", "proportional"):
        assert rates(name, CHAIN) == pytest.approx([12, 12, 12]), name


def test_access_share_weighs_flows_by_their_links() -> None:
    # F0 and F1 have two access links, F2 has one: 36 Mbit/s are divided 2 : 2 : 1.
    assert rates("access", CHAIN) == pytest.approx([14.4, 14.4, 7.2])
    assert rates("access", RING) == pytest.approx([12, 12, 12])


def test_access_share_uses_given_weights() -> None:
    shared = network({"A": ["a"], "B": ["a"], "C": ["a", "b"]}, a=12, b=3)
    # 15 Mbit/s are divided 1 : 1 : 2.
    assert rates("access", shared) == pytest.approx([3.75, 3.75, 7.5])
    weighted = dataclasses.replace(shared, weights={"A": 3.0, "B": 1.0, "C": 1.0})
    assert rates("access", weighted) == pytest.approx([9, 3, 3])
    tiny = dataclasses.replace(shared, weights={"A": 3e-5, "B": 1e-5, "C": 1e-5})
    assert rates("access", tiny) == pytest.approx([9, 3, 3])


def test_access_share_counts_links_before_a_proxy() -> None:
    ways = {"F": ["a+p", "b+p"], "G": ["a"]}
    through = dataclasses.replace(network(ways, a=9, b=9, p=90), behind={"F": (("p", True),)})
    assert [access_links(through, flow) for flow in ways] == [2, 1]
    assert rates("access", through) == pytest.approx([12, 6])


def test_weights_are_checked() -> None:
    chosen = scenario(["a S D 12 Mbit/s"], ["F S D tcp", "G S D tcp"])
    found = anabranch.fair(chosen, weights={"F": 2})
    assert found.allocations["access"] == pytest.approx({"F": 8e6, "G": 4e6})
    for weight in (0, -1, float("inf"), float("nan")):
        with pytest.raises(anabranch.InputError, match='weight of "F" must be above 0'):
            anabranch.fair(chosen, weights={"F": weight})
    with pytest.raises(anabranch.InputError, match='"H", which does not share'):
        anabranch.fair(chosen, weights={"H": 1})


def test_ring_of_figure_6_2_matches() -> None:
    # Each link has three subflows: 4 Mbit/s on either path.
    assert rates("link-subflow", RING) == pytest.approx([8, 8, 8])
    for name in ("network", "max-min", "proportional"):
        assert rates(name, RING) == pytest.approx([12, 12, 12]), name


def test_drawback_of_figure_6_3_matches() -> None:
    assert rates("link-subflow", DRAWBACK) == pytest.approx([8, 8, 4])
    assert sum(rates("link-subflow", DRAWBACK)) == pytest.approx(20)
    assert rates("link-flow", DRAWBACK) == pytest.approx([6, 6, 6])
    # 24 Mbit/s are possible if S sends nothing; if S gets a third of it, the others cannot get theirs.
    assert rates("network", DRAWBACK) == pytest.approx([8, 8, 8])
    assert not is_feasible(DRAWBACK, ALLOCATIONS["network"](DRAWBACK))
    assert rates("max-min", DRAWBACK) == pytest.approx([6, 6, 6])
    # S uses both links and gets half as much as M1: 1/S = 1/M1 + 1/M2, and M1 + S = 12.
    assert rates("proportional", DRAWBACK) == pytest.approx([8, 8, 4])


@pytest.mark.parametrize("beta", [5, 10, 20, 40, 100])
def test_half_bottleneck_matches(beta: float) -> None:
    half = network({"F0": ["a", "b"], "F1": ["b"]}, a=20, b=beta)
    # Equations 6.19 and 6.20.
    assert rates("link-flow", half) == pytest.approx([20 + beta / 2, beta / 2])
    network_centric = [20 + max(0, (beta - 20) / 2), min(beta, (20 + beta) / 2)]
    for name in ("network", "max-min", "proportional"):
        assert rates(name, half) == pytest.approx(network_centric), name


def test_subflows_count_by_subflow_only() -> None:
    shared = network({"F0": ["a"] * 4, "F1": ["a"]}, a=10)
    assert rates("link-subflow", shared) == pytest.approx([8, 2])
    for name in ("link-flow", "network", "max-min", "proportional"):
        assert rates(name, shared) == pytest.approx([5, 5]), name


def test_long_flow_shares_with_two_short_ones() -> None:
    line = network({"long": ["a+b"], "A": ["a"], "B": ["b"]}, a=3, b=3)
    assert rates("max-min", line) == pytest.approx([1.5, 1.5, 1.5])
    assert rates("proportional", line) == pytest.approx([1, 2, 2])


def test_flows_without_a_common_limit_do_not_compete() -> None:
    apart = network({"A": ["wide+a"], "B": ["wide+b"], "C": ["b"]}, wide=100, a=10, b=20)
    assert competitors(apart) == [["A"], ["B", "C"]]
    assert rates("network", apart) == pytest.approx([10, 10, 10])
    narrow = network({"A": ["wide+a"], "B": ["wide+b"], "C": ["b"]}, wide=12, a=10, b=20)
    assert competitors(narrow) == [["A", "B", "C"]]


def test_flow_without_a_path_gets_nothing() -> None:
    down = network({"A": ["a"], "B": ["b"], "C": ["b"]}, a=0, b=8)
    for name in ALLOCATIONS:
        assert rates(name, down) == pytest.approx([0, 4, 4]), name
        assert is_feasible(down, ALLOCATIONS[name](down))
    assert not is_feasible(down, {"A": 1})


def test_rates_may_differ_by_orders_of_magnitude() -> None:
    uneven = network({"A": ["a+s", "b"], "B": ["s", "b"], "C": ["b"]}, a=1e9, b=3e5, s=5e7)
    assert rates("max-min", uneven) == pytest.approx([25e6, 25e6, 3e5], rel=1e-6)
    assert rates("proportional", uneven) == pytest.approx([25e6, 25e6, 3e5], rel=1e-6)


def test_flow_has_the_paths_to_its_proxy() -> None:
    links = ["a S R 20 Mbit/s", "b S R 10 Mbit/s", "p R P 50 Mbit/s", "d R D 5 Mbit/s"]
    straight = anabranch.fair(scenario(links, ["F S P mptcp"]))
    through = anabranch.fair(scenario(links, ["F S D mptcp"]).set("flow.F.through", "P"))
    assert through.subflows == straight.subflows == {"F": 2}
    assert straight.alone_bps["F"] == pytest.approx(30e6)
    assert through.alone_bps["F"] == pytest.approx(5e6)  # of the TCP connection behind the proxy


# ---- brute force: every corner of the feasible region


def corners(sides: Any, bounds: Any) -> Any:
    """Vertices of `sides @ x <= bounds`: all x that satisfy n of n or more bounds exactly, and also the others."""
    chosen = np.array(list(itertools.combinations(range(len(sides)), sides.shape[1])))
    matrices = sides[chosen]
    regular = np.abs(np.linalg.det(matrices)) > 0.5  # matrices of zeros and ones have whole determinants
    found = np.linalg.solve(matrices[regular], bounds[chosen[regular]][..., None])[..., 0]
    return found[np.all(found @ sides.T <= bounds + 1e-9, axis=1)]


class Possible:
    """The capacity limits of a network as inequalities."""

    def __init__(self, chosen: Network) -> None:
        columns = [(flow, path) for flow, paths in chosen.paths.items() for path in dict.fromkeys(paths)]
        uses = np.array([[float(link in path) for _, path in columns] for link in chosen.rates])
        self.belongs = np.array([[float(flow == owner) for owner, _ in columns] for flow in chosen.paths])
        self.sides = np.vstack([uses, -np.eye(len(columns))])
        self.bounds = np.concatenate([list(chosen.rates.values()), np.zeros(len(columns))])

    def totals(self, floors: dict[int, float]) -> Any:
        """The totals of the flows at every corner at which some flows have their floors."""
        sides = np.vstack([self.sides, *(-self.belongs[flow] for flow in floors)])
        return corners(sides, np.concatenate([self.bounds, [-floor for floor in floors.values()]])) @ self.belongs.T


def random_network(draw: random.Random) -> Network:
    links = [f"l{number}" for number in range(draw.randint(1, 3))]
    ways = ["+".join(way) for size in (1, 2) for way in itertools.combinations(links, size)]
    paths = {f"F{number}": draw.choices(ways, k=draw.randint(1, 2)) for number in range(draw.randint(2, 3))}
    used = {link for found in paths.values() for way in found for link in way.split("+")}
    return network(paths, **{link: float(draw.randint(1, 20)) for link in sorted(used)})


def weights_of(chosen: Network) -> list[float]:
    return [chosen.weights.get(flow, float(access_links(chosen, flow))) for flow in chosen.paths]


@pytest.mark.slow
def test_allocations_match_brute_force() -> None:
    draw = random.Random(6)
    reached = 0
    for number in range(NETWORKS):
        chosen = random_network(draw)
        if number % 2:
            chosen = dataclasses.replace(chosen, weights={flow: draw.uniform(0.2, 5.0) for flow in chosen.paths})
        possible, flows = Possible(chosen), list(chosen.paths)
        totals = possible.totals({})
        found = {name: np.array(rates(name, chosen)) for name in ALLOCATIONS}
        assert chosen.largest_total_bps(flows) == pytest.approx(float(totals.sum(axis=1).max()))
        for name in ("link-subflow", "link-flow", "max-min", "proportional", "access"):
            assert is_feasible(chosen, dict(zip(flows, found[name], strict=True))), (name, chosen)
        for name, weights in (("max-min", [1.0] * len(flows)), ("access", weights_of(chosen))):
            for flow, rate in enumerate(found[name]):
                # By definition: a rate can grow only at the cost of a flow whose weighted rate is not larger.
                most = rate / weights[flow] * (1 + 1e-7)
                others = {g: r * (1 - 1e-7) for g, r in enumerate(found[name]) if g != flow and r / weights[g] <= most}
                grown = float(possible.totals(others)[:, flow].max())
                assert grown == pytest.approx(rate, rel=1e-5), (name, flow, chosen)
        # By definition: no corner, and so no mix of corners, has a larger sum of relative changes.
        assert float((totals / found["proportional"]).sum(axis=1).max()) <= len(flows) * (1 + 1e-6), chosen
        if is_feasible(chosen, dict(zip(flows, found["network"], strict=True))):
            reached += 1
            assert found["network"] == pytest.approx(found["max-min"], rel=1e-6), chosen
    assert NETWORKS // 10 < reached < NETWORKS  # both kinds are among them


# ---- the paths of scenarios

LINK = """
[[link]]
name = "{name}"
between = ["{a}", "{b}"]
rate = "{rate}"
delay = "5 ms"
"""


def scenario(links: Sequence[str], flows: Sequence[str], more: str = "") -> anabranch.Scenario:
    """Links such as "alpha R1 R2 20 Mbit/s", and flows such as "F0 S0 D0 mptcp"."""
    text = 'title = "T"\nduration = "40 s"\nwarmup = "20 s"\n'
    for link in links:
        name, a, b, rate = link.split(" ", 3)
        text += LINK.format(name=name, a=a, b=b, rate=rate)
    for flow in flows:
        name, start, end, protocol = flow.split()
        text += f'[[flow]]\nname = "{name}"\nfrom = "{start}"\nto = "{end}"\nprotocol = "{protocol}"\n'
    return anabranch.Scenario.from_toml(text + more)


SHARED = [
    "s1 S0 R3 1 Gbit/s", "s2 S0 R4 1 Gbit/s", "r3 R3 R1 1 Gbit/s", "r4 R4 R1 1 Gbit/s", "s3 S1 R1 1 Gbit/s",
    "alpha R1 R2 10 Mbit/s", "r5 R2 R5 1 Gbit/s", "r6 R2 R6 1 Gbit/s", "d1 R5 D0 1 Gbit/s", "d2 R6 D0 1 Gbit/s",
    "d3 R2 D1 1 Gbit/s",
]  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "subflows", "share"), [("mptcp", 4, 0.8), ("cmt-sctp", 2, 2 / 3), ("sctp", 1, 0.5), ("tcp", 1, 0.5)]
)
def test_protocol_selects_the_paths(protocol: str, subflows: int, share: float) -> None:
    found = anabranch.fair(scenario(SHARED, [f"F0 S0 D0 {protocol}", "F1 S1 D1 tcp"]))
    assert found.subflows == {"F0": subflows, "F1": 1}
    assert found.allocations["link-subflow"]["F0"] == pytest.approx(share * 10e6)
    for name in ("link-flow", "network", "max-min", "proportional"):
        assert found.allocations[name] == pytest.approx({"F0": 5e6, "F1": 5e6}), name
    assert found.possible_bps == pytest.approx(10e6)
    assert found.alone_bps == pytest.approx({"F0": 10e6, "F1": 10e6})
    assert all(found.feasible.values())


def test_paths_are_found_once_for_all_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Request] = []

    def counted(request: Request) -> Document:
        runs.append(request)
        return simulate(request)

    monkeypatch.setattr(path_discovery, "simulate", counted)
    path_discovery._simulated.cache_clear()
    base = scenario(SHARED, ["F0 S0 D0 mptcp", "F1 S1 D1 tcp"])
    shares = [
        anabranch.fair(base.set("flow.F0.scheduler", scheduler).set("flow.F0.congestion", control)).allocations
        for scheduler, control in (("lowest-rtt", "lia"), ("redundant", "bbr"), ("round-robin", "balia"))
    ]
    assert len(runs) == 1
    assert shares[0] == shares[1] == shares[2]
    anabranch.fair(base.set("flow.F0.paths", "default"))
    assert len(runs) == 2


def test_lossy_and_late_links_keep_their_paths() -> None:
    flows = ["F0 S0 D0 mptcp"]
    late = 'start = "30 s"\nstop = "31 s"\nworkload = { kind = "file", size = "1 kB" }\n'
    chosen = scenario(SHARED, flows, late).set("link.r4.loss", {"model": "bernoulli", "rate": 0.9})
    assert anabranch.fair(chosen).subflows == {"F0": 4}


def test_backups_carry_nothing() -> None:
    links = ["a S D 10 Mbit/s", "b S D 4 Mbit/s"]
    both = anabranch.fair(scenario(links, ["F S D mptcp"]))
    assert both.alone_bps["F"] == pytest.approx(14e6)
    assert both.best_path_bps["F"] == pytest.approx(10e6)
    one = anabranch.fair(scenario(links, ["F S D mptcp"], 'backup = ["b"]\n'))
    assert one.subflows == {"F": 1}
    assert one.alone_bps["F"] == pytest.approx(10e6)


def test_events_count_for_their_duration() -> None:
    more = '[[event]]\nlink = "alpha"\nat = "25 s"\nset = { state = "down" }\n'
    found = anabranch.fair(scenario(SHARED, ["F0 S0 D0 mptcp", "F1 S1 D1 tcp"], more))
    # The event applies for 5 of the measured 20 s.
    assert found.allocations["max-min"] == pytest.approx({"F0": 1.25e6, "F1": 1.25e6})


def test_link_that_starts_down_has_its_path() -> None:
    more = '[[event]]\nlink = "b"\nat = "30 s"\nset = { state = "up" }\n'
    chosen = scenario(["a S D 10 Mbit/s", "b S D 4 Mbit/s"], ["F S D mptcp"], more).set("link.b.state", "down")
    assert anabranch.fair(chosen).alone_bps["F"] == pytest.approx(12e6)


def test_flow_without_competitors_is_omitted(tmp_path: Path) -> None:
    more = 'workload = { kind = "rate", rate = "1 Mbit/s" }\n'
    chosen = scenario(["a S D 10 Mbit/s"], ["F S D tcp", "U S D udp"], more)
    found = anabranch.fair(chosen)
    assert (found.left_out, found.subflows) == (["U"], {"F": 1})
    assert found.allocations["max-min"] == pytest.approx({"F": 10e6})
    (tmp_path / "s.toml").write_text(chosen.text, encoding="utf-8")
    assert "U is left out" in command("fair", str(tmp_path / "s.toml")).stdout
    with pytest.raises(anabranch.InputError, match="all flows use UDP"):
        anabranch.fair(scenario(["a S D 10 Mbit/s"], ["U S D udp"], more))


def test_flow_without_open_path_is_reported(tmp_path: Path) -> None:
    wrong = '[[host]]\nname = "S"\ndefault_route = "b"\n'
    chosen = scenario(["a S D 10 Mbit/s", "b S R 10 Mbit/s"], ["F S D tcp", "G S D tcp"])
    lost = anabranch.Scenario.from_toml(chosen.text + wrong).set("flow.G.initial_path", "a")
    assert anabranch.fair(lost).allocations["max-min"] == pytest.approx({"F": 0.0, "G": 10e6})
    (tmp_path / "s.toml").write_text(chosen.text + wrong, encoding="utf-8")
    said = command("fair", str(tmp_path / "s.toml"), "--set", "flow.G.initial_path=a")
    assert "F opens no path, so its share is 0" in said.stdout
    assert "G opens no path" not in said.stdout


def test_link_with_a_trace_is_refused() -> None:
    traced = command("examples", "cellular-trace").stdout.strip()
    with pytest.raises(anabranch.InputError, match="follows a trace"):
        anabranch.fair(anabranch.Scenario.from_file(traced))


def test_fair_command_prints_shares(tmp_path: Path) -> None:
    file = tmp_path / "drawback.toml"
    chosen = scenario(SHARED, ["F0 S0 D0 mptcp", "F1 S1 D1 tcp"])
    file.write_text(chosen.text, encoding="utf-8")
    table = command("fair", str(file), "--plot", str(tmp_path / "fair.svg"))
    assert table.returncode == 0, table.stderr
    row = next(line.split() for line in table.stdout.splitlines() if line.split()[:1] == ["F0"])
    assert row == ["F0", "4", "8.000", "5.000", "5.000", "5.000", "5.000", "6.667", "10.000"]
    assert "proportional" in (tmp_path / "fair.svg").read_text(encoding="utf-8")
    document = json.loads(command("fair", str(file), "--json", "--set", "flow.F0.paths=disjoint").stdout)
    assert [flow["subflows"] for flow in document["flows"]] == [2, 1]
    assert document["flows"][0]["fair_bps"]["link-subflow"] == pytest.approx(20e6 / 3)
    assert command("fair", str(file), "--plot", str(tmp_path / "fair.txt")).returncode == 2


def test_infeasible_allocation_is_reported(tmp_path: Path) -> None:
    access = ["a A R1", "x X R1", "y R2 Y", "p P R2", "q R3 Q", "c R3 C"]
    links = ["first R1 R2 3 Mbit/s", "second R2 R3 3 Mbit/s", *(f"{link} 1 Gbit/s" for link in access)]
    chosen = scenario(links, ["long A C tcp", "F1 X Y tcp", "F2 P Q tcp"])
    found = anabranch.fair(chosen)
    assert found.allocations["network"] == pytest.approx({"long": 2e6, "F1": 2e6, "F2": 2e6})
    assert [name for name, feasible in found.feasible.items() if not feasible] == ["network"]
    (tmp_path / "s.toml").write_text(chosen.text, encoding="utf-8")
    said = command("fair", str(tmp_path / "s.toml"), "--plot", str(tmp_path / "fair.svg"))
    assert "network: the network cannot carry" in said.stdout
    assert "network (not feasible)" in (tmp_path / "fair.svg").read_text(encoding="utf-8")
