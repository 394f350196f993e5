"""The cases of interoperation: a fixed sample runs, and the page lists all of them."""

from __future__ import annotations

import pytest

import interop
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
