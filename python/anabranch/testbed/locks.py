"""Lock files that only their owner can open: any process that opens a file can lock it."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path("/run/anabranch")
"""Folder of all files of testbeds that are up."""

LOCK_TIMEOUT_S = 60.0
"""Time limit for a lock; its holder may be ending the processes of a testbed."""
_INTERVAL_S = 0.02


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter, or restrict an existing one to its owner.

    Raises:
        OSError: If the folder cannot be made, or belongs to another user.

    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def open_lock(file: Path) -> int:
    """Open a lock file, which only its owner can open."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(handle, 0o600)
    return handle


@contextmanager
def hold(file: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file.

    Raises:
        OSError: If the file cannot be opened.
        RunFailed: If another process holds the lock for a minute.

    """
    make_private(file.parent)
    handle = open_lock(file)
    try:
        _wait(handle, file)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, file: Path) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= deadline:
            raise RunFailed(
                f"{file} is locked by {_holder(handle)} for more than {LOCK_TIMEOUT_S:.0f} s; wait for it or end it"
            )
        time.sleep(_INTERVAL_S)


def _holder(handle: int) -> str:
    """Name the process that holds the lock of an open file."""
    inode = str(os.fstat(handle).st_ino)
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5].rpartition(":")[2] == inode:
                return f"process {words[4]}"
    return "another process"
