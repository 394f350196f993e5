"""Raises the priority of this process's session on a busy machine."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HIGHEST_NICE = -20


@contextmanager
def session_first() -> Iterator[None]:
    """Give this process's session the highest priority during the context, if the kernel allows it.

    Linux first divides processor time among sessions (`CONFIG_SCHED_AUTOGROUP`, sched(7)); the priority of a process
    counts only within its session. Without this, an emulator with the highest priority would wait for a compilation in
    another terminal. If a session has several such processes, the first of them restores the priority.
    """
    before = _nice()
    if before is None or before == _HIGHEST_NICE or not _set(_HIGHEST_NICE):
        yield
        return
    try:
        yield
    finally:
        _set(before)


class Session(TypedDict, total=False):
    """A session, and its priority if that is known and not the highest."""

    session: int
    nice: int


def note(known: Session) -> None:
    """Enter this session and its priority, to call before `session_first`."""
    known["session"] = os.getsid(0)
    nice = _nice()
    if nice is not None and nice != _HIGHEST_NICE:
        known["nice"] = nice


def give_back(known: Mapping[str, object]) -> None:
    """Restore the priority of a killed process's session; `known` has the entries of `note` in that process."""
    session, nice = known.get("session"), known.get("nice")
    if not isinstance(session, int) or not isinstance(nice, int):
        return
    # Reading or writing the priority of an ended process fails. The session needs no change if its priority is not the
    # highest, for example if a new session has the same number.
    for member in map(int, _processes()):
        if _session(member) == session and _nice(member) == _HIGHEST_NICE and _set(nice, member):
            return


def _processes() -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _session(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:
        return None


def _file(process: int | None) -> Path:
    return Path("/proc", "self" if process is None else str(process), "autogroup")


def _nice(process: int | None = None) -> int | None:
    """Priority of a process's session; `None` if the kernel has no priorities of sessions or does not use them."""
    with suppress(OSError):
        found = re.search(r" nice (-?\d+)$", _file(process).read_text(encoding="ascii").strip())
        return int(found[1]) if found else None
    return None


def _set(nice: int, process: int | None = None) -> bool:
    try:
        _file(process).write_text(str(nice), encoding="ascii")
    except OSError:
        return False
    return True
