"""Makes network namespaces, runs functions in them, and removes them with their processes."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anabranch.logs import logger
from anabranch.testbed import locks

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logger(__name__)
FOLDER = Path("/run/netns")
"""Folder of the namespaces' files, the same as of `ip netns`."""

MARKS = Path("/run/anabranch/namespaces")
"""Folder of the marks of namespaces that testbeds made: a file for each, with the number of the namespace."""

_CLONE_NEWNET = 0x40000000
_END_TIMEOUT_S = 2.0
"""Time for processes to end before they are killed."""
_UNFINISHED = "unfinished"
"""Content of a mark while its namespace is being made."""

_T = TypeVar("_T")


def create(name: str) -> Path:
    """Make a namespace and return the path of its file.

    Raises:
        OSError: If the process lacks the privilege.

    """
    from pyroute2 import netns

    netns.create(name)
    _LOG.debug("network namespace created: %s", name)
    return FOLDER / name


def create_marked(name: str) -> Path:
    """Make a namespace with a mark, so that it can be removed after its process was killed.

    Raises:
        OSError: If the process lacks the privilege, or another program has made a namespace of this name.

    """
    locks.make_private(MARKS.parent)
    locks.make_private(MARKS)
    if (FOLDER / name).exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    mark = MARKS / name
    mark.write_text(_UNFINISHED, encoding="ascii")
    try:
        keeper = create(name)
    except OSError:
        mark.unlink(missing_ok=True)
        raise
    # After an interrupt the mark stays unfinished: the namespace is then removed as one of a testbed.
    mark.write_text(_number(keeper), encoding="ascii")
    return keeper


def sweep_marks() -> None:
    """Remove the marks of namespaces that do not exist; the caller holds the mutex of all testbeds."""
    with suppress(OSError):
        for mark in MARKS.iterdir():
            if not (FOLDER / mark.name).exists():
                mark.unlink(missing_ok=True)


def is_marked(name: str) -> bool:
    """Whether a testbed made this namespace: its mark has the number of the namespace."""
    try:
        return (MARKS / name).read_text(encoding="ascii") in (_number(FOLDER / name), _UNFINISHED)
    except OSError:
        return False


def _number(keeper: Path) -> str:
    found = keeper.stat()
    return f"{found.st_dev}:{found.st_ino}"


def names() -> list[str]:
    """The names of all namespaces."""
    try:
        return sorted(entry.name for entry in FOLDER.iterdir())
    except OSError:
        return []


def remove(name: str) -> None:
    """Remove a namespace and end its processes."""
    from pyroute2 import netns

    _end_processes(FOLDER / name)
    with suppress(FileNotFoundError):
        netns.remove(name)
        _LOG.debug("network namespace removed: %s", name)
    with suppress(OSError):
        (MARKS / name).unlink()


def enter(name: str) -> None:
    """Move the calling thread into a namespace.

    Raises:
        OSError: If the process lacks the privilege.

    """
    handle = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
    finally:
        os.close(handle)


def within(name: str, work: Callable[[], _T]) -> _T:
    """Call a function in a separate thread in a namespace, and return its result or raise its exception."""
    done: list[_T] = []
    failed: list[BaseException] = []

    def body() -> None:
        try:
            enter(name)
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, name=f"in {name}")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def processes(keeper: Path) -> list[int]:
    """The processes in a namespace, without this one."""
    try:
        wanted = keeper.stat()
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            own = (entry / "ns" / "net").stat()
            if (own.st_dev, own.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(entry.name))
    return found


def _end_processes(keeper: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        running = processes(keeper)
        for process in running:
            with suppress(OSError):
                os.kill(process, number)
        deadline = time.monotonic() + _END_TIMEOUT_S
        while running and processes(keeper) and time.monotonic() < deadline:
            time.sleep(0.01)
