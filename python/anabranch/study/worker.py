"""The work of a worker process of a study: run one request after the other, and end with the parent process."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request

    Backend = Callable[[Request], Document]


@dataclass(frozen=True)
class Outcome:
    """The result of a request: a document, or the reason why there is none."""

    document: Document | None
    mistake: InputError | None = None
    """The request itself was wrong."""
    failure: str = ""
    """Any other reason why the run broke off."""
    host: dict[str, str] = field(default_factory=dict)
    """Settings of the machine that ran it."""
    begun: bool = True
    """Whether it was run at all; false after an interrupt."""
    seconds: float = 0.0
    """Duration of the run in real time."""


def serve(pipe: Connection[Any, Any], backend: Backend) -> None:
    """Run all requests that come through a pipe, until it closes.

    The first message is `None`: the process has started. An outcome follows for each request.
    """
    # The parent handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent blocked it while it started this process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()
    pipe.send(None)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(run(backend, pipe.recv()))


def run(backend: Backend, request: Request) -> Outcome:
    """Run a request. An exception becomes a text in the outcome, because the outcome is sent to another process."""
    begun_s = time.monotonic()
    try:
        document = backend(request)
        return Outcome(document, host=host_settings(), seconds=time.monotonic() - begun_s)
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
