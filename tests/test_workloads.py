"""Flows with arrivals, recordings and calls, as a user of the command line and of Python sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch import InputError, Scenario
from command import anabranch as command

if TYPE_CHECKING:
    from pathlib import Path

LINK = """
duration = "10 s"
[[link]]
name = "only"
between = ["client", "server"]
rate = "10 Mbit/s"
delay = "20 ms"
[[flow]]
name = "f"
from = "client"
to = "server"
"""
ARRIVALS = """
protocol = "mptcp"
workload = { kind = "file", size = "20 kB", arrivals = { mean_interval = "50 ms", count = 20 } }
"""
CALL = 'protocol = "udp"\nvoice = "g711"\nworkload = { kind = "messages", message = "160 B", interval = "20 ms" }\n'


def test_arrivals_are_one_row() -> None:
    (flow,) = anabranch.run(Scenario.from_toml(LINK + ARRIVALS)).document["flows"]
    assert (flow["arrived"], flow["unfinished"], flow["refused"]) == (20, 0, 0)
    assert flow["delivered_bytes"] == 20 * 20_000
    # A handshake and three rounds of slow start from ten segments, each 40 ms, and the one-way delay of the last
    # packet.
    assert flow["completion_time_s"]["p50"] == pytest.approx(0.12, abs=0.03)
    assert flow["slowdown"]["p50"] >= 1.0


@pytest.mark.parametrize("kind", ["windows", "goodput", "rtt", "sequences"])
def test_figure_without_connections_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(LINK + ARRIVALS, encoding="utf-8")
    done = command("run", str(file), "--plot", str(tmp_path / "a.png"), "--plot-kind", kind)
    assert done.returncode == 2
    assert 'anabranch: "f" has arrivals, and traces record no connections of such a flow' in done.stderr
    assert not (tmp_path / "a.png").exists()
    assert command("run", str(file), "--plot", str(tmp_path / "q.png"), "--plot-kind", "queues").returncode == 0


def test_call_has_a_rating(tmp_path: Path) -> None:
    (flow,) = anabranch.run(Scenario.from_toml(LINK + CALL)).document["flows"]
    assert flow["lost_share"] == 0.0
    # A one-way delay of 20 ms and the default playout delay: R = 94.2 − 0.024·d, without losses.
    assert 4.3 < flow["mos"] <= 4.5


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside.csv"])
def test_lists_of_sizes_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.csv").write_text("100\n", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    file = tmp_path / "inside" / "s.toml"
    workload = (
        f'protocol = "udp"\nworkload = {{ kind = "messages", message = {{ file = "{name}" }}, interval = "20 ms" }}\n'
    )
    file.write_text(LINK + workload, encoding="utf-8")
    with pytest.raises(InputError, match="lies outside the folder of this file"):
        Scenario.from_file(file)
