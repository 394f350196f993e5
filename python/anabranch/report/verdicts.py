"""The verdicts of a study as values for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.report.terminal import expectation, tally

if TYPE_CHECKING:
    from anabranch.study.analysis import Analysis
    from anabranch.study.claims import Measured, Verdict


def document(analysis: Analysis) -> dict[str, object]:
    """The form of a study, its number of runs, and the verdict on each claim."""
    return {
        "study": analysis.study.name,
        "form": analysis.effort.name,
        "runs": len(analysis.runs),
        "missing": analysis.missing,
        "interim": analysis.is_interim,
        "summary": tally(analysis) if analysis.verdicts else "",
        "verdicts": [_verdict(verdict) for verdict in analysis.verdicts],
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    claim = verdict.claim
    least, most = claim.bounds
    return {
        "id": claim.id,
        "text": claim.text,
        "kind": claim.kind,
        "metric": claim.quantity.metric,
        "statistic": claim.statistic,
        "expected": expectation(claim),
        "low": _number(least),
        "high": _number(most),
        "outcome": verdict.outcome,
        "needs": str(claim.needs),
        "lacks": verdict.shortfall,
        "missing": list(verdict.missing),
        "left_out": list(verdict.left_out),
        "without": list(verdict.without),
        "measured": [_measured(measured) for measured in verdict.measured],
    }


def _measured(measured: Measured) -> dict[str, object]:
    ends = measured.interval
    return {
        "where": measured.where,
        "value": _number(measured.value),
        "low": None if ends is None else _number(ends.low),
        "high": None if ends is None else _number(ends.high),
        "coverage": None if ends is None else _number(ends.coverage),
        "outcome": measured.outcome,
        "values": measured.count,
        "runs": measured.runs,
    }


def _number(value: float) -> float | None:
    """A number; `None` for one that JSON cannot represent."""
    return value if math.isfinite(value) else None
