"""Loads coupled congestion controls into the kernel while testbeds use them.

A testbed loads a missing control; the last testbed that uses the control unloads it. A control that another program
loaded stays. Each control has a lock file, which testbeds that use the control lock in shared mode. The file contains
the number of the operations that a testbed loaded. If another program has exchanged them, the number differs and the
control stays.
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
_MUTEX = "turn"
"""File whose lock is held during loading and unloading; no control has this name."""


@contextmanager
def loaded(controls: Iterable[str]) -> Iterator[None]:
    """Keep these controls in the kernel during the context.

    Raises:
        RunFailed: If this machine lacks a requirement or the kernel refuses a control.

    """
    with ExitStack() as stack:
        for control in controls:
            stack.callback(_leave_in_turn, control, _take(control))
        yield


def sweep() -> None:
    """Unload the controls that testbeds without a process have loaded."""
    if not FOLDER.is_dir():
        return
    with _hold_mutex():
        for control in loader.loadable():
            with suppress(FileNotFoundError):
                _unload_if_unused(control, os.open(FOLDER / control, os.O_RDWR | os.O_CLOEXEC))


@contextmanager
def _hold_mutex() -> Iterator[None]:
    locks.make_private(FOLDER.parent)
    with locks.hold(FOLDER / _MUTEX):
        yield


def _take(control: str) -> int:
    """Load a control unless the kernel has it; returns the handle of the lock file, held in shared mode."""
    with _hold_mutex():
        handle = locks.open_lock(FOLDER / control)
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
    with _hold_mutex():
        _unload_if_unused(control, handle)


def _unload_if_unused(control: str, handle: int) -> None:
    """Unload a control if a testbed loaded it and no other testbed uses it, and close the file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.pread(handle, 32, 0).decode() == str(loader.loaded().get(control)):
            # Unloading fails if the control has become the default of new connections; it then stays.
            with suppress(RunFailed):
                loader.unload(control)
        (FOLDER / control).unlink(missing_ok=True)
    except BlockingIOError:
        pass
    finally:
        os.close(handle)
