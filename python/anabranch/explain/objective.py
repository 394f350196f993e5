"""The number of a flow that a remedy shall improve, and its gain after the loss of other flows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError, nearest
from anabranch.explain.facts import goodput_bps
from anabranch.explain.limits import AIMS
from anabranch.remarks import released_bps

if TYPE_CHECKING:
    from anabranch._core.document import Document, FlowResult

_MIN_LOSS = 0.01
"""Share of the other flows' goodput below which their loss is ignored as noise."""


@dataclass(frozen=True)
class Objective:
    """The number of a flow that remedies should improve: its goodput or a time."""

    name: str
    """Noun phrase for the number in sentences."""
    unit: str
    scale: float
    """Factor from bit/s or seconds to `unit`."""
    is_time: bool
    """Whether the number is a time, of which a smaller value is better."""
    flow: str
    aim: str

    @classmethod
    def of(cls, document: Document, flow: str, aim: str) -> Objective:
        """Select the number that suits the flow's workload.

        Raises:
            InputError: If the aim is unknown, or the flow delivered nothing whose delay could be measured.

        """
        if aim not in AIMS:
            raise InputError(f'there is no aim "{aim}" ({nearest(aim, list(AIMS))})')
        found = _flow(document, flow)
        if aim == "delay":
            if found["delivery_delay_s"] is None and found.get("response_time_s") is None:
                raise InputError(f'"{flow}" delivered nothing, so that it has no delay; use --aim goodput')
            name = "95 % quantile of the response times" if found.get("response_time_s") else "95 % delay of delivery"
            return cls(name, "ms", 1e3, True, flow, aim)
        if found.get("response_time_s"):
            return cls("mean response time", "ms", 1e3, True, flow, aim)
        if found["completion_s"] is not None:
            return cls("time of the transfer", "s", 1.0, True, flow, aim)
        return cls("goodput", "Mbit/s", 1e-6, False, flow, aim)

    def value(self, document: Document) -> float:
        """The number in a run, bit/s or seconds; infinite if a time has no end."""
        flow = _flow(document, self.flow)
        if self.aim == "delay":
            delays = flow.get("response_time_s") or flow["delivery_delay_s"]
            return float(delays["p95"]) if delays else math.inf
        if self.name == "mean response time":
            times = flow.get("response_time_s")
            return float(times["mean"]) if times else math.inf
        if self.is_time:
            return math.inf if flow["completion_s"] is None else float(flow["completion_s"])
        if self._is_finite(document):
            lasts_s = flow["completion_s"] or document["duration_s"] - flow["start_s"]
            return 8.0 * float(flow["delivered_bytes"] + (flow.get("reverse_delivered_bytes") or 0)) / float(lasts_s)
        # Data that arrived during the warm-up and waited for a gap to close is no effect of a remedy.
        return goodput_bps(flow) - released_bps(flow)

    def relative(self, before: float, after: float) -> float:
        """Gain in speed as a share: 1.0 is twice the goodput or half the time."""
        first, second = (after, before) if self.is_time else (before, after)
        if first == second:
            return 0.0
        if math.isinf(first) or math.isinf(second):
            return -1.0 if math.isinf(first) else math.inf
        return second / first - 1.0 if first > 0.0 else math.inf

    def gain(self, before: Document, after: Document) -> Gain:
        """The gain of a run against another of the same seed."""
        first, second = self.value(before), self.value(after)
        change_bps = _others(after, self.flow) - _others(before, self.flow)
        if -change_bps < _MIN_LOSS * _others(before, self.flow):
            change_bps = max(0.0, change_bps)
        own_bps = self._own_bps(before)
        cost = min(0.0, change_bps) / own_bps if own_bps > 0.0 else 0.0
        return Gain(first, second, self.relative(first, second), cost, change_bps)

    def _own_bps(self, document: Document) -> float:
        """The flow's own rate over the measured part, to which the loss of others is related."""
        return goodput_bps(_flow(document, self.flow))

    def _is_finite(self, document: Document) -> bool:
        """Whether the flow has an end, so that its rate counts from its start."""
        flows = document.get("scenario", {}).get("flow", [])
        return any(flow["name"] == self.flow and flow["workload"]["kind"] == "file" for flow in flows)


@dataclass(frozen=True)
class Gain:
    """The gain of one run against another with the same seed."""

    before: float
    after: float
    relative: float
    """Gain in speed of the flow as a share."""
    cost: float
    """Loss of the other flows relative to this flow's goodput, at most 0."""
    others_bps: float
    """Change of the goodput of all other flows together, bit/s."""

    @property
    def net(self) -> float:
        """The gain less the loss of other flows."""
        return self.relative + self.cost


def _flow(document: Document, name: str) -> FlowResult:
    return next(flow for flow in document["flows"] if flow["name"] == name)


def _others(document: Document, name: str) -> float:
    return math.fsum(goodput_bps(flow) for flow in document["flows"] if flow["name"] != name)
