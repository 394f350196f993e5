"""Evidence of remedies without runs: numbers worked by hand from rates, round trips and buffers."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch import Scenario
from anabranch.explain.divided_answers import share_of_divided_answers, share_of_moved_answers
from anabranch.explain.explanation import Options, explain
from anabranch.explain.facts import Facts
from anabranch.explain.further_paths import added_bps, carried_bps
from anabranch.explain.likely import first_finding, likely_cause
from anabranch.explain.remedies import proposed, proposed_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.explain.facts import PathFacts

LINK = """
[[link]]
name = "{name}"
between = ["S", "D"]
rate = "{rate}"
delay = "{delay}"
queue = {{ kind = "fifo", limit = "100 packets" }}
"""
FLOW = '[[flow]]\nname = "F"\nfrom = "S"\nto = "D"\nprotocol = "mptcp"\n'
NETWORK = (
    'duration = "1.5 s"\nwarmup = "0.5 s"\n'
    + LINK.format(name="a", rate="8 Mbit/s", delay="10 ms")
    + LINK.format(name="b", rate="12 Mbit/s", delay="20 ms")
    + FLOW
)
GATEWAYS = Path(anabranch.__file__).parent / "examples" / "gateways.toml"


@cache
def measured(*settings: str) -> Any:
    return anabranch.run(Scenario.from_toml(NETWORK).with_settings(settings), seed=1).document


def facts_of(*settings: str, change: Callable[[Any], None] | None = None) -> Facts:
    """The facts of a short run, whose numbers a test replaces by its own."""
    document = copy.deepcopy(measured(*settings))
    document["flows"][0]["goodput_bps"] = 6.4e6
    if change is not None:
        change(document)
    return Facts.of(document, None)


def evidence(facts: Facts, kind: str, setting: str = "") -> float:
    """Largest evidence of a kind, of the remedies with a setting."""
    return max(
        (p.evidence for found, p in proposed(facts) if found.name == kind and setting in " ".join(p.settings)),
        default=0.0,
    )


def path_of(facts: Facts, name: str) -> PathFacts:
    return next(path for path in facts.paths if path.name == name)


def test_buffer_bounds_other_remedies() -> None:
    # 64 kB in a round trip of 40 ms are 12.8 Mbit/s, twice the rate of the run.
    facts = facts_of("flow.F.receive_buffer=64 kB")
    assert facts.buffered_bps == pytest.approx(12.8e6)
    assert facts.attainable == pytest.approx(0.5)
    assert max(p.evidence for kind, p in proposed(facts) if not kind.lifts_limit) <= 0.5


def test_best_path_alone_exceeds_the_bound() -> None:
    # Over path a alone, 32 kB last for 12.8 Mbit/s, and the path carries 93 % of 8 Mbit/s; with b they last for 6.4.
    assert facts_of("flow.F.send_buffer=32 kB").buffered_bps == pytest.approx(0.93 * 8e6)


def test_backup_does_not_lower_the_bound() -> None:
    # 8 Mbit over the longest round trip with data, not over that of a backup, which no data waits for.
    def backup(document: Any) -> None:
        path = next(p for p in document["flows"][0]["paths"] if p["name"] == "b")
        path.update(backup=True, srtt_mean_s=1.0, data_packets=0)

    facts = facts_of("flow.F.send_buffer=1 MB", "flow.F.receive_buffer=1 MB", change=backup)
    assert facts.buffered_bps == pytest.approx(8e6 / path_of(facts, "a").rtt_s)


def test_unknown_rate_does_not_lower_the_bound() -> None:
    # The rate of a trace is not known. The best path alone then has what its buffer permits: 0.8 Mbit in a round trip.
    def trace(document: Any) -> None:
        for link in document["scenario"]["link"]:
            link["rate"] = {"trace": "rates.mahi"}

    facts = facts_of("flow.F.send_buffer=100 kB", "flow.F.receive_buffer=100 kB", change=trace)
    assert [path.rate_bps for path in facts.paths] == [None, None]
    assert facts.buffered_bps == pytest.approx(0.93 * 0.8e6 / path_of(facts, "a").rtt_s)


def test_application_bounds_other_remedies() -> None:
    def idle(document: Any) -> None:
        document["flows"][0]["limited_s"]["application"] = 0.9
        document["scenario"]["flow"][0]["workload"]["rate"] = "30 Mbit/s"

    facts = facts_of('flow.F.workload={kind="rate",rate="3 Mbit/s"}', "flow.F.backup=['b']", change=idle)
    assert facts.attainable == pytest.approx(0.1)
    assert evidence(facts, "backup") == pytest.approx(0.1)
    # The application itself may write 8 instead of 6.4 Mbit/s.
    assert evidence(facts, "application") == pytest.approx(0.2)


def test_rate_of_the_application_bounds_other_remedies() -> None:
    # The application writes 8 Mbit/s, of which 6.4 arrive.
    facts = facts_of('flow.F.workload={kind="rate",rate="8 Mbit/s"}', "flow.F.backup=['b']")
    assert facts.attainable == pytest.approx(0.2)


def coupled_after_losses(document: Any) -> None:
    """A first path at 6 Mbit/s, whose queue of 4 packets dropped some."""
    path, link = document["flows"][0]["paths"][0], document["links"][0]
    path["goodput_bps"] = 6e6
    link["drops_by_cause"]["queue"] = 20


def test_further_path_costs_a_coupled_one_its_rate() -> None:
    # 8 Mbit/s for 20 ms are 13.3 packets. Half of them regrow in 6.67 round trips, coupled in 4 × 0.133 s = 0.533 s.
    short = facts_of("link.a.queue.limit=4 packets", change=coupled_after_losses)
    lost_bps = 6e6 * 0.5333 / (0.5333 + 1.0)
    assert added_bps(short, 4e6) == pytest.approx(0.9 * 4e6 - lost_bps, rel=1e-3)
    assert added_bps(facts_of(), 4e6) == pytest.approx(0.9 * 4e6)


def test_lossy_backup_adds_little() -> None:
    # 1 % of losses and 40 ms permit 1.22 × 12,000 bit / (0.04 s × 0.1) = 3.66 Mbit/s of 12.
    facts = facts_of("flow.F.backup=['b']", 'link.b.loss={model="bernoulli",rate=0.01}')
    assert carried_bps(facts, path_of(facts, "b")) == pytest.approx(3.66e6)


def test_backup_without_an_open_path_has_no_evidence() -> None:
    facts = facts_of("flow.F.backup=['b']", "flow.F.paths=default")
    alone, together = [p for kind, p in proposed(facts) if kind.name == "backup"]
    assert alone.evidence == evidence(facts, "path-not-used") == 0.0
    # With both, path b carries 0.9 × 12 Mbit/s beside the 6.4 of path a.
    assert together.settings == ("flow.F.backup=[]", 'flow.F.paths="fullmesh"')
    assert together.evidence == pytest.approx(10.8 / 17.2)
    # The connection begins on path b then: 0.9 × 12 − 6.4 = 4.4 Mbit/s more.
    assert evidence(facts, "initial-path", '"b"') == pytest.approx(4.4 / 10.8, rel=1e-6)


def test_backup_over_a_link_that_is_down_needs_both() -> None:
    facts = facts_of("flow.F.backup=['b']", "link.b.state=down")
    alone, together = [p for kind, p in proposed(facts) if kind.name == "path-down"]
    assert alone.settings == ('link.b.state="up"',)
    assert alone.evidence == 0.0
    assert together.settings == ('link.b.state="up"', "flow.F.backup=[]")
    assert together.evidence == pytest.approx(10.8 / 17.2)


def test_single_path_protocol_needs_another_one() -> None:
    facts = facts_of("flow.F.protocol=tcp", "link.b.state=down")
    alone, together = [p for kind, p in proposed(facts) if kind.name == "path-down"]
    assert (alone.evidence, together.settings[1]) == (0.0, 'flow.F.protocol="mptcp"')


def test_scheduler_bounds_further_paths() -> None:
    # All data on each path: 0.93 × 12 Mbit/s of the best one. Equal parts on both: twice 0.93 × 8 Mbit/s.
    assert added_bps(facts_of("flow.F.scheduler=redundant", "flow.F.backup=['b']"), 12e6) == pytest.approx(4.76e6)
    assert added_bps(facts_of("flow.F.scheduler=strict-round-robin", "flow.F.backup=['b']"), 12e6) == pytest.approx(
        8.48e6
    )


def test_return_link_limits_a_backup() -> None:
    def full(document: Any) -> None:
        for link in document["links"]:
            if link["direction"] == "reverse":
                link["utilisation"] = 0.95

    slow = [f"link.{name}.reverse.rate=40 kbit/s" for name in ("a", "b")]
    facts = facts_of("flow.F.backup=['b']", *slow, change=full)
    # 40 kbit/s of acknowledgements suffice for 6.4 Mbit/s on path a, and for as much on path b.
    assert carried_bps(facts, path_of(facts, "b")) == pytest.approx(6.4e6)


def test_answers_are_divided_by_round_trips_and_rates() -> None:
    def slow(document: Any) -> None:
        document["flows"][0]["response_time_s"]["mean"] = 0.1

    facts = facts_of('flow.F.workload={kind="request-response",response="30 kB"}', change=slow)
    # 30 kB are 258 kbit with headers. Half of it takes 16.1 ms at 8 Mbit/s after 20 ms, and 10.8 ms at 12 Mbit/s after
    # 0.75 × 40 + 0.25 × 20 = 35 ms: 45.8 of 100 ms, of which 80 % count.
    assert share_of_divided_answers(facts, (0.5, 0.5)) == pytest.approx(0.8 * (1.0 - 0.4575), rel=1e-3)
    # All of it on the first path takes 20 + 32.3 ms.
    assert share_of_divided_answers(facts, (1.0,)) == pytest.approx(0.8 * (1.0 - 0.5226), rel=1e-3)
    # A scheduler that prefers the same path changes nothing.
    assert evidence(facts, "scheduler", "blest") < 0.1 < evidence(facts, "scheduler", "round-robin")


def test_answers_move_to_a_faster_link() -> None:
    def slow(document: Any) -> None:
        document["flows"][0]["response_time_s"]["mean"] = 0.1

    requests = 'flow.F.workload={kind="request-response",response="30 kB"}'
    facts = facts_of(requests, "flow.F.protocol=tcp", change=slow)
    # 258 kbit take 21.5 ms at the 12 Mbit/s of link b, after a round trip of 40 ms.
    moved = 1.0 - (0.04 + 8 * 30e3 / 0.93 / 12e6) / 0.1
    assert share_of_moved_answers(facts, ["b"]) == pytest.approx(moved)
    assert evidence(facts, "initial-path", '"b"') == pytest.approx(moved)
    assert evidence(facts, "path-not-used") == pytest.approx(moved)
    # With a return link of 1 Mbit/s, they take longer there.
    facts = facts_of(requests, "flow.F.protocol=tcp", "link.b.reverse.rate=1 Mbit/s", change=slow)
    assert share_of_moved_answers(facts, ["b"]) == 0.0


def test_longer_packets_begin_with_a_larger_window() -> None:
    def short(document: Any) -> None:
        document["flows"][0]["completion_s"] = 0.2

    facts = facts_of('flow.F.workload={kind="file",size="100 kB"}', "flow.F.mtu=576", change=short)
    # 1428 instead of 504 bytes save 1.50 round trips of the longest path.
    trips = 1.5025
    assert evidence(facts, "mtu") == pytest.approx(trips * facts.largest_rtt_s / 0.2, rel=1e-3)


def test_short_queue_overflows_in_a_larger_start() -> None:
    def short(document: Any) -> None:
        document["flows"][0]["completion_s"] = 0.2

    size = 'flow.F.workload={kind="file",size="100 kB"}'
    assert evidence(facts_of(size, change=short), "slow-start") == pytest.approx(0.36)
    assert evidence(facts_of(size, "link.a.queue.limit=39 packets", change=short), "slow-start") == pytest.approx(0.2)


def test_small_packets_leave_less_payload() -> None:
    # 504 of 776 bytes are payload, of long packets 1428 of 1500.
    facts = facts_of("flow.F.mtu=576", "link_defaults.overhead=200")
    assert facts.payload_share == pytest.approx(0.93 * (504 / 776) / (1428 / 1500))
    assert facts_of().payload_share == pytest.approx(0.93)
    # 6.4 of 20 Mbit/s are 68 % less than the rate, and 53 % less than the payload that it can carry.
    assert facts.payload_gap == pytest.approx(1.0 - 6.4 / (20.0 * (504 / 776) / (1428 / 1500)))


def test_lost_acknowledgements_cost_little() -> None:
    def lost(document: Any) -> None:
        for link in document["links"]:
            link["utilisation"] = 0.5
            if link["direction"] == "reverse" and link["name"] == "a":
                link["packets"], link["drops_by_cause"]["loss"] = 1000, 20

    facts = facts_of('link.a.reverse.loss={model="bernoulli",rate=0.02}', change=lost)
    # 2 % of them are lost on the way back from a path with 3.72 Mbit/s to spare; the flow has 6.4.
    assert evidence(facts, "reverse-path", "loss") == pytest.approx(0.02 * 3.72 / 10.12)


def limited(**causes: float) -> Callable[[Any], None]:
    """Half-used links, path a with some limits, b penalised after one loss, and neither with a full buffer."""

    def change(document: Any) -> None:
        document["flows"][0]["blocked_s"].update({"receive-window": 0.0, "send-buffer": 0.0, "pacing": 0.0})
        for link in document["links"]:
            link["utilisation"] = 0.1 if link["direction"] == "reverse" else 1.0 if link["name"] == "a" else 0.5
        for path in document["flows"][0]["paths"]:
            path["limited_s"] = {name.replace("_", "-"): seconds for name, seconds in causes.items()}
            path["bytes_by_kind"] = {"new": 1}
            path["outstanding_mean_bytes"] = 20e3
            path["reductions_by_cause"] = {"loss": 1, "timeout": 0, "penalisation": 2 if path["name"] == "b" else 0}

    return change


def test_penalised_path_is_held_back_by_the_buffer() -> None:
    # Path b has 0.93 × 6 = 5.58 Mbit/s to spare, which its penalised window does not take; the flow has 6.4.
    facts = facts_of("flow.F.receive_buffer=64 kB", change=limited(congestion_avoidance=1.0))
    assert [path.is_penalised for path in facts.paths] == [False, True]
    assert evidence(facts, "receive-buffer") == pytest.approx(5.58 / 11.98)


def test_lossy_path_gains_nothing_from_a_buffer() -> None:
    def lost(document: Any) -> None:
        limited(congestion_avoidance=0.9, receive_window=0.1)(document)
        path = document["flows"][0]["paths"][1]
        path["reductions_by_cause"]["penalisation"] = 0
        path["srtt_mean_s"], path["goodput_bps"] = 0.02, 1e6
        document["flows"][0]["blocked_s"]["receive-window"] = 0.5

    # 0.2 % of losses permit 16.4 Mbit/s, more than is free on path b. It waits for the buffer in a tenth of its time.
    facts = facts_of("flow.F.receive_buffer=64 kB", 'link.b.loss={model="bernoulli",rate=0.002}', change=lost)
    assert path_of(facts, "b").reduced_share == pytest.approx(0.9)
    assert evidence(facts, "receive-buffer") == pytest.approx(0.558 / 6.958, rel=1e-3)


LOSSY_BACKUP = ("flow.F.receive_buffer=64 kB", 'link.b.loss={model="bernoulli",rate=0.02}')


def stuck(document: Any) -> None:
    """Path a is full, b carries nothing: losses keep its window small, and the buffer bounds what it could add."""
    limited(congestion_avoidance=1.0)(document)
    flow = document["flows"][0]
    flow["goodput_bps"] = 7.4e6
    flow["paths"][1]["goodput_bps"], flow["paths"][1]["srtt_mean_s"] = 0.0, 0.4
    for link in document["links"]:
        if link["name"] == "b":
            link["utilisation"], link["drops_by_cause"] = 0.0, {**link["drops_by_cause"], "loss": 2}


def test_buffer_and_losses_are_named_together() -> None:
    facts = facts_of("link.b.delay=40 ms", *LOSSY_BACKUP, change=stuck)
    kind, (buffer, loss) = proposed_together(facts)
    assert kind == "receive-buffer + random-loss"
    assert loss.settings == ('link.b.loss={ model="none" }',)
    # Both together fill path b: 0.93 × 12 Mbit/s in addition to 7.4.
    assert buffer.evidence == loss.evidence == pytest.approx(11.16 / 18.56)


def test_buffer_that_helps_alone_is_no_pair() -> None:
    def penalised(document: Any) -> None:
        stuck(document)
        document["flows"][0]["paths"][1]["srtt_mean_s"] = 0.02

    # 2 % of losses and 20 ms permit 5.2 Mbit/s on path b.
    assert proposed_together(facts_of("link.b.delay=40 ms", *LOSSY_BACKUP, change=penalised)) == ("", ())
    assert proposed_together(facts_of(*LOSSY_BACKUP[1:], change=stuck)) == ("", ())


def test_pair_is_run_and_named_without_runs() -> None:
    scenario = Scenario.from_toml(NETWORK).with_settings(
        ("duration=5 s", "warmup=1 s", "link.b.delay=40 ms", *LOSSY_BACKUP)
    )
    found = explain(scenario, Options(reps=1, time_limit_s=600.0)).first
    assert found.kind == "receive-buffer + random-loss"
    assert found.sentence.startswith("Two causes act together. The receive buffer of 64 kB is too small")


def test_data_in_flight_shows_a_full_buffer() -> None:
    def full(document: Any) -> None:
        limited(slow_start=1.0)(document)
        for path in document["flows"][0]["paths"]:
            path["reductions_by_cause"]["penalisation"] = 0
            path["outstanding_mean_bytes"] = 30e3

    # 60 of 64 kB are in flight, whatever the waiting times are.
    facts = facts_of("flow.F.send_buffer=64 kB", change=full)
    assert facts.fills_buffer
    assert evidence(facts, "send-buffer") == pytest.approx(5.58 / 11.98)


def test_longer_packets_save_headers() -> None:
    def full(document: Any) -> None:
        for link in document["links"]:
            link["utilisation"] = 1.0

    facts = facts_of("flow.F.mtu=576", "link_defaults.overhead=200", change=full)
    # 504 of 776 bytes are payload, with long packets 1428 of 1700.
    assert evidence(facts, "mtu") == pytest.approx(1.0 - (504 / 776) / (1428 / 1700), rel=1e-6)


def test_single_path_protocol_has_room_on_one_path() -> None:
    facts = facts_of("flow.F.protocol=sctp")
    assert [path.name for path in facts.data_paths] == ["a"]
    assert facts.room_bps <= 0.93 * 8e6


def test_few_repetitions_do_not_use_a_path() -> None:
    def repeated(document: Any) -> None:
        first, second = document["flows"][0]["paths"]
        first["data_packets"], second["data_packets"] = 1000, 20

    assert facts_of("flow.F.protocol=sctp", change=repeated).unused_links() == ["b"]


def test_losses_of_all_links_are_named_together() -> None:
    def lost(document: Any) -> None:
        for link in document["links"]:
            link["drops_by_cause"]["loss"] = 40 if link["name"] == "a" and link["direction"] == "forward" else 1

    rates = [f'link.{name}.loss={{model="bernoulli",rate=0.00{digit}}}' for name, digit in (("a", 5), ("b", 1))]
    found = [p for kind, p in proposed(facts_of(*rates, change=lost)) if kind.name == "random-loss"]
    assert [each.subject for each in found] == ["a, b", "a", "b"]
    assert found[0].evidence == pytest.approx(found[1].evidence)
    assert found[2].evidence == 0.0


def dropping(*nodes: str) -> Scenario:
    settings = [f"router.{node}.source_routes=drop" for node in nodes]
    return Scenario.from_file(GATEWAYS).with_settings(("duration=6 s", "warmup=1 s", *settings))


def test_router_that_drops_source_routes_is_the_cause() -> None:
    document = anabranch.run(dropping("G1", "G2")).document
    found = first_finding(document)
    assert found is not None
    assert found.kind == "source-routes"
    assert 'Router "G2" dropped ' in str(likely_cause(document))
    assert evidence(Facts.of(document, None), "coupling") == 0.0


def test_remedy_for_source_routes_is_measured() -> None:
    found = explain(dropping("G2"), Options(reps=1, time_limit_s=600.0)).first
    assert (found.kind, found.settings) == ("source-routes", ('router.G2.source_routes="forward"',))
    assert found.net > 0.8
