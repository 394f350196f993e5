"""Wanted paths that never opened, with their reasons; and waits of the receiver for the missing data of each path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from anabranch import Scenario, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._core.worlds import World

NETWORK = """
duration = "3 s"
[[link]]
name = "a"
between = ["S", "Ma"]
rate = "8 Mbit/s"
delay = "10 ms"
[[link]]
name = "b"
between = ["S", "Mb"]
rate = "8 Mbit/s"
delay = "15 ms"
[[link]]
name = "a2"
between = ["Ma", "D"]
rate = "100 Mbit/s"
delay = "0 ms"
[[link]]
name = "b2"
between = ["Mb", "D"]
rate = "100 Mbit/s"
delay = "0 ms"
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "mptcp"
"""
SLOW = (
    "duration=6 s", "link.b.delay=100 ms", "link.b.rate=3 Mbit/s", "link.a.queue.limit=20 packets",
    "link.b.queue.limit=60 packets",
)  # fmt: skip
SMALL = "flow.F.receive_buffer=20 kB"
"""A window that no queue overflows with."""


def middlebox(does: str) -> str:
    """The network with a middlebox on the second path."""
    return f'{NETWORK}[[middlebox]]\nnode = "Mb"\ndoes = {does}\n'


def flow(*settings: str, text: str = NETWORK, world: World = "sim") -> Mapping[str, Any]:
    """The flow of a run."""
    document = run(Scenario.from_toml(text).with_settings(settings), world=world).document
    return document["flows"][0]


def reasons(found: Mapping[str, Any]) -> dict[str, str | None]:
    """The reason of each wanted path over links of the same side; the others have no route."""
    wanted = {each["name"]: each["reason"] for each in found["paths_wanted"]}
    crossing = {name: wanted.pop(name) for name in ("a>b2", "b>a2", "a2>b", "b2>a") if name in wanted}
    assert set(crossing.values()) <= {"no-route", "stripped"}
    return wanted


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), {"a>a2": None, "b>b2": None}),
        (("flow.F.direction=reverse",), {"a2>a": None, "b2>b": None}),
        (("flow.F.protocol=cmt-sctp",), {"a>a2": None, "b>b2": None}),
        (("flow.F.protocol=tcp",), {"a>a2": None}),
        (("flow.F.protocol=udp", 'flow.F.workload={kind="rate",rate="1 Mbit/s"}'), {}),
        (("link.b.state=down",), {"a>a2": None, "b>b2": "no-route"}),
        (("link.b.state=down", "flow.F.protocol=cmt-sctp"), {"a>a2": None, "b>b2": "no-route"}),
        (('link.b2.loss={model="bernoulli",rate=1.0}',), {"a>a2": None, "b>b2": "no-answer"}),
        (('link.b2.loss={model="bernoulli",rate=1.0}', "flow.F.protocol=sctp"), {"a>a2": None, "b>b2": "no-answer"}),
        (("link.a2.state=down", "flow.F.protocol=tcp"), {"a>a2": "no-answer"}),
        (("duration=15 ms",), {"a>a2": "pending"}),
        (("flow.F.start=2.99 s", "duration=3.04 s"), {"a>a2": None}),
    ],
)
def test_unopened_paths_have_reasons(settings: tuple[str, ...], expected: dict[str, str | None]) -> None:
    found = reasons(flow(*settings))
    assert {name: found[name] for name in expected} == expected
    assert not {each for name, each in found.items() if name not in expected} - {"pending", "no-route", "no-answer"}


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        # The peer answers a SYN without MP_JOIN with a reset.
        ('{ kind = "strip-options", mptcp = true }', "refused"),
        ('{ kind = "drop-syn", join = true }', "no-answer"),
    ],
)
def test_middlebox_is_the_reason(does: str, expected: str) -> None:
    assert reasons(flow(text=middlebox(does))) == {"a>a2": None, "b>b2": expected}


def test_fallback_reports_other_paths_as_stripped() -> None:
    found = flow(text=middlebox('{ kind = "strip-options", mptcp = true }').replace('node = "Mb"', 'node = "Ma"'))
    assert found["fallback"]
    assert found["paths_wanted"][0]["reason"] is None
    assert "stripped" in {each["reason"] for each in found["paths_wanted"][1:]}


def test_user_world_has_the_same_reasons() -> None:
    settings = ("duration=1 s", "link.b.state=down")
    assert reasons(flow(*settings, world="user")) == reasons(flow(*settings))


@pytest.mark.parametrize("protocol", ["mptcp", "cmt-sctp"])
def test_slow_path_makes_the_receiver_wait(protocol: str) -> None:
    found = flow(f"flow.F.protocol={protocol}", *SLOW)
    fast, slow = (path["head_of_line_s"] for path in found["paths"])
    assert slow > 0.3
    assert fast < 0.5 * slow
    assert fast + slow <= 6.0


@pytest.mark.parametrize("protocol", ["tcp", "mptcp", "sctp"])
def test_receiver_waits_for_lost_data(protocol: str) -> None:
    settings = (f"flow.F.protocol={protocol}", SMALL, "link.b.state=down")
    none = flow(*settings)
    some = flow(*settings, 'link.a.loss={model="bernoulli",rate=0.01}')
    assert none["reordering_buffer_bytes"]["max"] == 0
    assert none["paths"][0]["head_of_line_s"] == 0.0
    assert 0.1 < some["paths"][0]["head_of_line_s"] < 3.0


def test_wait_equals_the_time_of_a_scripted_gap() -> None:
    # The gap closes after a round trip of 20 ms, the time of three duplicates (4.5 ms), and a reordering window of a
    # quarter of the round trip.
    found = flow("flow.F.protocol=tcp", SMALL, 'link.a.loss={model="list",packets=[400]}')
    assert found["paths"][0]["retransmissions"] == 1
    assert 0.018 < found["paths"][0]["head_of_line_s"] < 0.035
