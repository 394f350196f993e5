"""Worlds in which a scenario can run; all take the same request and return the same kind of document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, get_args

from anabranch._core import simulator
from anabranch.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request

World = Literal["sim", "user", "kernel"]

WORLDS: tuple[str, ...] = get_args(World)
"""The simulator; its protocols in real time on serialised packets; and Linux's own over an emulated network."""

LABELS: dict[str, str] = {"sim": "simulated", "user": "user space", "kernel": "kernel"}
"""Labels of the worlds in tables and figures."""


class Runner(Protocol):
    """Function that runs a request in a world."""

    def __call__(self, request: Request, progress: Callable[[float], None] | None = None) -> Document:
        """Run the request; `progress` is called several times during the run with the finished share, 0 to 1."""


def of(world: str) -> Runner:
    """The function that runs a request in a world.

    Raises:
        InputError: If the world is unknown.

    """
    if world == "sim":
        return simulator.simulate
    if world == "user":
        return simulator.run_in_real_time
    if world == "kernel":
        from anabranch.testbed.world import measure

        return measure
    raise _unknown(world)


def checker(world: str) -> Callable[[Request], None]:
    """The function that checks before a run that a world can run a request.

    Raises:
        InputError: If the world is unknown.

    """
    if world == "sim":
        return simulator.validate
    if world == "user":
        return simulator.check_real_time
    if world == "kernel":
        from anabranch.testbed.world import check

        return check
    raise _unknown(world)


def _unknown(world: str) -> InputError:
    return InputError(f'there is no world "{world}" ({nearest(world, list(WORLDS))})')
