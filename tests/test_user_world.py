"""The world in user space: scenarios of the simulator in real time, on serialised packets.

Rates are low and queues long, so that a busy machine changes nothing that the tests compare.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import small_study
from anabranch import Scenario, run
from anabranch.errors import InputError
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """\
title = "Two ways"
duration = "3 s"
warmup = "1 s"

[link_defaults]
queue = { kind = "fifo", limit = "60 packets" }

[[link]]
name = "one"
between = ["A", "B"]
rate = "4 Mbit/s"
delay = "10 ms"

[[link]]
name = "two"
between = ["A", "B"]
rate = "2 Mbit/s"
delay = "20 ms"

[[flow]]
name = "F"
from = "A"
to = "B"
"""
FLOWS = {
    "tcp": 'protocol = "tcp"\ncongestion = "cubic"\n',
    "mptcp": 'protocol = "mptcp"\ncongestion = "olia"\npaths = "disjoint"\n',
    "cmt-sctp": 'protocol = "cmt-sctp"\ncongestion = "cmt-rpv2"\n',
}
OUTAGE = """\
[[event]]
at = "500 ms"
link = "one"
set = { state = "down" }

[[event]]
at = "1500 ms"
link = "one"
set = { state = "up" }
"""


def _scenario(text: str) -> Scenario:
    return Scenario.from_toml(SCENARIO + text, "ways.toml")


def test_goodput_is_near_the_simulated_one() -> None:
    scenarios = [_scenario(flow) for flow in FLOWS.values()]
    with ThreadPoolExecutor() as pool:
        real = list(pool.map(lambda scenario: run(scenario, world="user"), scenarios))
    for scenario, result in zip(scenarios, real, strict=True):
        simulated = run(scenario)
        assert result.document["world"] == "user"
        assert result.flows["goodput_bps"][0] == pytest.approx(simulated.flows["goodput_bps"][0], rel=0.05)
        assert len(result.paths) == len(simulated.paths)


def test_command_prints_a_whole_transfer(tmp_path: Path) -> None:
    file = tmp_path / "ways.toml"
    file.write_text(SCENARIO + FLOWS["mptcp"] + 'workload = { kind = "file", size = "200 kB" }\n' + OUTAGE)
    capture = tmp_path / "wire.pcapng"
    done = anabranch("run", str(file), "--world", "user", "--json", "--seed", "4", "--pcap", str(capture))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    flow = document["flows"][0]
    assert (flow["written_bytes"], flow["delivered_bytes"], flow["state"]) == (200_000, 200_000, "closed")
    assert (document["world"], document["seed"], document["digest"]) == ("user", 4, None)
    assert document["host"]["lateness"]["packets"] > 200
    assert capture.stat().st_size > 200_000


def test_tables_state_the_lateness(tmp_path: Path) -> None:
    file = tmp_path / "ways.toml"
    file.write_text(SCENARIO + FLOWS["tcp"])
    done = anabranch("run", str(file), "--world", "user", "--set", "duration=1 s", "--set", "warmup=0 s")
    assert done.returncode == 0
    assert "packets out" in done.stdout
    assert "late on average" in done.stdout


def test_check_of_packets_is_refused_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "ways.toml"
    file.write_text(SCENARIO + FLOWS["tcp"])
    done = anabranch("run", str(file), "--world", "user", "--set", "duration=1000 s", "--check-wire")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "anabranch: a run in the world user encodes and parses every packet anyway; omit --check-wire\n"
    )


def test_mistake_in_a_scenario_names_its_line() -> None:
    with pytest.raises(InputError, match="unknown key") as caught:
        run(_scenario('protocol = "tcp"\ncongstion = "reno"\n'), world="user")
    assert caught.value.line is not None


def test_interrupted_run_ends_and_leaves_nothing(tmp_path: Path) -> None:
    file, capture = tmp_path / "ways.toml", tmp_path / "wire.pcapng"
    file.write_text(SCENARIO + FLOWS["cmt-sctp"])
    program = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from anabranch.__main__ import main\nmain()\n"
    arguments = ["run", str(file), "--world", "user", "--set", "duration=1 h", "--pcap", str(capture)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as command:
        while not capture.exists() and command.poll() is None:
            time.sleep(0.01)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert (command.returncode, said.strip()) == (130, "anabranch: interrupted")
    assert not capture.exists()


def test_study_states_its_duration_and_compares_worlds(tmp_path: Path) -> None:
    folder, results = small_study.write(tmp_path / "study"), tmp_path / "results"
    text = (folder / "study.toml").read_text()
    text = text.replace('duration = "5 s", warmup = "1 s"', 'duration = "1 s", warmup = "200 ms"')
    (folder / "study.toml").write_text(text)
    common = [str(folder), "--quick", "--reps", "1", "--results", str(results)]
    done = anabranch("study", "run", *common, "--world", "user")
    assert done.returncode == 0, done.stderr
    assert "2 points, 2 runs" in done.stderr
    assert "about 2 s of one worker" in done.stderr
    assert anabranch("study", "run", *common).returncode == 0
    done = anabranch("study", "report", *common, "--world", "sim,user")
    assert done.returncode == 0, done.stderr
    report = (results / folder.name / "quick-sim-user" / "report.md").read_text()
    assert "simulated and user space" in report
    assert "User space: quick form, 2 runs of 2" in report
