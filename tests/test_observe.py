"""`anabranch observe`: summaries of observations as a table and as a scenario, and refused input."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import InputError, Scenario, run
from anabranch.observe import watch as watching
from anabranch.observe.assignment import TOLERANCE, access
from anabranch.observe.pairs import Local, Pair, between
from anabranch.observe.record import Header, Journal, Observation, Route, line, read, routes_differ
from anabranch.observe.scenario import scenario
from anabranch.observe.summary import summarise
from anabranch.plot.round_trips import draw as draw_boxes
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent

HEADER = '{"kind":"header","format":"anabranch observe","version":1,"began":"2026-03-01T08:00:00Z"}'
HOPS = ["192.0.2.1", "198.51.100.1", "203.0.113.5"]


def seen(
    *,
    number: int = 1,
    near: tuple[str, str] = ("eth0", "192.0.2.10"),
    remote: str = "203.0.113.5",
    rtt_ms: tuple[float, float, float] | None = (20.0, 22.0, 30.0),
    mbit: tuple[float, float] | None = (8.0, 4.0),
    hops: Sequence[str | None] | None = None,
    after: Sequence[str | None] | None = None,
    lost: int = 0,
) -> dict[str, Any]:
    """An observation in the format of the file."""
    way = {"by": "udp", "hops": HOPS if hops is None else hops, "reached": True}
    back = {**way, "hops": way["hops"] if after is None else after}
    there = rtt_ms is not None
    least, middle, most = rtt_ms or (0.0, 0.0, 0.0)
    times = {
        "by": "icmp", "probes": 5, "lost": lost, "min_s": least / 1e3, "median_s": middle / 1e3, "max_s": most / 1e3,
    }  # fmt: skip
    rates = mbit and {"forward_bps": mbit[0] * 1e6, "reverse_bps": mbit[1] * 1e6, "seconds": 5.0}
    return {
        "kind": "observation", "round": number, "at": f"2026-03-01T08:0{number}:00Z", "interface": near[0],
        "local": near[1], "remote": remote, "name": "there.example", "reachable": there,
        "reason": None if there else "no answer", "rtt": times if there else None, "route": way if there else None,
        "route_after": back if there else None, "route_changed": after is not None, "mtu": 1500 if there else None,
        "mtu_confirmed": there, "throughput": rates if there else None, "throughput_reason": None,
    }  # fmt: skip


def written(folder: Path, *observations: dict[str, Any]) -> str:
    file = folder / "seen.jsonl"
    file.write_text("\n".join([HEADER, *map(json.dumps, observations)]) + "\n", encoding="utf-8")
    return str(file)


def test_summary_matches_hand_results(tmp_path: Path) -> None:
    elsewhere = ["192.0.2.1", "198.51.100.9", "203.0.113.5"]
    file = written(
        tmp_path,
        seen(lost=1),
        seen(number=2, rtt_ms=(18.0, 40.0, 90.0), mbit=(6.0, 5.0)),
        # The route changes during this round: the round counts only as a change and as reachable.
        seen(number=3, rtt_ms=(1.0, 1.0, 500.0), mbit=(90.0, 90.0), after=elsewhere),
        seen(number=4, rtt_ms=(21.0, 24.0, 25.0), mbit=None, hops=elsewhere),
        seen(number=5, rtt_ms=None),
        seen(number=6, hops=["192.0.2.1", None, "203.0.113.5"]),
        seen(near=("wlan0", "192.0.2.66"), rtt_ms=None),
    )
    first, second = summarise(read(file))
    assert (first.observations, first.discarded, first.changes, first.hops) == (6, 1, 1, (3, 3))
    assert first.reachable == pytest.approx(5 / 6)
    assert first.lost == pytest.approx(1 / 20)
    assert first.rtt_s is not None
    assert first.forward_bps is not None
    assert first.reverse_bps is not None
    # The medians of the observations are 22, 40, 24 and 22 ms.
    assert astuple(first.rtt_s) == pytest.approx((0.018, 0.023, 0.090))
    assert astuple(first.forward_bps) == pytest.approx((6e6, (8e6 + 6e6 + 8e6) / 3, 8e6))
    assert astuple(first.reverse_bps) == pytest.approx((4e6, (4e6 + 5e6 + 4e6) / 3, 5e6))
    assert (second.reachable, second.hops, second.rtt_s, second.forward_bps) == (0.0, None, None, None)
    done = anabranch("observe", "report", file)
    assert done.returncode == 0, done.stderr
    assert "from 2026-03-01T08:01:00Z to 2026-03-01T08:06:00Z" in done.stdout
    row = next(text for text in done.stdout.splitlines() if "192.0.2.10" in text)
    for part in ("83 %", "18.0 / 23.0 / 90.0", "6.00 / 7.33 / 8.00", "4.00 / 4.33 / 5.00", "5 %"):
        assert part in row, row
    document = json.loads(anabranch("observe", "report", file, "--json").stdout)
    assert document["pairs"][0]["rtt_s"]["greatest"] == 0.090


def test_routes_have_their_shares_of_the_time(tmp_path: Path) -> None:
    other = ["192.0.2.1", "198.51.100.9", "198.51.100.8", "203.0.113.5"]
    file = written(
        tmp_path,
        seen(rtt_ms=(9.0, 10.0, 11.0)),
        seen(number=2, rtt_ms=(19.0, 20.0, 21.0), hops=["192.0.2.1", None, "203.0.113.5"]),
        seen(number=4, rtt_ms=(29.0, 30.0, 31.0), hops=other),
        seen(number=5, rtt_ms=(99.0, 99.0, 99.0), after=other),
        seen(number=9, rtt_ms=(39.0, 40.0, 41.0)),
        seen(near=("wlan0", "192.0.2.66")),
    )
    first, second = summarise(read(file))
    # Minutes: 1 and 2 of the first route, 1 of the other one, 4 without; the last one has the median gap, 1.5.
    assert [(route.observations, route.dominant) for route in first.routes] == [(3, False), (1, False)]
    assert [route.share for route in first.routes] == pytest.approx([4.5 / 5.5, 1.0 / 5.5])
    assert (first.routers, first.hops, first.hops_mean) == (4, (3, 4), 3.25)
    assert first.rtt_quartiles_s == pytest.approx((0.0175, 0.025, 0.0325))
    assert [(route.share, route.dominant) for route in second.routes] == [(1.0, True)]
    done = anabranch("observe", "report", file, "--routes", "--plot", str(tmp_path / "rtt.png"))
    assert done.returncode == 0, done.stderr
    for part in ("81.8 %", "18.2 %", "100.0 % *", "192.0.2.1 198.51.100.9 198.51.100.8", "3 / 3.2 / 4", "17.5 / 32.5"):
        assert part in done.stdout, done.stdout
    assert (tmp_path / "rtt.png").stat().st_size > 5000
    document = json.loads(anabranch("observe", "report", file, "--json").stdout)
    assert document["pairs"][0]["routes"][1]["hops"] == other


def test_boxes_of_round_trips_show_the_quartiles() -> None:
    axes = draw_boxes({"a": [0.010, 0.020, 0.030, 0.040], "b": [0.005]}, "Observed").axes[0]
    heights = np.asarray(axes.patches[0].get_path().vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((17.5, 32.5))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--routes", "no observation has a route to its end; omit --routes"),
        ("--plot=rtt.png", "no observation has a round-trip time; omit --plot"),
        ("--plot=rtt.jpg", "must end in .png, .svg or .pdf"),
    ],
)
def test_report_without_data_for_an_option_is_refused(tmp_path: Path, option: str, message: str) -> None:
    done = anabranch("observe", "report", written(tmp_path, seen(rtt_ms=None)), option)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_hop_without_answer_matches_any_hop() -> None:
    def way(*hops: str | None, reached: bool = True) -> Route:
        return Route("udp", list(hops), reached)

    assert routes_differ(way("a", "b"), way("a", "c"))
    assert routes_differ(way("a", "b"), way("a", "x", "b"))
    assert routes_differ(way(None, "b"), way("b"))
    assert not routes_differ(way("a", None, "b"), way("a", "x", "b"))
    assert not routes_differ(way("a", "b"), way("a", reached=False))
    assert not routes_differ(None, way("a"))


def links(text: str) -> dict[str, dict[str, Any]]:
    return {link["name"]: link for link in tomllib.loads(text)["link"]}


def mbit(text: str) -> float:
    value, unit = text.split()
    assert unit == "Mbit/s"
    return float(value)


ON_WIRE = 1500 / 1448


def test_rates_are_attributed_to_access_links(tmp_path: Path) -> None:
    second, other = ("wlan0", "192.0.2.66"), "203.0.113.77"
    file = written(
        tmp_path,
        seen(mbit=(8.0, 20.0), rtt_ms=(20.0, 21.0, 22.0)),
        seen(mbit=(8.0, 5.0), remote=other, rtt_ms=(40.0, 41.0, 42.0)),
        seen(near=second, mbit=(3.0, 20.0), rtt_ms=(30.0, 31.0, 32.0)),
        seen(near=second, mbit=(3.0, 5.0), remote=other, rtt_ms=(50.0, 51.0, 52.0)),
    )
    text = scenario(read(file), file)
    found = links(text)
    assert set(found) == {"eth0", "wlan0", "remote-1", "remote-2"} | {
        f"{near}-to-remote-{far}" for near in ("eth0", "wlan0") for far in (1, 2)
    }
    assert mbit(found["eth0"]["rate"]) == pytest.approx(8 * ON_WIRE, rel=1e-5)
    assert mbit(found["wlan0"]["rate"]) == pytest.approx(3 * ON_WIRE, rel=1e-5)
    # The link must not limit any pair: it has ten times the sum 8 + 8 + 3 + 3.
    assert mbit(found["remote-2"]["rate"]) == pytest.approx(220 * ON_WIRE, rel=1e-5)
    assert mbit(found["remote-2"]["reverse"]["rate"]) == pytest.approx(5 * ON_WIRE, rel=1e-5)
    assert mbit(found["remote-1"]["reverse"]["rate"]) == pytest.approx(20 * ON_WIRE, rel=1e-5)
    assert found["wlan0-to-remote-2"]["delay"] == "25.000 ms"
    # 8 Mbit/s · 1500/1448 for the longest round trip over that link, 40 ms, are 27.6 packets.
    assert found["eth0"]["queue"]["limit"] == "28 packets"
    assert text.count("access links limit") == 2
    assert "Observed from 2026-03-01T08:01:00Z" in text
    (flow,) = run(Scenario.from_toml(text).with_settings(('duration="12 s"', 'warmup="4 s"'))).document["flows"]
    # The local access links have 8 and 3 Mbit/s.
    assert 7e6 < flow["goodput_bps"] <= 11e6
    assert mbit(found["eth0"]["reverse"]["rate"]) == pytest.approx(500 * ON_WIRE, rel=1e-5)
    assert len(flow["paths"]) == 4


def test_unexplained_rates_belong_to_network_pairs(tmp_path: Path) -> None:
    second, other = ("wlan0", "192.0.2.66"), "203.0.113.77"
    # Essen to Haikou (Becke 2014, table 5.5): each pair has a best value in some column.
    file = written(
        tmp_path,
        seen(mbit=(8.0, 0.208)),
        seen(mbit=(2.0, 0.255), remote=other),
        seen(near=second, mbit=(2.0, 0.496)),
        seen(near=second, mbit=(8.0, 0.772), remote=other),
    )
    text = scenario(read(file), file)
    found = links(text)
    assert "From here to there no rates of access links explain" in text
    assert mbit(found["eth0-to-remote-2"]["rate"]) == pytest.approx(2 * ON_WIRE, rel=1e-5)
    assert mbit(found["wlan0-to-remote-2"]["rate"]) == pytest.approx(8 * ON_WIRE, rel=1e-5)
    assert mbit(found["wlan0-to-remote-2"]["reverse"]["rate"]) == pytest.approx(0.772 * ON_WIRE, rel=1e-3)
    assert mbit(found["eth0"]["rate"]) > 20


def test_unreachable_pair_is_a_link_that_is_down(tmp_path: Path) -> None:
    file = written(tmp_path, seen(), seen(remote="203.0.113.77", rtt_ms=None))
    found = links(scenario(read(file), file))
    assert found["eth0-to-remote-2"]["state"] == "down"
    assert "state" not in found["eth0-to-remote-1"]
    Scenario.from_toml(scenario(read(file), file)).validate()


def test_pairs_without_throughput_need_a_rate(tmp_path: Path) -> None:
    file = written(tmp_path, seen(mbit=None, remote="2001:db8::5", near=("weird.7@x", "2001:db8::1")))
    done = anabranch("observe", "scenario", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give its rate" in done.stderr
    done = anabranch("observe", "scenario", file, "--rate", "7M")
    assert 'rate = "7.000000 Mbit/s"' in done.stdout
    assert (
        "Assumed: 7.000000 Mbit/s for pairs without a measured throughput or without data in one direction."
        in done.stdout
    )
    assert 'ip = "v6"' in done.stdout
    Scenario.from_toml(done.stdout).validate()
    with pytest.raises(InputError, match="no pair of addresses was reachable"):
        scenario(read(written(tmp_path, seen(rtt_ms=None))), "f")


def test_pair_without_data_has_no_rate(tmp_path: Path) -> None:
    observed = read(written(tmp_path, seen(mbit=(8.0, 0.0))))
    with pytest.raises(InputError, match="no data arrived in one direction; give its rate"):
        scenario(observed, "f")
    Scenario.from_toml(scenario(observed, "f", 7e6)).validate()


RATES = st.floats(0.01, 1e4)


@given(st.lists(RATES, min_size=1, max_size=4), st.lists(RATES, min_size=1, max_size=4))
def test_access_links_explain_their_rates(here: list[float], there: list[float]) -> None:
    rates = {(f"h{i}", f"t{j}"): min(a, b) for i, a in enumerate(here) for j, b in enumerate(there)}
    found = access(rates)
    assert found is not None
    assert all(rate <= found.of(pair) <= (1 + TOLERANCE) * rate for pair, rate in rates.items())
    # No rate exceeds an observed one, and each limit is needed.
    assert all(found.here.get(f"h{i}", 0.0) <= a for i, a in enumerate(here))
    for limits in (found.here, found.there):
        for end in list(limits):
            rate = limits.pop(end)
            assert any(found.of(pair) > (1 + TOLERANCE) * got for pair, got in rates.items())
            limits[end] = rate


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), RATES, min_size=1))
def test_explained_rates_are_within_the_tolerance(rates: dict[tuple[str, str], float]) -> None:
    found = access(rates)
    if found is not None:
        assert all(rate <= found.of(pair) <= (1 + 2 * TOLERANCE) * rate for pair, rate in rates.items())
    else:
        assert len({near for near, _ in rates}) > 1
        assert len({far for _, far in rates}) > 1


def test_pairs_have_one_family_and_valid_addresses() -> None:
    here = [
        Local("lo", "127.0.0.1", loopback=True, usual=False), Local("eth0", "192.0.2.10", False, usual=True),
        Local("eth0", "2001:db8::1", False, usual=True), Local("eth0", "fe80::1", False, usual=False),
        Local("wlan0", "192.0.2.66", False, usual=True),
    ]  # fmt: skip

    def pairs(names: list[str], *chosen: str) -> list[tuple[str, str]]:
        return [(pair.local, pair.remote) for pair in between(names, chosen, here)]

    assert pairs(["203.0.113.5"]) == [("192.0.2.10", "203.0.113.5"), ("192.0.2.66", "203.0.113.5")]
    assert pairs(["203.0.113.5", "2001:db8::9"], "192.0.2.66") == [("192.0.2.66", "203.0.113.5")]
    assert pairs(["203.0.113.5"], "192.0.2.66", "192.0.2.66") == [("192.0.2.66", "203.0.113.5")]
    assert pairs(["2001:db8::9"], "2001:DB8:0::1") == [("2001:db8::1", "2001:db8::9")]
    assert pairs(["127.0.0.2"]) == [("127.0.0.1", "127.0.0.2")]
    assert pairs(["2001:db8::9"]) == [("2001:db8::1", "2001:db8::9")]
    for names, chosen, says in [
        (["203.0.113.5"], ["2001:db8::1"], "no address of the family of 203.0.113.5"),
        (["203.0.113.5"], ["192.0.2.99"], "no such address"),
        (["fe80::9"], [], "valid on one link only"),
        (["no such name"], [], "has no address"),
    ]:
        with pytest.raises(InputError, match=re.escape(says)):
            between(names, chosen, here)


@pytest.mark.parametrize(("seconds", "rounds"), [(None, 3), (1.0, 1), (3.0, 2), (100.0, 3)])
def test_no_round_begins_after_the_announced_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, rounds: int
) -> None:
    """A round may take longer than the interval: here 2 s instead of 0.5 s."""
    clock = [0.0]

    (one,) = read(written(tmp_path, seen()))

    def observe(*_: object) -> Observation:
        clock[0] += 2.0
        return one

    monkeypatch.setattr(watching, "observe_pair", observe)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    pair = Pair("lo", "127.0.0.1", "127.0.0.2", "there")
    plan = watching.Plan([pair], 5210, 0.5, 3, seconds, throughput=False, flow_s=5.0)
    assert len(list(watching.watch(plan, [], lambda: False))) == rounds


def test_journal_continues_after_its_last_whole_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    file = Path(written(tmp_path, seen()))
    (one,) = read(str(file))
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"kind":"observ')
    with pytest.raises(InputError, match="the last line is incomplete"):
        read(str(file))
    journal = Journal(str(file), sys.stdout, "later")
    assert (journal.seen, journal.cut) == ([one], 15)
    journal.add(one)
    with pytest.raises(InputError, match="another observation writes this file"):
        Journal(str(file), sys.stdout, "later")
    journal.close()
    assert read(str(file)) == [one, one]
    assert file.read_bytes() == whole + line(one).encode()
    Journal(None, sys.stdout, "now").add(one)
    assert capsys.readouterr().out == line(Header("anabranch observe", 1, "now")) + line(one)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    def holding(text: str) -> str:
        file = tmp_path / f"other-{len(list(tmp_path.iterdir()))}"
        file.write_text(text, encoding="utf-8")
        return str(file)

    later = HEADER.replace('"version":1', '"version":2')
    for arguments, says in [
        (("report", str(tmp_path / "none")), "cannot be read"),
        (("report", holding("")), "not a file of anabranch observe"),
        (("report", holding("title = 1\n")), "not a file of anabranch observe"),
        (("scenario", holding(later + "\n")), "version 2 of the format is not supported"),
        (("report", holding(HEADER + '\n{"kind":"observation"}\n')), ":2: not an observation"),
        (("report", holding(f"{HEADER}\n{HEADER}\n")), ":2: the first line must be the only header"),
        (("127.0.0.1", "--count", "1", "-o", holding("mine\n")), "not a file of anabranch observe"),
        (("127.0.0.1", "--count", "1", "-o", str(tmp_path / "no" / "file")), "cannot be written"),
        (("127.0.0.1", "--from", "192.0.2.254"), "no such address"),
        (("name.invalid",), "has no address"),
        (("127.0.0.1,",), "addresses separated by commas"),
        (("127.0.0.1", "--interval", "nan"), "nan is not a time"),
        (("127.0.0.1", "--time", "nan"), "nan is not a time"),
        (("127.0.0.1", "--flow-time", "nan"), "nan is not a time"),
        (("127.0.0.1", "--flow-time", "inf"), "--flow-time"),
    ]:
        done = anabranch("observe", *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    # Files that the program did not write stay unchanged.
    assert "mine\n" in {file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}


def test_every_field_is_documented() -> None:
    text = (ROOT / "docs/how-to/observe.md").read_text(encoding="utf-8")
    for kind in (Header, Observation, Route):
        for name in kind.__struct_fields__:
            assert f"`{name}`" in text, name
