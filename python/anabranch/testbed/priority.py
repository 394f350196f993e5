"""Which programs come first on a busy machine."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST = -20


@contextmanager
def session_first() -> Iterator[None]:
    """Have this process's session come before other sessions meanwhile, where the kernel allows it.

    Linux shares its processors among sessions first (`CONFIG_SCHED_AUTOGROUP`, sched(7)) and looks at the priorities of
    processes only within each: an emulator with the highest one waits for a compilation in another terminal otherwise.
    Of several at a time in one session, the one that came first takes the session back.
    """
    before = _nice()
    if before is None or before == _FIRST or not _set(_FIRST):
        yield
        return
    try:
        yield
    finally:
        _set(before)


def before() -> dict[str, int]:
    """What `give_back` needs to know of this process's session, before that comes first."""
    nice = _nice()
    return {"session": os.getsid(0)} | ({} if nice is None or nice == _FIRST else {"nice": nice})


def give_back(known: dict[str, Any]) -> None:
    """Take back what a process has done that was killed while its session came first; `known` is what `before` said."""
    session, nice = known.get("session"), known.get("nice")
    if not isinstance(session, int) or not isinstance(nice, int):
        return
    # A process that has ended tells and takes nothing. A session that is as it was, or another one that has its number
    # now, has nothing to give back.
    for member in map(int, _processes()):
        if _session(member) == session and _nice(member) == _FIRST and _set(nice, member):
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
    """Priority of a process's session among sessions; nothing if the kernel has none, or does not use them."""
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
