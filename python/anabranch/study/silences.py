"""Finds runs that may have a flow without data, a flow that fell back to TCP, or a subflow that never opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anabranch.diagnostics import MIN_VISIBLE_BPS
from anabranch.study.part_columns import is_absent

if TYPE_CHECKING:
    from anabranch.study.part_columns import Numbers
    from anabranch.study.readings import DocumentParts


def runs_to_diagnose(parts: DocumentParts) -> Numbers:
    """The indices of all documents for which `diagnose` has a sentence, and of some others: a fast check.

    Args:
        parts: The parts of the documents.

    """
    flows, wanted = parts.flows, parts.flows.items("paths_wanted")
    found = (flows.numbers("goodput_bps") < MIN_VISIBLE_BPS) | flows.flags("fallback")
    has_reason = ~is_absent(wanted.column("reason"))
    found[flows.owners("paths_wanted")[has_reason]] = True
    flow_of_silent = parts.flow_of_path[parts.paths.numbers("data_packets") == 0]
    # Where the wanted paths are not known, a path without data may be one that never opened.
    found[flow_of_silent[is_absent(flows.column("paths_wanted"))[flow_of_silent]]] = True
    return np.unique(parts.run_of_flow[found])
