"""Worker processes of this machine.

Each worker has a separate pipe and at most one run, so that the run of a worker that dies is known. This run is
repeated once, while no other one runs, because a machine that lacks memory may have killed the wrong process. If that
worker dies too, the run has failed. All other runs go on.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import RunFailed
from anabranch.logs import logger
from anabranch.study import worker
from anabranch.study.worker import Outcome

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from anabranch._core.simulator import Request
    from anabranch.study.worker import Backend

_LOG = logger(__name__)
_CLEANUP_TIMEOUT_S = 10.0
"""Time that workers have for removing hosts and links."""
_LIMITS_INTERVAL_S = 0.1
_MAX_DEATHS = 2
_MAX_FAILED_STARTS = 3
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds of a single run; `None` is no bound."""

    timeout_s: float | None = None
    memory_bytes: int | None = None
    """Resident memory of the worker process."""

    @property
    def are_set(self) -> bool:
        """Whether there is any bound."""
        return self.timeout_s is not None or self.memory_bytes is not None


@dataclass
class _Job:
    """A run that was submitted."""

    ticket: int
    request: Request
    deaths: int = 0
    """Workers that died while they had it."""


class _Worker:
    """A worker process with its end of the pipe and its run."""

    def __init__(self, backend: Backend) -> None:
        context = multiprocessing.get_context("spawn")
        # It is started here, because its start unblocks SIGINT, which is blocked below.
        resource_tracker.ensure_running()
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=worker.serve, args=(theirs, backend))
        # Ctrl-C at a terminal also reaches a starting worker. It is blocked until the worker ignores it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.is_ready = False
        self.job: _Job | None = None
        self.begun_s = 0.0

    def give(self, job: _Job) -> None:
        """Start a run; the pipe keeps it while the process starts."""
        self.job, self.begun_s = job, time.monotonic()
        # Ignored: the pool notices a dead process by its sentinel.
        with suppress(OSError):
            self.pipe.send(job.request)

    @property
    def memory_bytes(self) -> int:
        """Resident memory; 0 if the process has ended."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def end(self) -> None:
        """End the process; it first removes its hosts and links from this machine."""
        self.process.terminate()
        self.process.join(_CLEANUP_TIMEOUT_S)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class LocalPool:
    """Worker processes of this machine, which end with this process."""

    def __init__(self, backend: Backend, jobs: int, limits: Limits | None = None) -> None:
        self.width = jobs
        self.capacity = 2 * jobs
        """Number of submitted runs: for each worker, one that it runs and one that waits for it."""
        self._backend = backend
        self._limits = limits or Limits()
        self._limits_checked_s = 0.0
        self._workers: list[_Worker] = []
        self._waiting: deque[_Job] = deque()
        self._suspects: deque[_Job] = deque()
        """Runs whose worker died; they run while no other run is running."""
        self._ended: list[tuple[int, Outcome]] = []
        self._failed_starts = 0

    def submit(self, ticket: int, request: Request) -> None:
        """Give a run to an idle worker, or queue it."""
        self._waiting.append(_Job(ticket, request))
        self._dispatch()

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait at most `timeout_s` for a run to end, and return all that have ended.

        Raises:
            RunFailed: If worker processes die at their start.

        """
        if not self._ended:
            by_source: dict[Any, _Worker] = {}
            for each in self._workers:
                by_source[each.pipe] = by_source[each.process.sentinel] = each
            ready = multiprocessing.connection.wait(list(by_source), timeout_s)
            for each in dict.fromkeys(by_source[source] for source in ready):
                self._hear(each)
            self._check_limits()
            self._dispatch()
        ended, self._ended = self._ended, []
        return ended

    def under_way(self) -> dict[int, float]:
        """Time since the start of each running run, seconds, by its ticket."""
        now = time.monotonic()
        return {each.job.ticket: now - each.begun_s for each in self._workers if each.job is not None}

    def skip(self, ticket: int, reason: str) -> None:
        """End a running run; its outcome is a failure for this reason."""
        for each in list(self._workers):
            if each.job is not None and each.job.ticket == ticket:
                self._end(each, reason)

    def stop(self) -> None:
        """Start no further run. The outcome of each run that has not started has `begun = False`."""
        self._ended += [(job.ticket, Outcome(None, begun=False)) for job in (*self._waiting, *self._suspects)]
        self._waiting.clear()
        self._suspects.clear()

    def kill(self) -> None:
        """End all worker processes at once."""
        for each in self._workers:
            each.process.terminate()
        for each in self._workers:
            each.end()
        self._workers.clear()

    def close(self) -> None:
        """Release the worker processes, which end when their pipe closes."""
        for each in self._workers:
            each.pipe.close()
        for each in self._workers:
            each.process.join()
            each.process.close()
        self._workers.clear()

    def _dispatch(self) -> None:
        """Give waiting runs to idle workers; start workers while there are fewer than the width."""
        idle = [each for each in self._workers if each.job is None]
        while self._waiting and (idle or len(self._workers) < self.width):
            self._free(idle).give(self._waiting.popleft())
        if self._suspects and not self._waiting and all(each.job is None for each in self._workers):
            self._free(idle).give(self._suspects.popleft())

    def _free(self, idle: list[_Worker]) -> _Worker:
        """An idle worker, or a new one."""
        if idle:
            return idle.pop()
        self._workers.append(_Worker(self._backend))
        return self._workers[-1]

    def _hear(self, each: _Worker) -> None:
        """Read the outcome of a worker's run, or find that the worker has died."""
        try:
            while each.pipe.poll():
                outcome = each.pipe.recv()
                if outcome is None:
                    each.is_ready, each.begun_s, self._failed_starts = True, time.monotonic(), 0
                elif each.job is not None:
                    self._ended.append((each.job.ticket, outcome))
                    each.job = None
        except (EOFError, OSError):
            self._bury(each)
        else:
            if not each.process.is_alive():
                self._bury(each)

    def _bury(self, each: _Worker) -> None:
        """Remove a worker that died; its run is repeated once."""
        self._workers.remove(each)
        each.process.join()
        code = each.process.exitcode or 0
        each.pipe.close()
        job = each.job
        _LOG.warning("worker process %s died: %s", each.process.pid, _status(code))
        if not each.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise RunFailed(
                    f"worker processes die at their start ({_status(code)}); finished runs are kept, go on with "
                    "--resume"
                )
            if job is not None:
                self._waiting.appendleft(job)
        elif job is not None:
            job.deaths += 1
            if job.deaths < _MAX_DEATHS:
                self._suspects.append(job)
            else:
                self._ended.append((job.ticket, Outcome(None, failure=f"its worker died twice ({_status(code)})")))

    def _check_limits(self) -> None:
        """End runs that exceed their time or memory."""
        now = time.monotonic()
        if not self._limits.are_set or now - self._limits_checked_s < _LIMITS_INTERVAL_S:
            return
        self._limits_checked_s = now
        timeout_s, most = self._limits.timeout_s, self._limits.memory_bytes
        for each in [each for each in self._workers if each.job is not None and each.is_ready]:
            if timeout_s is not None and now - each.begun_s > timeout_s:
                self._end(each, f"took longer than --run-timeout {timeout_s:g}")
            elif most is not None and each.memory_bytes > most:
                self._end(each, f"needed more memory than --run-memory {most / _MEGABYTE:g}")

    def _end(self, each: _Worker, reason: str) -> None:
        """End a worker together with its run."""
        # The run may have ended meanwhile.
        if each.pipe.poll():
            return
        each.end()
        self._workers.remove(each)
        if each.job is not None:
            self._ended.append((each.job.ticket, Outcome(None, failure=reason)))


def _status(code: int) -> str:
    """Exit status of a process in words."""
    if code >= 0:
        return f"exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{name}, perhaps for lack of memory" if -code == signal.SIGKILL else name
