"""Where a scenario can run. Every world takes the same request and answers with the same document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, get_args

from anabranch import simulator
from anabranch.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.simulator import Document, Request

World = Literal["sim", "kernel"]

WORLDS: tuple[str, ...] = get_args(World)
"""The simulator, and Linux's own protocols over an emulated network."""

LABELS: dict[str, str] = {"sim": "simulated", "kernel": "kernel"}
"""What tables and figures call the values of each."""


class Runner(Protocol):
    """What runs a request in a world."""

    def __call__(self, request: Request, progress: Callable[[float], None] | None = None) -> Document:
        """Run it; `progress` is called now and then with the share of the run that is done, 0 to 1."""


def of(world: str) -> Runner:
    """What runs a request in a world.

    Raises:
        InputError: If there is no such world.

    """
    if world == "sim":
        return simulator.simulate
    if world == "kernel":
        from anabranch.testbed.world import measure

        return measure
    raise InputError(f'there is no world "{world}" ({nearest(world, list(WORLDS))})')
