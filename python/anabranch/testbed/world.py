"""The kernel's world: measures a scenario on this machine's own TCP, Multipath TCP and UDP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._core.simulator import check_not_recorded
from anabranch.errors import InputError
from anabranch.testbed.bed import Testbed

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request


def check(request: Request) -> None:
    """Check that this kernel can run a scenario.

    Raises:
        InputError: If the scenario is not valid or needs a feature that this kernel lacks.

    """
    Testbed(request, measures=True).check()


def measure(request: Request, progress: Callable[[float], None] | None = None) -> Document:
    """Run a scenario on this machine's kernel and return its result document.

    Raises:
        InputError: If the scenario is not valid or needs a feature that this kernel lacks.
        RunFailed: If the system refuses a step.

    """
    check_not_recorded(request)
    if request.check_wire:
        raise InputError("a run on the kernel cannot check packets; omit --check-wire")
    with Testbed(request, measures=True) as bed:
        return bed.measure(progress)
