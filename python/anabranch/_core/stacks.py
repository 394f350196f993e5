"""The protocol implementations of flows: the kernel's, or Anabranch's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def stacks(flow: Mapping[str, Any], world: str) -> tuple[str, str]:
    """The stacks of the two ends of a flow in a world: the connecting one, then the other.

    Args:
        flow: A flow of a scenario with every default.
        world: The world's own stack, "user" or "kernel".

    """
    stack = flow.get("stack", {})
    ends = {"from": stack, "to": stack} if isinstance(stack, str) else stack
    return ends.get("from", world), ends.get("to", world)


def kernel_writes(flow: Mapping[str, Any]) -> bool:
    """Whether an end with data to send is the kernel's, in the kernel's world."""
    connecting, listening = stacks(flow, "kernel")
    both = flow["direction"] == "both" or flow["workload"]["kind"] == "request-response"
    writing = {connecting, listening} if both else {listening if flow["direction"] == "reverse" else connecting}
    return "kernel" in writing
