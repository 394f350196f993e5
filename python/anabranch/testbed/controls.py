"""Coupled congestion controls in the kernel for as long as a testbed has need of them.

A control that the kernel has not is loaded, and unloaded by the last testbed that used it. One that somebody else
loaded stays. Each control has a file in a folder of locks: whoever uses the control shares the file's lock, and its
content is the number of the operations that a testbed loaded, so that what was exchanged since is nobody's but who
exchanged it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import RunFailed
from anabranch.testbed import loader, locks
from anabranch.testbed.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path("/run/anabranch/controls")
_TURN = "turn"
"""The lock of whoever loads or unloads. Names of controls are others."""


@contextmanager
def loaded(controls: Iterable[str]) -> Iterator[None]:
    """Have these controls in the kernel meanwhile.

    Raises:
        RunFailed: If this machine lacks something, or the kernel refuses one.

    """
    with ExitStack() as stack:
        for control in controls:
            stack.callback(_leave_in_turn, control, _take(control))
        yield


def sweep() -> None:
    """Unload what testbeds have loaded whose processes are gone."""
    if not FOLDER.is_dir():
        return
    with _turn():
        for control in loader.loadable():
            with suppress(FileNotFoundError):
                _leave(control, os.open(FOLDER / control, os.O_RDWR | os.O_CLOEXEC))


@contextmanager
def _turn() -> Iterator[None]:
    locks.private(FOLDER.parent)
    with locks.turn(FOLDER / _TURN):
        yield


def _take(control: str) -> int:
    """Load a control unless it is there. Returns the file whose lock says that it is used."""
    with _turn():
        handle = locks.opened(FOLDER / control)
        try:
            if loader.kernel_name(control) not in Kernel.read().controls:
                loader.load(control)
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(loader.loaded()[control]).encode(), 0)
            fcntl.flock(handle, fcntl.LOCK_SH)
        except BaseException:
            os.close(handle)
            raise
    return handle


def _leave_in_turn(control: str, handle: int) -> None:
    with _turn():
        _leave(control, handle)


def _leave(control: str, handle: int) -> None:
    """Unload a control if a testbed loaded it and nobody else uses it, and close the file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.pread(handle, 32, 0).decode() == str(loader.loaded().get(control)):
            # Somebody may have made it the default of new connections since, who keeps it.
            with suppress(RunFailed):
                loader.unload(control)
        (FOLDER / control).unlink(missing_ok=True)
    except BlockingIOError:
        pass
    finally:
        os.close(handle)
