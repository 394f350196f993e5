"""The kernel's world: a scenario measured on this machine's own TCP, Multipath TCP and UDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.testbed.bed import Testbed

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.simulator import Document, Request


def check(request: Request) -> None:
    """Refuse what this kernel cannot do, without running anything.

    Raises:
        InputError: If the scenario is not valid or asks for what this kernel cannot do.

    """
    Testbed(request, measures=True).check()


def measure(request: Request, progress: Callable[[float], None] | None = None) -> Document:
    """Run a scenario on this machine's kernel and return its result document.

    Raises:
        InputError: If the scenario is not valid or asks for what this kernel cannot do.
        RunFailed: If the system refuses something on the way.

    """
    if request.check_wire:
        raise InputError("a run on the kernel has no packets to check; leave --check-wire away")
    with Testbed(request, measures=True) as bed:
        return bed.measure(progress)
