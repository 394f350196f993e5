"""The largest total rate of the flows of a run, for a comparison with their goodput."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch.fairness import path_discovery
from anabranch.fairness.capacity import networks, preferences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def possible_bps(document: Mapping[str, Any], flows: Sequence[str]) -> float | None:
    """The largest total rate of some flows of a run, in bit/s on the wire.

    `None` if it is not known: a link follows a trace of delivery opportunities, or the document does not contain the
    scenario that was run.

    Args:
        document: The result document of the run.
        flows: Names of the flows.

    """
    scenario = document.get("scenario")
    if scenario is None:
        return None
    paths = {flow["name"]: preferences(flow) for flow in document["flows"] if flow["name"] in flows}
    measured_s = (document["warmup_s"], document["duration_s"])
    states = networks(
        document, scenario, paths, measured_s, path_discovery.links_behind_proxies(dict(scenario), "the scenario")
    )
    return None if states is None else math.fsum(share * network.largest_total_bps(flows) for network, share in states)
