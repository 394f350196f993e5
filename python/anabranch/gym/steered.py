"""The scheduler and the congestion control of the environments, and how an environment reaches their instances."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.algorithms import SharesScheduler
from anabranch.algorithms.registration import register_congestion, register_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.algorithms import Path, Timeout

SCHEDULER = "gym-shares"
CONTROL = "gym-windows"


class Instances(threading.local):
    """The schedulers and controls that this thread has created."""

    schedulers: list[SharesScheduler]
    controls: list[SteeredControl]

    def __init__(self) -> None:
        self.schedulers = []
        self.controls = []


_INSTANCES = Instances()


@contextmanager
def collected(schedulers: list[SharesScheduler], controls: list[SteeredControl]) -> Iterator[None]:
    """Collect in these lists the instances that simulations create in this thread during the context."""
    before = _INSTANCES.schedulers, _INSTANCES.controls
    _INSTANCES.schedulers, _INSTANCES.controls = schedulers, controls
    try:
        yield
    finally:
        _INSTANCES.schedulers, _INSTANCES.controls = before


class SteeredScheduler(SharesScheduler):
    """Packets in proportion to shares that a program sets."""

    def __init__(self) -> None:
        _INSTANCES.schedulers.append(self)


class SteeredControl:
    """Windows that a program sets; a timeout sets one packet.

    It has no method for acknowledgements: between two steps a window is constant, and no event calls Python.
    """

    def __init__(self) -> None:
        self.paths: dict[int, Path] = {}
        _INSTANCES.controls.append(self)

    def on_path(self, path: Path) -> None:
        """Add a path."""
        self.paths[path.id] = path

    def on_path_removed(self, path: Path) -> None:
        """Remove a path."""
        del self.paths[path.id]

    def on_timeout(self, path: Path, timeout: Timeout) -> None:
        """Restart from one packet."""
        path.cwnd = path.mss


register_scheduler(SCHEDULER, SteeredScheduler)
register_congestion(CONTROL, SteeredControl)
