"""Turns SIGTERM and SIGHUP into exceptions: the process removes its namespaces before it ends."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals of a request to end and of a closed terminal."""


@contextmanager
def signals_end() -> Iterator[None]:
    """End this process on SIGTERM and SIGHUP by an exception, as Ctrl-C does, with the status of a shell.

    Signals with a handler, and signals that are ignored as by nohup, do not change. Only the main thread can set
    handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    mine = [number for number, handler in before.items() if handler is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        # A second signal must not interrupt the removal.
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
