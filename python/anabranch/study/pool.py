"""Where runs of a study are carried out: worker processes of this machine.

A pool is handed requests with a ticket each and gives outcomes back with their tickets, in the order in which they end.
`anabranch.study.cluster` has the pools of more than one machine.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import multiprocessing
import re
import shutil
import signal
import time
from typing import TYPE_CHECKING, Protocol

from anabranch.errors import InputError, RunFailed
from anabranch.study import worker

if TYPE_CHECKING:
    from anabranch.simulator import Request
    from anabranch.study.worker import Backend, Outcome


_PATIENCE_S = 10.0
"""For how long workers may take to remove hosts and links."""
_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")


def check_place(place: str) -> None:
    """Check that runs can be carried out there.

    Raises:
        InputError: If the place is unknown, or what is needed for it is not installed.

    """
    if place not in ("dask", "slurm") and not _is_address(place):
        raise InputError(
            f'there is no place "{place}" to run a study on; take dask, slurm, or the address of a Dask scheduler such '
            "as tcp://10.0.0.1:8786"
        )
    for package in ("distributed", "dask_jobqueue") if place == "slurm" else ("distributed",):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f'--on {place} needs the package {package}, which is not installed; install "anabranch[cluster]", or '
                "leave --on away to use processes of this machine"
            )
    if place == "slurm" and shutil.which("sbatch") is None:
        raise InputError("--on slurm needs sbatch, which is not here; run the command on a machine that submits jobs")


def _is_address(place: str) -> bool:
    """Whether it may be the address of a scheduler: Dask has no port that it would take by default."""
    found = _ADDRESS.fullmatch(place)
    return found is not None and int(found["port"]) in range(1, 65_536)


class Pool(Protocol):
    """Carries out runs."""

    @property
    def width(self) -> int:
        """How many runs it can carry out at the same time."""

    def submit(self, ticket: int, request: Request) -> None:
        """Take a run on. No two runs under way have the same ticket."""

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait for the next run to end, or for a moment, and give all that have ended.

        Raises:
            RunFailed: If nothing is left that could carry runs out.

        """

    def stop(self) -> None:
        """Begin nothing more; what is not begun ends as an outcome that says so."""

    def kill(self) -> None:
        """End at once, with all that is under way."""

    def close(self) -> None:
        """Let go of the workers; nothing is under way any more, or of interest."""


class LocalPool:
    """Worker processes of this machine, which end with this process."""

    def __init__(self, backend: Backend, jobs: int) -> None:
        self.width = jobs
        self._backend = backend
        self._others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        self._stopped = context.Event()
        self._pool = concurrent.futures.ProcessPoolExecutor(
            jobs, mp_context=context, initializer=worker.prepare, initargs=(self._stopped,)
        )
        self._tickets: dict[concurrent.futures.Future[Outcome], int] = {}

    def submit(self, ticket: int, request: Request) -> None:
        """Hand a run to the next worker that is free."""
        # It may start a worker, which Ctrl-C at a terminal comes to as well: held back until the worker ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._tickets[self._pool.submit(worker.run, self._backend, request)] = ticket
        except concurrent.futures.process.BrokenProcessPool:
            raise _died() from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait for the next run to end, or for a moment."""
        done, _ = concurrent.futures.wait(self._tickets, timeout_s, return_when=concurrent.futures.FIRST_COMPLETED)
        try:
            return [(self._tickets.pop(future), future.result()) for future in done]
        except concurrent.futures.process.BrokenProcessPool:
            raise _died() from None

    def stop(self) -> None:
        """Have workers begin nothing more."""
        self._stopped.set()

    def kill(self) -> None:
        """End the worker processes, which remove first what they have made of this machine."""
        own = set(multiprocessing.active_children()) - self._others
        for process in own:
            process.terminate()
        deadline = time.monotonic() + _PATIENCE_S
        for process in own:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()

    def close(self) -> None:
        """Let the worker processes end."""
        if self._stopped.is_set():
            # One that is being started would look for what is gone, and say so.
            self.kill()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _died() -> RunFailed:
    return RunFailed("a worker process died, perhaps for lack of memory; finished runs are kept, go on with --resume")
