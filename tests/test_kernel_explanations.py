"""Causes of runs on the kernel: a short form of tests/long/kernel_explanations.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from machine import WITHOUT_MPTCP, missing

sys.path.insert(0, str(Path(__file__).parent / "long"))

from kernel_explanations import Case, cases, examine

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(bool(WITHOUT_MPTCP), reason=WITHOUT_MPTCP),
]
CASES = [case for case in cases(8, 5) if case.fault in ("receive buffer", "short queue")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
def test_remedy_of_planted_fault_helps_on_kernel(case: Case) -> None:
    outcome = examine(case)
    assert outcome.is_named, outcome.named
    assert outcome.is_right, str(outcome)
