"""The cases of interoperation: a fixed sample runs, and the page lists all of them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

import delays
import interop
from delays import Delays
from machine import missing

SAMPLE = [pytest.param(case, id=case.name) for case in interop.CASES if case.name in interop.SAMPLE]


@pytest.mark.machine
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("case", SAMPLE)
def test_case_passes_in_both_roles(case: interop.Case) -> None:
    assert case.failures() == {"connects": "", "accepts": ""}


def test_cases_are_valid_and_have_different_names() -> None:
    names = [case.name for case in interop.CASES]
    assert len(set(names)) == len(names) >= 50
    assert set(interop.SAMPLE) <= set(names)
    for case in interop.CASES:
        case.scenario().validate()


def test_failures_are_reported() -> None:
    flow = {"state": "closed", "delivered_bytes": 5, "fallback": False, "paths": [{"goodput_bps": 1.0}]}
    case = interop.Case("two", paths=2)
    assert case.failure(flow) == "1 paths carried data"
    assert case.failure(flow | {"state": "reset"}) == "the flow is reset after 5 bytes"
    assert case.failure(flow | {"fallback": True}) == "the connection fell back to TCP"
    assert interop.Case("one").failure(flow) == ""


def test_page_lists_every_case() -> None:
    text = interop.PAGE.read_text(encoding="utf-8")
    for case in interop.CASES:
        for role in interop.ROLES:
            assert f"| {case.name} | Anabranch {role} |" in text


def _flow(state: str) -> dict[str, Any]:
    return {"name": "connects", "state": state, "delivered_bytes": 5, "fallback": False, "paths": [{"goodput_bps": 1}]}


@pytest.mark.parametrize(
    ("states", "delay", "runs", "failure"),
    [
        (["open", "open", "closed"], 0.5, 3, ""),
        (["open", "closed"], 0.05, 1, "the flow is open after 5 bytes"),
        (
            ["open"] * 9,
            0.5,
            interop.ATTEMPTS,
            "the flow is open after 5 bytes; threads waited up to 0.5 s for a processor",
        ),
    ],
    ids=["delayed", "not delayed", "always delayed"],
)
def test_delayed_failure_is_repeated(
    monkeypatch: pytest.MonkeyPatch, states: list[str], delay: float, runs: int, failure: str
) -> None:
    left = list(states)
    monkeypatch.setattr(interop, "run", lambda *_, **__: SimpleNamespace(document={"flows": [_flow(left.pop(0))]}))
    monkeypatch.setattr(Delays, "__enter__", lambda self: self)
    monkeypatch.setattr(Delays, "__exit__", lambda self, *_: setattr(self, "longest_s", delay))
    assert interop.Case("a file").failures() == {"connects": failure}
    assert len(states) - len(left) == runs


def test_late_packets_are_a_reason() -> None:
    late = {"overloaded": True, "packets": 5, "max_s": 0.25}
    assert delays.reason({"host": {"lateness": late}}, 0.0) == "packets were up to 0.2 s late"
    assert delays.reason({"host": {"lateness": late | {"overloaded": False, "packets": 0}}}, 0.0)
    assert delays.reason({"host": {"lateness": late | {"overloaded": False}}}, delays.LIMIT_S) == ""


def test_delays_of_threads_are_measured() -> None:
    with Delays() as measured:
        time.sleep(0.1)
    assert 0 < measured.longest_s < 60
