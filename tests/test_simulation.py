"""Simulations in steps: values, changes of links, results and errors."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch._core.states import DirectionSample, FlowSample, PathSample, Sample

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
duration = "2 s"

[[link]]
name = "wlan"
between = ["phone", "server"]
rate = "8 Mbit/s"
delay = "10 ms"

[[link]]
name = "lte"
between = ["phone", "server"]
rate = "4 Mbit/s"
delay = "30 ms"

[[flow]]
name = "upload"
from = "phone"
to = "server"
protocol = "mptcp"
congestion = "olia"
paths = "disjoint"
"""


@pytest.fixture
def scenario() -> anabranch.Scenario:
    return anabranch.Scenario.from_toml(TEXT)


def test_steps_give_the_result_of_a_run(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario, seed=7)
    digests = set()
    while not run.is_over:
        run.step_until(run.now_s + 0.05)
        digests.add(run.digest())
    whole = anabranch.run(scenario, seed=7)
    result = run.result()
    assert run.digest() == whole.digest == result.digest
    assert result.seed == 7
    assert len(digests) == 40
    assert result.flows.equals(whole.flows)
    assert result.links.equals(whole.links)
    assert run.events == result.document["events"]


def test_sample_has_present_values(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario)
    assert run.sample()["flows"][0]["paths"] == []
    run.step_until(1)
    sample = run.sample()
    assert (sample["now_ns"], run.now_s, sample["over"]) == (10**9, 1.0, False)
    (flow,) = sample["flows"]
    assert [path["name"] for path in flow["paths"]] == ["wlan", "lte"]
    (first, *_), (link, *_) = flow["paths"], sample["links"]
    for part, kind in ((sample, Sample), (flow, FlowSample), (first, PathSample), (link["forward"], DirectionSample)):
        assert set(part) == set(kind.__annotations__)
    assert all(path["in_flight_bytes"] > 0 and path["cwnd_bytes"] > 0 for path in flow["paths"])
    # 12 Mbit/s for less than a second.
    assert 1e6 < flow["delivered_bytes"] < 1.5e6
    assert sample["links"][0]["forward"]["sent_bytes"] > sample["links"][1]["forward"]["sent_bytes"]


@pytest.mark.parametrize("time_s", [0.0, 0.01, 1.0])
def test_values_of_a_flow_are_those_of_its_sample(scenario: anabranch.Scenario, time_s: float) -> None:
    run = anabranch.Simulation(scenario, seed=7)
    run.step_until(time_s)
    flow = run.sample()["flows"][0]
    keys = ("delivered_bytes", "srtt_s", "in_flight_bytes", "cwnd_bytes", "retransmissions")
    paths = [tuple(dict(path)[key] or 0 for key in keys) for path in flow["paths"]]
    assert run.flow_values() == (flow["delivered_bytes"], flow["reordering_buffer_bytes"], paths)


@pytest.mark.parametrize(("flow", "message"), [(1, "there is no flow 1; the scenario has 1"), (-1, "from 0 on")])
def test_unknown_flow_has_no_values(scenario: anabranch.Scenario, flow: int, message: str) -> None:
    with pytest.raises(anabranch.InputError, match=message):
        anabranch.Simulation(scenario).flow_values(flow)


def test_exported_scenario_repeats_orders(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario, seed=3)
    run.step_until(0.5)
    run.order("wlan", {"rate": "1 Mbit/s", "queue": {"kind": "codel"}}, direction="forward")
    run.step_until(1.0)
    run.order("lte", {"state": "down"})
    result = run.finish()
    assert result.digest != anabranch.run(scenario, seed=3).digest
    exported = run.scenario()
    assert exported.text.count("[[event]]") == 3
    assert anabranch.run(exported).digest == result.digest
    # The document contains the changes of links, too.
    assert len(result.document["scenario"]["event"]) == 3


def test_traces_are_those_of_a_run(scenario: anabranch.Scenario, tmp_path: Path) -> None:
    run = anabranch.Simulation(scenario, trace=tmp_path / "steps", pcap=tmp_path / "steps.pcapng")
    for number in range(7):
        run.step_until(number * 0.123)
    run.finish()
    anabranch.run(scenario, trace=tmp_path / "run", pcap=tmp_path / "run.pcapng")
    for name in ("paths.csv", "queues.csv", "buffers.csv", "decisions.csv", "transfers.csv"):
        assert (tmp_path / "steps" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    assert (tmp_path / "steps.pcapng").read_bytes() == (tmp_path / "run.pcapng").read_bytes()


def test_times_beyond_the_run_are_its_ends(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario)
    for time_s in (-1, float("-inf"), 0):
        run.step_until(time_s)
        assert run.now_s == 0
    run.step_until(float("inf"))
    assert (run.is_over, run.now_s) == (True, 2.0)
    assert repr(run) == "Simulation('scenario', over)"


@pytest.mark.parametrize("time_s", [None, "1 s", float("nan")])
def test_invalid_time_is_refused(scenario: anabranch.Scenario, time_s: object) -> None:
    run = anabranch.Simulation(scenario)
    with pytest.raises(anabranch.InputError, match="time_s must be a number of seconds"):
        run.step_until(time_s)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("link", "changes", "message"),
    [
        ("wln", {"state": "down"}, 'the order: there is no link "wln"; did you mean "wlan"?'),
        ("wlan", {"rat": "5 Mbit/s"}, 'unknown key "rat" in set of the order; did you mean "rate"?'),
        ("wlan", {}, "set of the order changes nothing; give at least one of state, address, rate, delay"),
        ("wlan", {"rate": float("nan")}, "changes must be a table of texts, numbers and tables"),
    ],
)
def test_invalid_order_is_refused(
    scenario: anabranch.Scenario, link: str, changes: dict[str, object], message: str
) -> None:
    run = anabranch.Simulation(scenario)
    with pytest.raises(anabranch.InputError) as error:
        run.order(link, changes)
    assert message in str(error.value)


def test_result_of_a_running_simulation_is_refused(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario)
    run.step_until(1)
    with pytest.raises(anabranch.InputError, match="the run is not over; call finish"):
        run.result()


def test_invalid_seed_is_refused(scenario: anabranch.Scenario) -> None:
    with pytest.raises(anabranch.InputError, match="a seed is a whole number"):
        anabranch.Simulation(scenario, seed=-1)


def test_step_releases_the_interpreter(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario.set("duration", "200 s").set("link.wlan.rate", "200 Mbit/s"))
    begun, counted = threading.Event(), [0]

    def count() -> None:
        begun.set()
        while not run_over.is_set():
            counted[0] += 1

    run_over = threading.Event()
    thread = threading.Thread(target=count)
    thread.start()
    begun.wait()
    before = counted[0]
    run.step_until(20)
    during = counted[0] - before
    run_over.set()
    thread.join()
    # Without the release, the other thread would not run before the step ends.
    assert during > 1000


def test_interrupted_run_has_the_time_that_it_reached(scenario: anabranch.Scenario) -> None:
    run = anabranch.Simulation(scenario.set("duration", "100000 s").set("link.wlan.rate", "200 Mbit/s"))
    run.step_until(2)

    def is_stepping() -> bool:
        # Another thread has no access to a run that is stepping.
        try:
            return run.now_s > 2
        except RuntimeError:
            return True

    def interrupt() -> None:
        while not is_stepping():
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run.finish()
    thread.join()
    assert 2 <= run.now_s < 100000
    assert run.sample()["now_ns"] == round(run.now_s * 1e9)
    with pytest.raises(anabranch.InputError, match=r"the run was interrupted at .* s and cannot go on; open it again"):
        run.finish()
