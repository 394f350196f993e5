"""Where a scenario can run. Every world takes the same request and answers with the same document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from anabranch import simulator
from anabranch.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.simulator import Document, Request

World = Literal["sim", "kernel"]

WORLDS: tuple[str, ...] = get_args(World)
"""The simulator, and Linux's own protocols over an emulated network."""


def of(world: str) -> Callable[[Request, Callable[[float], None] | None], Document]:
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
