"""Signals that end a process politely, so that what it has made is removed first."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLITE = (signal.SIGTERM, signal.SIGHUP)
"""Somebody asks for the end, or the terminal has gone."""


@contextmanager
def signals_end() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end this process as Ctrl-C does, by an exception, with a shell's status for the signal.

    Signals that somebody has seen to already, or that are ignored as by nohup, stay as they are. Only the main thread
    can see to them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _POLITE}
    mine = [number for number, handler in before.items() if handler is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        # Once is enough: removing is not to be broken off.
        for other in mine:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in mine:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, before[number])
