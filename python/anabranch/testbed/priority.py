"""Which programs come first on a busy machine."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SESSION = Path("/proc/self/autogroup")
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


def _nice() -> int | None:
    """Priority of the session among sessions; nothing if the kernel has none, or does not use them."""
    with suppress(OSError):
        found = re.search(r" nice (-?\d+)$", _SESSION.read_text(encoding="ascii").strip())
        return int(found[1]) if found else None
    return None


def _set(nice: int) -> bool:
    try:
        _SESSION.write_text(str(nice), encoding="ascii")
    except OSError:
        return False
    return True
