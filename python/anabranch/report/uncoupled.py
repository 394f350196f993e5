"""Finds flows with a single path that use a congestion control for several paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._core import simulator

if TYPE_CHECKING:
    from anabranch._core.document import Document

_ONE_PATH = ("tcp", "sctp")
"""Protocols that send data over one path at a time."""


def uncoupled(document: Document) -> list[str]:
    """A sentence for each flow with a coupled congestion control and a single path."""
    coupled = simulator.coupled()
    return [
        f'"{flow["name"]}" is {flow["protocol"]}, which sends over one path: {flow["congestion"]} couples nothing '
        "there, and acts as it does on a single path."
        for flow in document["flows"]
        if flow["protocol"] in _ONE_PATH and flow["congestion"] in coupled
    ]
