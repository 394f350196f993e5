"""Possible rates of flows, compared with results worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch.fairness.capacity import Path as LinkPath
from anabranch.fairness.capacity import directions, largest_total_bps
from anabranch.fairness.possible import possible_bps
from anabranch.fairness.solver import solve

LINK = """
[[link]]
name = "{name}"
between = ["{a}", "{b}"]
rate = "{rate}"
delay = "1 ms"
"""


def scenario(*links: str, flow: str = 'protocol = "mptcp"\npaths = "fullmesh"', more: str = "") -> anabranch.Scenario:
    text = 'duration = "4 s"\nwarmup = "2 s"\n'
    for link in links:
        name, a, b, rate = link.split(" ", 3)
        text += LINK.format(name=name, a=a, b=b, rate=rate)
    return anabranch.Scenario.from_toml(f'{text}\n[[flow]]\nname = "F"\nfrom = "S"\nto = "D"\n{flow}\n{more}')


def possible(chosen: anabranch.Scenario, *flows: str) -> float | None:
    return anabranch.run(chosen, seed=1).possible_bps(*flows)


def test_slowest_link_limits_the_path() -> None:
    found = possible(scenario("access S R 100 Mbit/s", "bottleneck R D 20 Mbit/s", flow='protocol = "tcp"'))
    assert found == pytest.approx(20e6)


def test_disjoint_paths_add_up() -> None:
    assert possible(scenario("a S D 20 Mbit/s", "b S D 500 kbit/s"), "F") == pytest.approx(20.5e6)


def test_shared_link_counts_once() -> None:
    links = ("left S R 15 Mbit/s", "right S R 8 Mbit/s", "bottleneck R D 20 Mbit/s")
    assert possible(scenario(*links), "F") == pytest.approx(20e6)
    assert possible(scenario(*links[:2], "bottleneck R D 30 Mbit/s"), "F") == pytest.approx(23e6)


def test_directions_have_separate_rates() -> None:
    text = 'duration = "2 s"\n' + LINK.format(name="dsl", a="D", b="S", rate="16 Mbit/s")
    text += 'reverse = { rate = "1 Mbit/s" }\n[[flow]]\nname = "up"\nfrom = "S"\nto = "D"\nprotocol = "tcp"\n'
    text += '[[flow]]\nname = "down"\nfrom = "D"\nto = "S"\nprotocol = "tcp"\n'
    result = anabranch.run(anabranch.Scenario.from_toml(text))
    assert [result.possible_bps(*f) for f in (["up"], ["down"], [])] == pytest.approx([1e6, 16e6, 17e6])


def test_events_count_for_their_share_of_the_run() -> None:
    events = [("1 s", 'rate = "5 Mbit/s"'), ("2500 ms", 'state = "down"'), ("3 s", 'state = "up"')]
    more = "".join(f'[[event]]\nlink = "a"\nat = "{at}"\nset = {{ {what} }}\n' for at, what in events)
    # The rate is 5 Mbit/s from 2 to 4 s, except for half a second.
    assert possible(scenario("a S D 20 Mbit/s", more=more)) == pytest.approx(5e6 * 1.5 / 2.0)


def test_events_of_flows_change_no_rate() -> None:
    # The backup paths are those at the end of the run.
    more = '[[event]]\nflow = "F"\nat = "3 s"\nset = { backup = ["b"] }\n'
    assert possible(scenario("a S D 20 Mbit/s", "b S D 5 Mbit/s", more=more)) == pytest.approx(20e6)


def test_link_with_a_trace_has_no_known_rate() -> None:
    example = Path(__file__).parent.parent / "examples" / "cellular-trace.toml"
    assert possible(anabranch.Scenario.from_file(example).set("duration", "7 s")) is None


def test_crossing_paths_share_links() -> None:
    links = ["x", "y", "z"]
    document: dict[str, Any] = {
        "warmup_s": 0.0, "duration_s": 1.0,
        "flows": [{
            "name": "F", "from": "n0", "protocol": "mptcp",
            "paths": [{"links": [links[i], links[(i + 1) % 3]], "backup": False} for i in range(3)],
        }],
        "links": [{"name": n, "direction": "forward", "from": "n0", "to": "n0"} for n in links],
        "scenario": {"link": [{"name": n, "state": "up", "rate": "2 Mbit/s"} for n in links], "flow": []},
    }  # fmt: skip
    # Each link carries two of the three paths, and each path gets half: three times 1 Mbit/s.
    assert possible_bps(document, ["F"]) == pytest.approx(3e6)


def test_flow_behind_a_proxy_starts_at_the_proxy() -> None:
    ends = {"a": ("S", "R"), "p": ("R", "P"), "d": ("R", "D")}
    flow = {"name": "F", "from": "S", "to": "D", "through": "P", "direction": "reverse"}
    links = [{"name": n, "direction": "forward", "from": f, "to": t} for n, (f, t) in ends.items()]
    found = directions(flow, {"links": ["p", "a"]}, {"links": links})
    assert found == (("p", False), ("a", False))


def test_capacity_needs_the_scenario() -> None:
    assert possible_bps({"flows": []}, []) is None


def test_sctp_has_the_rate_of_its_first_living_path() -> None:
    links, sctp = ("a S D 16 Mbit/s", "b S D 30 Mbit/s"), 'protocol = "sctp"'
    chosen = scenario(*links, flow=sctp)
    assert possible(chosen) == pytest.approx(16e6)
    assert anabranch.fair(chosen).alone_bps == {"F": pytest.approx(16e6)}
    outage = '[[event]]\nlink = "a"\nat = "3 s"\nset = { state = "down" }\n'
    assert possible(scenario(*links, flow=sctp, more=outage)) == pytest.approx(23e6)
    assert anabranch.fair(scenario(*links, flow=sctp, more=outage)).possible_bps == pytest.approx(23e6)


def test_backup_path_counts_only_while_no_other_is_up() -> None:
    links = ("a S D 16 Mbit/s", "b S D 30 Mbit/s")
    backup = 'protocol = "mptcp"\nbackup = ["b"]'
    outage = '[[event]]\nlink = "a"\nat = "3 s"\nset = { state = "down" }\n'
    assert possible(scenario(*links, flow=backup)) == pytest.approx(16e6)
    assert possible(scenario(*links, flow=backup, more=outage)) == pytest.approx(23e6)


def test_connection_behind_a_proxy_limits_the_flow() -> None:
    links = ("a S P 40 Mbit/s", "b S P 40 Mbit/s", "c P D 16 Mbit/s", "d P D 30 Mbit/s")
    chosen = scenario(*links, flow='protocol = "mptcp"\npaths = "fullmesh"\nthrough = "P"')
    assert possible(chosen) == pytest.approx(16e6)
    found = anabranch.fair(chosen)
    assert found.subflows["F"] > 1
    assert {name: rates["F"] for name, rates in found.allocations.items()} == {
        name: pytest.approx(16e6, rel=1e-6) for name in found.allocations
    }


def total(paths: list[str], rates: dict[str, float]) -> float:
    """The largest total rate of paths, each with a letter for each link."""
    ways: list[LinkPath] = [tuple((name, True) for name in path) for path in paths]
    return largest_total_bps(ways, {(name, True): rate for name, rate in rates.items()})


@pytest.mark.parametrize(
    ("paths", "rates", "expected"),
    [
        (["aX", "bX"], {"a": 30.0, "b": 30.0, "X": 20.0}, 20.0),
        (["aX", "bX"], {"a": 3.0, "b": 5.0, "X": 20.0}, 8.0),
        (["aXY", "bXY"], {"a": 30.0, "b": 30.0, "X": 20.0, "Y": 15.0}, 15.0),
        (["aX", "bX", "cY", "dY", "e"], {**dict.fromkeys("abcd", 10.0), "X": 12.0, "Y": 11.0, "e": 2.0}, 25.0),
        (["aX", "aX", "bX"], {"a": 30.0, "b": 0.0, "X": 20.0}, 20.0),
        ([], {}, 0.0),
    ],
)
def test_separate_bottlenecks_need_no_solver(
    paths: list[str], rates: dict[str, float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.fairness.capacity.solve", None)
    assert total(paths, rates) == expected


def test_path_over_two_shared_bottlenecks_is_solved() -> None:
    # The path over both takes twice the room of the others, so it gets nothing.
    assert total(["XY", "X", "Y"], {"X": 10.0, "Y": 6.0}) == pytest.approx(16.0)


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True), max_size=5),
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
)
def test_total_equals_that_of_the_solver(paths: list[list[str]], numbers: list[int]) -> None:
    rates = dict(zip("abcdef", map(float, numbers), strict=True))
    names = ["".join(path) for path in paths]
    single = sorted(set(names))
    uses = [[float(name in path) for path in single] for name in rates]
    best = -solve([-1.0] * len(single), uses, list(rates.values())).cost if single else 0.0
    assert total(names, rates) == pytest.approx(best)
