"""The likely cause of a slow flow from one run alone, for a line below its table and for reports of studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.explain.facts import PACED, Facts
from anabranch.explain.network_remedies import busiest
from anabranch.explain.remedies import WITHOUT_REMEDY, proposed

if TYPE_CHECKING:
    from anabranch._core.document import Document

_MIN_GAP = 0.2
"""Share of the possible rate that a flow must miss to have a likely cause."""
_MIN_EVIDENCE = 0.15
"""Estimated gain from which a cause is named."""


@dataclass(frozen=True)
class Likely:
    """The first finding on a flow without running a remedy."""

    kind: str
    """A kind of cause, or "capacity", "cross-traffic", "application" or "unknown"."""
    flow: str
    gap: float
    """Share of the possible rate that the flow misses."""
    cause: str
    """Sentence without its full stop; empty if nothing is to mend or no cause is known."""


def first_finding(document: Document) -> Likely | None:
    """The first finding on the first flow with several paths, or else on the first flow.

    Args:
        document: A result with its scenario.

    Returns:
        `None` for runs on the kernel, which lack most waiting times, and for flows that are too short or use UDP, or
        whose possible rate is unknown.

    """
    if document["world"] == "kernel":
        return None
    try:
        facts = Facts.of(document, None)
        facts.check_duration()
    except InputError:
        return None
    if facts.possible_bps is None:
        return None
    kind, cause = _without_remedy(facts) or _most_likely(facts)
    return Likely(kind, facts.name, facts.gap, cause)


def _without_remedy(facts: Facts) -> tuple[str, str] | None:
    """Kind and cause of a finding if no remedy makes the flow faster; `None` if one might."""
    if facts.settings["workload"]["kind"] in PACED:
        return "application", ""
    if facts.gap < _MIN_GAP:
        return "capacity", ""
    return ("cross-traffic", "") if busiest(facts) else None


def _most_likely(facts: Facts) -> tuple[str, str]:
    """Kind and sentence of the cause with the most evidence."""
    found = [(proposal.evidence, kind.name, proposal.cause) for kind, proposal in proposed(facts)]
    evidence, kind, cause = max(found, key=lambda each: each[0], default=(0.0, "unknown", ""))
    return ("unknown", "") if evidence < _MIN_EVIDENCE else (kind, cause)


def likely_cause(document: Document) -> str | None:
    """The most likely cause in a sentence; `None` if the flow is fast, limited by others, or nothing points to a cause.

    Flows whose application sets the rate have none. Runs on the kernel lack most waiting times.
    """
    found = first_finding(document)
    if found is None or not found.cause or found.kind in WITHOUT_REMEDY:
        return None
    return f'"{found.flow}" misses {100 * found.gap:.0f} % of the rate of its links. Likely cause: {found.cause}.'
