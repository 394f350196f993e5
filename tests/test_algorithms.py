"""Congestion controls and schedulers in Python."""

from __future__ import annotations

import subprocess
import sys
import traceback
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
import fake_simulator
import small_study
from anabranch import InputError, RunFailed, Scenario, Simulation
from anabranch.algorithms import Ack, Controller, Loss, Offer, PathState, SharesScheduler, Timeout
from anabranch.algorithms import Path as NetworkPath
from anabranch.stack import Stack
from anabranch.study.definition import load

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
VECTORS = ROOT / "vectors" / "congestion"

NETWORK = """
duration = "8 s"
warmup = "1 s"

[[link]]
name = "wlan"
between = ["phone", "server"]
rate = "8 Mbit/s"
delay = "10 ms"
queue = { kind = "red", limit = "30 packets", ecn = true }
loss = { model = "bernoulli", rate = 0.002 }

[[link]]
name = "mobile"
between = ["phone", "server"]
rate = "4 Mbit/s"
delay = "40 ms"
queue = { kind = "fifo", limit = "20 packets" }

[[event]]
at = "3 s"
link = "mobile"
set = { state = "down" }

[[event]]
at = "5 s"
link = "mobile"
set = { state = "up" }

[[flow]]
name = "upload"
from = "phone"
to = "server"
protocol = "PROTOCOL"
"""

_NUMBERS = count()


def network(protocol: str, **settings: Any) -> Scenario:
    scenario = Scenario.from_toml(NETWORK.replace("PROTOCOL", protocol), "network")
    for key, value in settings.items():
        scenario = scenario.set(f"flow.upload.{key}", value)
    return scenario


def registered(register: Callable[[str, type], None], cls: type) -> str:
    """Register a class under a name that no other test uses."""
    name = f"test-{next(_NUMBERS)}"
    register(name, cls)
    return name


class Reno(Controller):
    """One packet a round trip, half the window on loss."""

    def avoidance(self, path: NetworkPath, ack: Ack) -> float:
        return path.mss

    def threshold(self, path: NetworkPath) -> float:
        return max(path.cwnd - path.cwnd // 2, path.floor)


class RoundRobin:
    """One packet on each path in turn."""

    def __init__(self) -> None:
        self.last = -1

    def select(self, offer: Offer, paths: list[PathState]) -> int | None:
        room = sorted(path.id for path in paths if path.eligible)
        self.last = next((id_ for id_ in room if id_ > self.last), room[0])
        return self.last


PYTHON_RENO = registered(anabranch.register_congestion, Reno)
PYTHON_ROUND_ROBIN = registered(anabranch.register_scheduler, RoundRobin)

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("tcp", {}),
    ("tcp", {"ecn": True, "delayed_ack": False}),
    ("tcp", {"whole_packets": True}),
    ("tcp", {"recovery": "sack", "workload": {"kind": "on-off", "on": "500 ms", "off": "2 s", "rate": "9 Mbit/s"}}),
    ("mptcp", {}),
    ("mptcp", {"ecn": True, "receive_buffer": "60 kB", "penalisation": True}),
    ("mptcp", {"whole_packets": True, "receive_buffer": "60 kB", "penalisation": "any"}),
    ("sctp", {}),
    ("cmt-sctp", {}),
    ("cmt-sctp", {"receive_buffer": "60 kB", "ecn": True}),
]


@pytest.mark.parametrize(("protocol", "settings"), SETTINGS)
def test_reno_in_python_equals_its_twin(protocol: str, settings: dict[str, Any]) -> None:
    twin = anabranch.run(network(protocol, congestion="reno", **settings))
    ours = anabranch.run(network(protocol, congestion=PYTHON_RENO, **settings))
    assert ours.digest == twin.digest
    assert twin.flows["goodput_bps"][0] > 100_000


@pytest.mark.parametrize(("protocol", "settings"), SETTINGS[4:7] + SETTINGS[8:])
def test_round_robin_equals_its_twin(protocol: str, settings: dict[str, Any]) -> None:
    twin = anabranch.run(network(protocol, scheduler="round-robin", congestion="reno", **settings))
    ours = anabranch.run(network(protocol, scheduler=PYTHON_ROUND_ROBIN, congestion=PYTHON_RENO, **settings))
    assert ours.digest == twin.digest


def test_digest_does_not_depend_on_steps() -> None:
    scenario = network("mptcp", scheduler=PYTHON_ROUND_ROBIN, congestion=PYTHON_RENO)
    run = Simulation(scenario, seed=7)
    while not run.is_over:
        run.step_until(run.now_s + 0.3)
    assert run.digest() == anabranch.run(scenario, seed=7).digest
    # The scenario of a run can be read again.
    assert anabranch.run(run.scenario()).digest == run.digest()


def test_reno_in_python_obeys_laws_and_vectors() -> None:
    anabranch.check_congestion(Reno, sequences=60, vectors=VECTORS / "reno.jsonl")
    with pytest.raises(InputError, match=r"Reno is no congestion control: line \d+ of the vectors: the window"):
        anabranch.check_congestion(Reno, sequences=0, vectors=VECTORS / "cubic.jsonl")
    anabranch.check_congestion(Reno, sequences=0, vectors=VECTORS / "cubic.jsonl", tolerance_bytes=10**6)


class Stubborn(Reno):
    """Keeps its window after a timeout."""

    def on_timeout(self, path: NetworkPath, timeout: Timeout) -> None:
        pass


class Greedy(Reno):
    """Grows even in recovery."""

    def on_ack(self, path: NetworkPath, ack: Ack) -> None:
        path.cwnd = path.cwnd + ack.acked


class Meddler(Reno):
    """Takes the window of other paths."""

    def on_loss(self, path: NetworkPath, loss: Loss) -> None:
        super().on_loss(path, loss)
        for other in self.paths:
            other.cwnd = other.mss


class Forgetful(Reno):
    """Depends on other connections."""

    created = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).created += 1

    def avoidance(self, path: NetworkPath, ack: Ack) -> float:
        return self.created


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (Stubborn, "a timeout must set the window to one packet; .*on_timeout"),
        (Greedy, "a window must not grow"),
        (Meddler, "a window must not change without an event of its path"),
        (Forgetful, "the same events must give the same windows"),
    ],
)
def test_check_names_the_broken_law(cls: type, law: str) -> None:
    with pytest.raises(InputError, match=rf"{cls.__name__} is no congestion control: {law}") as found:
        anabranch.check_congestion(cls)
    # The shrunk example has no event that the failure does not need.
    assert len(str(found.value).split("), ")) < 8


class Failing(Reno):
    """Divides by zero after some time."""

    def on_ack(self, path: NetworkPath, ack: Ack) -> None:
        if ack.now_s > 0.5:
            _ = ack.acked / 0


FAILING = registered(anabranch.register_congestion, Failing)
SENTENCE = rf'congestion control "{FAILING}" raised ZeroDivisionError in on_ack at 0\.\d+ s: division by zero'


def test_exception_ends_the_run_with_its_traceback() -> None:
    with pytest.raises(RunFailed, match=f"^{SENTENCE}$") as found:
        anabranch.run(network("tcp", congestion=FAILING))
    assert "_ = ack.acked / 0" in "".join(traceback.format_exception(found.value))
    with pytest.raises(RunFailed, match="raised ZeroDivisionError in on_ack"):
        anabranch.check_congestion(Failing)
    # Nothing of the failure remains.
    assert anabranch.run(network("tcp")).flows["goodput_bps"][0] > 0


def test_exception_ends_a_run_in_steps_for_good() -> None:
    run = Simulation(network("tcp", congestion=FAILING))
    run.step_until(0.2)
    with pytest.raises(RunFailed, match=SENTENCE):
        run.finish()
    assert not run.is_over
    with pytest.raises(InputError, match=r"an algorithm of the run failed at .* s, so it cannot go on; open it again"):
        run.step_until(9.0)
    with pytest.raises(InputError, match="the run is not over"):
        run.result()


class Broken:
    """Cannot be created."""

    def __init__(self) -> None:
        raise LookupError

    def select(self, offer: Offer, paths: list[PathState]) -> int | None:
        return None


class Interrupting(RoundRobin):
    """As if Ctrl-C came during a decision."""

    def select(self, offer: Offer, paths: list[PathState]) -> int | None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("returned", [9, -1, 300, "0", 1.5, [0]])
def test_wrong_decisions_end_the_run(returned: object) -> None:
    class Wrong:
        def select(self, offer: Offer, paths: list[PathState]) -> object:
            return returned if all(path.usable for path in paths) and len(paths) > 1 else 0

    name = registered(anabranch.register_scheduler, Wrong)
    with pytest.raises(RunFailed, match=r"returned .* from select at .* s; return None or the id of a path") as found:
        anabranch.run(network("mptcp", scheduler=name))
    assert repr(returned) in str(found.value)


def test_interrupts_and_failing_classes_end_the_run() -> None:
    interrupting = registered(anabranch.register_scheduler, Interrupting)
    with pytest.raises(KeyboardInterrupt):
        anabranch.run(network("mptcp", scheduler=interrupting))
    broken = registered(anabranch.register_scheduler, Broken)
    with pytest.raises(RunFailed, match=f'^scheduler "{broken}" raised LookupError in __init__$'):
        anabranch.run(network("mptcp", scheduler=broken))


def test_scheduler_that_waits_forever_ends_with_the_run() -> None:
    class Idle:
        def select(self, offer: Offer, paths: list[PathState]) -> None:
            return None

    name = registered(anabranch.register_scheduler, Idle)
    assert anabranch.run(network("mptcp", scheduler=name)).flows["goodput_bps"][0] == 0


def test_values_of_schedulers_are_those_of_the_run() -> None:
    seen: list[tuple[Offer, list[PathState]]] = []

    class Watching(RoundRobin):
        blocked = 0

        def select(self, offer: Offer, paths: list[PathState]) -> int | None:
            seen.append((offer, paths))
            return super().select(offer, paths)

        def on_blocked(self) -> None:
            type(self).blocked += 1

    name = registered(anabranch.register_scheduler, Watching)
    anabranch.run(network("mptcp", scheduler=name, receive_buffer="40 kB"))
    offer, paths = next((offer, paths) for offer, paths in seen if offer.now_s > 1)
    assert offer.now_s < 1.2
    assert offer.bytes > 0
    assert offer.window <= 40_000
    assert [path.id for path in paths] == [0, 1]
    assert all(1_300 < path.mss < 1_460 and path.cwnd >= path.mss for path in paths)
    assert 0.02 < (paths[0].srtt_s or 0) < 0.5
    assert all(path.eligible for path in paths) or any(not path.queueable or not path.usable for path in paths)
    assert Watching.blocked > 0


def sent_packets(run: Simulation) -> list[int]:
    return [link["forward"]["sent_packets"] for link in run.sample()["links"]]


def test_shares_divide_packets() -> None:
    made: list[SharesScheduler] = []

    class Divided(SharesScheduler):
        def __init__(self) -> None:
            made.append(self)

    name = registered(anabranch.register_scheduler, Divided)
    settings = {"workload": {"kind": "rate", "rate": "2 Mbit/s"}, "scheduler": name}
    run = Simulation(network("mptcp", **settings))
    run.step_until(1.0)
    for scheduler in made:
        scheduler.shares = [7.0, 3.0]
    before = sent_packets(run)
    run.step_until(2.9)
    first, second = (now - then for now, then in zip(sent_packets(run), before, strict=True))
    assert first / (first + second) == pytest.approx(0.7, abs=0.02)
    for scheduler in made:
        scheduler.shares = [1.0, 0.0]
    before = sent_packets(run)
    run.step_until(4.0)
    first, second = (now - then for now, then in zip(sent_packets(run), before, strict=True))
    assert first > 100
    assert second < 3
    for scheduler in made:
        scheduler.shares = [0.0, 1.0]
        with pytest.raises(ValueError, match="a share is a number from 0 to 1e12, not -1"):
            scheduler.shares = [-1.0]
        assert scheduler.shares == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "cls", "message"),
    [
        ("reno", Reno, 'there is already a congestion control called "reno"; choose another name'),
        ("new-reno", Reno, 'there is already a congestion control called "new-reno"'),
        (PYTHON_RENO, Reno, "there is already a congestion control called"),
        ("", Reno, '"" is no name for a congestion control; write a lower-case letter'),
        ("Reno 2", Reno, '"Reno 2" is no name'),
        ("x\n", Reno, "is no name"),
        ("one", Reno(), "a congestion control is a class that takes no arguments, not <"),
        ("two", len, "a congestion control is a class that takes no arguments, not <built-in function len>"),
        ("three", type("Typo", (), {"on_los": None}), 'class .*Typo: unknown method on_los; did you mean "on_loss"?'),
        ("five", type("Odd", (), {"coupled": "yes"}), "class .*Odd: coupled must be True or False"),
        (4, Reno, "name must be a text, not 4"),
    ],
)
def test_wrong_registrations_are_refused(name: str, cls: type, message: str) -> None:
    with pytest.raises(InputError, match=message):
        anabranch.register_congestion(name, cls)
    if name in {"one", "two", "three", "five"}:
        with pytest.raises(InputError, match=f'"{name}"'):
            network("tcp", congestion=name).validate()


def test_schedulers_without_select_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"class .*Reno has no method select\(self, offer, paths\)|unknown method on_ack"
    ):
        anabranch.register_scheduler("none", Reno)
    with pytest.raises(InputError, match="has no method select"):
        anabranch.register_scheduler("none", type("Empty", (), {}))
    both = type("Both", (SharesScheduler,), {"select": RoundRobin.select})
    with pytest.raises(InputError, match="is a SharesScheduler, which selects paths itself; remove the method select"):
        anabranch.register_scheduler("none", both)
    with pytest.raises(InputError, match='there is already a scheduler called "blest"'):
        anabranch.register_scheduler("blest", RoundRobin)


def test_registered_names_are_listed_and_suggested() -> None:
    from anabranch._core import simulator

    assert (PYTHON_RENO, "One packet a round trip, half the window on loss (Python class test_algorithms.Reno)") in (
        simulator.entries("congestion")
    )
    assert PYTHON_ROUND_ROBIN in dict(simulator.entries("schedulers"))
    with pytest.raises(InputError, match=f'did you mean "{PYTHON_RENO}"'):
        network("tcp", congestion=f"{PYTHON_RENO}0").validate()


def test_other_worlds_refuse_classes() -> None:
    message = rf'flow "upload": congestion control "{PYTHON_RENO}" is a class of Python, which only the simulator runs'
    with pytest.raises(InputError, match=message):
        anabranch.run(network("tcp", congestion=PYTHON_RENO), world="user")
    with pytest.raises(InputError, match=f'scheduler "{PYTHON_ROUND_ROBIN}" is a class of Python'):
        anabranch.run(network("mptcp", scheduler=PYTHON_ROUND_ROBIN), world="user")
    with Stack(udp=["127.0.0.61"]) as stack, pytest.raises(InputError, match="is a class of Python"):
        stack.associate(["127.0.0.62"], 7, settings={"congestion": PYTHON_RENO})


SCRIPT = """
import anabranch
from anabranch.algorithms import Controller

class Reno(Controller):
    def avoidance(self, path, ack):
        return path.mss
    def threshold(self, path):
        return max(path.cwnd - path.cwnd // 2, path.floor)

{register}

if __name__ == "__main__":
    {in_main}
    scenario = anabranch.Scenario.from_toml({text!r})
    ours = scenario.set("flow.upload.congestion", "own-reno")
    both = anabranch.run_all([scenario, ours], reps=2, jobs=2)
    assert [[run.digest for run in runs] for runs in both][0] == [run.digest for run in both[1]]
    print("equal")
"""


@pytest.mark.parametrize("place", ["register", "in_main"])
def test_workers_need_registration_outside_main(place: str, tmp_path: Path) -> None:
    text = NETWORK.replace("PROTOCOL", "tcp") + 'congestion = "reno"\n'
    call = 'anabranch.register_congestion("own-reno", Reno)'
    parts = {"register": "", "in_main": "", place: call}
    script = tmp_path / "own.py"
    script.write_text(SCRIPT.format(text=text, **parts), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    if place == "register":
        assert done.stdout == "equal\n", done.stderr
    else:
        assert done.returncode == 1
        assert 'unknown congestion control "own-reno"' in done.stderr or '"own-reno"' in done.stderr


def test_studies_refuse_classes(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study")
    template = next(file for file in folder.glob("*.toml") if "[[flow]]" in file.read_text(encoding="utf-8"))
    text = template.read_text(encoding="utf-8").replace('congestion = "reno"', f'congestion = "{PYTHON_RENO}"')
    template.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f'flow "F.": congestion control "{PYTHON_RENO}" is a class of Python'):
        small_study.execute_quietly(load(folder), tmp_path / "results", fake_simulator.simulate, jobs=1)
