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
from typing import TYPE_CHECKING, Protocol

from anabranch.errors import InputError, RunFailed
from anabranch.study import worker

if TYPE_CHECKING:
    from anabranch.simulator import Request
    from anabranch.study.worker import Backend, Outcome


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
        self._pool = concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=worker.prepare)
        self._tickets: dict[concurrent.futures.Future[Outcome], int] = {}

    def submit(self, ticket: int, request: Request) -> None:
        """Hand a run to the next worker that is free."""
        try:
            self._tickets[self._pool.submit(worker.run, self._backend, request)] = ticket
        except concurrent.futures.process.BrokenProcessPool:
            raise _died() from None

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait for the next run to end, or for a moment."""
        done, _ = concurrent.futures.wait(self._tickets, timeout_s, return_when=concurrent.futures.FIRST_COMPLETED)
        try:
            return [(self._tickets.pop(future), future.result()) for future in done]
        except concurrent.futures.process.BrokenProcessPool:
            raise _died() from None

    def kill(self) -> None:
        """Kill the worker processes."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.kill()

    def close(self) -> None:
        """Let the worker processes end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _died() -> RunFailed:
    return RunFailed("a worker process died, perhaps for lack of memory; finished runs are kept, go on with --resume")
