"""The likely cause of a slow flow from one run alone, for a line below its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.explain.endpoint_remedies import PACED
from anabranch.explain.facts import Facts
from anabranch.explain.network_remedies import busiest
from anabranch.explain.remedies import KINDS

if TYPE_CHECKING:
    from anabranch._core.document import Document

_MIN_GAP = 0.2
"""Share of the possible rate that a flow must miss to have a likely cause."""
_MIN_EVIDENCE = 0.15
"""Estimated gain from which a cause is named."""


def likely_cause(document: Document) -> str | None:
    """The most likely cause in a sentence; `None` if the flow is fast, limited by others, or nothing points to a cause.

    Flows whose application sets the rate have none. Runs on the kernel lack most waiting times.
    """
    if document["world"] == "kernel":
        return None
    try:
        facts = Facts.of(document, None)
        facts.check_duration()
    except InputError:
        return None
    if facts.settings["workload"]["kind"] in PACED or facts.possible_bps is None or facts.gap < _MIN_GAP:
        return None
    if busiest(facts):
        return None
    found = [proposal for kind in KINDS for proposal in kind.propose(facts)]
    best = max(found, key=lambda proposal: proposal.evidence, default=None)
    if best is None or best.evidence < _MIN_EVIDENCE:
        return None
    return f'"{facts.name}" misses {100 * facts.gap:.0f} % of the rate of its links. Likely cause: {best.cause}.'
