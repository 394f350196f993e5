"""Measures the throughput of a pair: one saturated TCP flow in each direction, with a meter at the remote end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch._core.simulator import translated
from anabranch.errors import InputError
from anabranch.observe.record import Rates

if TYPE_CHECKING:
    from anabranch.observe.pairs import Pair

_OMITTED_S = 1.0
"""Seconds at the start of a flow that are not measured."""


def throughput(pair: Pair, port: int, seconds: float) -> tuple[Rates | None, str | None]:
    """Goodput in both directions, or the reason for which it could not be measured.

    Raises:
        InputError: If this system has no meter.

    """
    from anabranch import _native
    from anabranch.meter.plan import FlowPlan, TestPlan

    if not hasattr(_native, "meter_run"):
        raise InputError("the meter needs Linux; observe with --no-throughput")
    found = []
    for direction in ("forward", "reverse"):
        flow = FlowPlan("tcp", "tcp", '{ kind = "saturated" }', direction)
        plan = TestPlan([flow], seconds, _OMITTED_S, interval=seconds + _OMITTED_S)
        try:
            text = _native.meter_run(pair.remote, port, plan.json(), lambda _: None, local=[pair.local])
        except _native.InputError as error:
            raise translated(error) from None
        except OSError as error:
            return None, str(error)
        found.append(float(json.loads(text)["flows"][0]["ways"][0]["goodput_bps"]))
    return Rates(found[0], found[1], seconds), None
