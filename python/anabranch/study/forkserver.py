"""The process from which the workers of a Dask cluster of this machine are forked.

Each worker would load Dask again, which takes longer than hundreds of short runs. This process loads it once, while the
front end loads it too.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOADED = ["distributed", "anabranch.study.cluster"]


def begin() -> None:
    """Start the process, if it does not run yet; it ends with this one."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_LOADED)
    with ignoring_interrupts():
        forkserver.ensure_running()


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, here and in processes that are started meanwhile.

    Dask cannot close workers that an interrupt has ended while they were being started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
