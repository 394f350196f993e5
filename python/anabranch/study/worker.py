"""What a worker process of a study does: run one request after the other, and die with its parent."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

    from anabranch.simulator import Document, Request

    Backend = Callable[[Request], Document]


@dataclass(frozen=True)
class Outcome:
    """What became of a request: a document, or why there is none."""

    document: Document | None
    mistake: InputError | None = None
    """The request itself was wrong."""
    failure: str = ""
    """The run broke off for another reason."""
    host: dict[str, str] = field(default_factory=dict)
    """Settings of the machine that ran it."""
    begun: bool = True
    """Whether it was run at all; not so after an interrupt."""


_stopped: Event | None = None
"""Set when nothing more is to begin, in a worker process of this machine."""


def prepare(stopped: Event) -> None:
    """Set a worker up: Ctrl-C is the parent's business, and without a parent there is nothing left to do."""
    global _stopped  # noqa: PLW0603  one for each process
    _stopped = stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Held back while the process was started.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def run(backend: Backend, request: Request) -> Outcome:
    """Run a request, turning whatever goes wrong into a value that travels between processes."""
    if _stopped is not None and _stopped.is_set():
        return Outcome(None, begun=False)
    try:
        return Outcome(backend(request), host=host_settings())
    except InputError as error:
        return Outcome(None, mistake=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return Outcome(None, failure=f"{type(error).__name__}: {error}")


@cache
def host_settings() -> dict[str, str]:
    """Settings of this machine that a reader of results may ask for."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": model,
        "cores": str(os.cpu_count() or 0),
        "python": platform.python_version(),
    }


def _die_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
