"""Sizes of buffers: against results worked by hand, against the quantities of studies, and on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import anabranch
from anabranch.buffers import buffers
from anabranch.study.library import find
from anabranch.theory import QUANTITIES
from command import anabranch as command

if TYPE_CHECKING:
    from pathlib import Path

WIFI_3G = """
title = "WiFi and 3G"
duration = "6 s"
warmup = "2 s"

[[link]]
name = "wifi"
between = ["S", "D"]
rate = "8 Mbit/s"
delay = "10 ms"

[[link]]
name = "3g"
between = ["S", "D"]
rate = "2 Mbit/s"
delay = "75 ms"

[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
receive_buffer = "400 kB"
"""
MESH = """
duration = "6 s"
warmup = "2 s"
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
"""


def mesh() -> str:
    links = (("s1", "S", "M", 6), ("s2", "S", "M", 3), ("d1", "M", "D", 4), ("d2", "M", "D", 8))
    return MESH + "".join(
        f'[[link]]\nname = "{name}"\nbetween = ["{a}", "{b}"]\nrate = "{rate} Mbit/s"\ndelay = "{rate} ms"\n'
        for name, a, b, rate in links
    )


def test_wifi_and_3g_match_the_publication() -> None:
    (found,) = buffers(anabranch.Scenario.from_toml(WIFI_3G), rto_s=1.0)
    wanted = {"round-trip": 375e3, "retransmission": 1812.5e3, "one-way": 187.5e3}
    assert found.sizes_bytes == {"pair": pytest.approx(wanted), "destination": pytest.approx(wanted)}
    assert found.paths == {"pair": 2, "destination": 2}
    assert found.receive_buffer == "400 kB"


def test_pairs_need_more_than_destinations() -> None:
    (found,) = buffers(anabranch.Scenario.from_toml(mesh()), rto_s=1.0)
    assert found.paths == {"pair": 4, "destination": 2}
    # Pairs: 4 + 6 + 3 + 3 Mbit/s and 28 ms. Destinations: s1 to d1 and s1 to d2, 4 + 6 Mbit/s.
    assert found.sizes_bytes["pair"]["retransmission"] == pytest.approx((3 * 0.028 + 1.0) * 16e6 / 8)
    assert found.sizes_bytes["destination"]["retransmission"] == pytest.approx((3 * 0.028 + 1.0) * 10e6 / 8)
    assert found.sizes_bytes["pair"]["one-way"] == pytest.approx(2 * 0.014 * 9e6 / 8)
    assert found.sizes_bytes["destination"]["one-way"] == pytest.approx(2 * 0.014 * 6e6 / 8)


def test_sizes_match_the_quantities_of_studies() -> None:
    study = find("becke2014-scheduling")
    for setup in ("disjoint", "cross"):
        point = next(p for p in study.points(study.quick) if p.experiment == "mptcp" and p.values["setup"] == setup)
        file = str(study.folder / point.scenario)
        scenario = anabranch.Scenario(study.scenarios[point.scenario], file, point.overrides)
        for found in buffers(scenario):
            sizes = found.sizes_bytes["pair"]
            virtual = QUANTITIES["virtual-buffer"].of(scenario)[found.flow]
            booked = QUANTITIES["booked-memory"].of(scenario)[found.flow]
            assert sizes["one-way"] == pytest.approx(virtual * 1e3, rel=1e-3)
            assert sizes["retransmission"] == pytest.approx(booked * 1e6, rel=1e-3)


def test_command_prints_and_proves_sizes(tmp_path: Path) -> None:
    file = tmp_path / "wifi.toml"
    file.write_text(WIFI_3G, encoding="utf-8")
    table = command("buffers", str(file), "--rto", "1 s")
    assert table.returncode == 0, table.stderr
    row = next(line.split() for line in table.stdout.splitlines() if line.split()[:1] == ["F"])
    assert row == ["F", "by", "pair", "2", "375.0", "1812.5", "187.5", "4", "MB", "400", "kB"]
    proven = json.loads(command("buffers", str(file), "--prove", "--json").stdout)
    runs = proven["goodput_bps"]
    assert len(runs) == 7
    assert runs["retransmission by pair"]["F"] >= runs["one-way by pair"]["F"] > 0
    assert "round-trip by destination" in command("buffers", str(file), "--prove").stdout


@pytest.mark.parametrize("rto", ["1", "one s", "0 s", "-1 s", "1 parsec", "nan s", ""])
def test_wrong_timeout_is_refused(tmp_path: Path, rto: str) -> None:
    (tmp_path / "s.toml").write_text(WIFI_3G, encoding="utf-8")
    said = command("buffers", str(tmp_path / "s.toml"), "--rto", rto)
    assert said.returncode == 2
    assert "--rto must be a time above 0" in said.stderr


def test_trace_and_udp_have_no_sizes() -> None:
    traced = command("examples", "cellular-trace").stdout.strip()
    said = command("buffers", traced)
    assert said.returncode == 2
    assert "follows a trace" in said.stderr
    udp = WIFI_3G.replace(
        '"mptcp"\nreceive_buffer = "400 kB"', '"udp"\nworkload = { kind = "rate", rate = "1 Mbit/s" }'
    )
    with pytest.raises(anabranch.InputError, match="all flows use UDP"):
        buffers(anabranch.Scenario.from_toml(udp))
