"""Runs of a study on more than one machine, by Dask: a cluster of this machine, one to join, or one of Slurm's jobs.

Store, order and outcome are those of the local pool. Dask runs what a dying worker had begun on another one. A
scheduler that goes away loses all that is under way, which is handed to it again when it is back. Whether a worker is
of the same build as this process is looked at with every run, since workers come and go.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
import platform
import queue
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import dask
import distributed

from anabranch._core import simulator
from anabranch.errors import InputError, RunFailed
from anabranch.study import certificates, worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch._core.simulator import Request
    from anabranch.study.worker import Backend, Outcome

_PATIENCE_S = 300.0
"""For how long a scheduler that went away is waited for."""
_FIRST_CONNECT_S = 8.0
"""Time to wait for a scheduler that may just be starting; a wrong address is named after it."""
_CONNECT_S = 5.0
_LEAVE_S = 2.0
_LOOK_S = 5.0
"""How often the size of a cluster is asked for."""
_LONELY_S = 15.0
"""Time without workers after which a message is written."""
_JOB = {"cores": 1, "processes": 1, "memory": "2 GB"}
"""Defaults of a Slurm job where Dask's configuration has none: one worker that runs one run at a time."""


def open_pool(place: str, backend: Backend, jobs: int) -> DaskPool:
    """A pool on a place that `anabranch.study.pool.check_place` knows.

    `jobs` is the number of workers where they are started for it.

    Raises:
        InputError: If there are no certificates for a scheduler that wants some, or Slurm takes no job.
        RunFailed: If the scheduler does not answer or the workers cannot be started.

    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if place == "dask":
        return DaskPool(backend, _local(jobs))
    if place == "slurm":
        return DaskPool(backend, _slurm(jobs))
    if place.startswith(("tls:", "wss:")):
        _check_certificates(place)
    return DaskPool(backend, place)


def _check_certificates(address: str) -> None:
    """Check that Dask knows certificates: without, it waits a minute and says something else."""
    try:
        context = distributed.Security().get_connection_args("client")["ssl_context"]
    except OSError as error:
        raise InputError(f"the certificates of Dask's configuration cannot be read: {error}") from None
    if context is None:
        raise InputError(
            f"{address} needs certificates, and Dask's configuration names none; set distributed.comm.tls.ca-file, and "
            "distributed.comm.tls.client.key and .cert"
        )


def _local(jobs: int) -> Any:
    # The front end shows progress, and watches over memory as little as the local pool does. One thread a worker: a run
    # has a core to itself.
    with _deaf_to_interrupts():
        return certificates.LocalCluster(
            n_workers=jobs, threads_per_worker=1, memory_limit=0, plugins=[_DeafToInterrupts()]
        )


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C comes to nothing, nor does it in processes that are started meanwhile.

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


def _slurm(jobs: int) -> Any:
    from dask_jobqueue import SLURMCluster
    from dask_jobqueue.slurm import SLURMJob

    submitted: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Job(SLURMJob):  # type: ignore[misc]
        """A job that reports whether Slurm took it: Dask submits in a separate thread and goes on waiting."""

        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError, ValueError) as error:
                # Dask would print an exception and still wait for the worker. Without a job there is nothing to
                # cancel at the end.
                self.status = distributed.core.Status.running
                submitted.put(str(error))
            else:
                submitted.put("")

    given = dask.config.get("jobqueue.slurm", {})
    own = {key: value for key, value in _JOB.items() if given.get(key) is None}
    cluster = SLURMCluster(job_cls=Job, **own, **certificates.job_options())
    cluster.scale(jobs=jobs)
    refusal = submitted.get()
    if refusal:
        cluster.close()
        # The output of sbatch comes last, after its arguments.
        reason = " ".join(refusal.rpartition("stderr:")[2].split())
        raise InputError(f"Slurm takes no job: {reason}; ~/.config/dask/jobqueue.yaml says what a job asks for")
    return cluster


class _Client(distributed.Client):  # type: ignore[misc]
    """A client that closes at once if no scheduler answers: Dask's client tries to sign off for a minute."""

    def start(self, **options: Any) -> None:
        try:
            super().start(**options)
        except (OSError, TimeoutError):
            raise
        except BaseException as error:
            self.status = "closed"
            if not isinstance(error, Exception):
                raise
            what = f"{type(error).__name__}: {error}"
            raise RunFailed(f"no Dask scheduler of this version is at {self._start_arg} ({what})") from None


class _DeafToInterrupts(distributed.WorkerPlugin):  # type: ignore[misc]
    """Plugin of the workers of this machine, also of those that are started again after one died.

    Ctrl-C is for the front end, which lets the runs at hand finish.
    """

    name = "anabranch-deaf-to-interrupts"

    def setup(self, worker: Any) -> None:
        """Prepare a worker; Dask calls it in the worker's own process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_here(backend: Backend, request: Request, build: tuple[str, str]) -> Outcome:
    """Run a request on a worker, if that is of the same version and build as the front end."""
    here = (simulator.version(), simulator.build_fingerprint())
    if here != build:
        return worker.Outcome(None, mistake=_other_build(here, build))
    return worker.run(backend, request)


def _other_build(here: tuple[str, str], build: tuple[str, str]) -> InputError:
    return InputError(
        f"a worker on {platform.node()} has version {here[0]}, build {here[1]}, and this is version "
        f"{build[0]}, build {build[1]}: install the same wheel on both"
    )


class DaskPool:
    """The workers of a Dask scheduler."""

    def __init__(self, backend: Backend, cluster: Any) -> None:
        """Join a cluster: the address of a scheduler, or a cluster that was started for this and ends with it."""
        self._backend = backend
        self._cluster = cluster
        self._build = (simulator.version(), simulator.build_fingerprint())
        self._under_way: dict[int, tuple[Request, Any]] = {}
        self._ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._taken_back: list[tuple[int, Outcome]] = []
        self._client: Any = None
        self._gone_since: float | None = None
        self._width, self._looked = 1, -_LOOK_S
        self._staffed: float | None = time.monotonic()
        """Last time with a worker; `None` once the message about missing workers was written."""
        if not self._connect(_FIRST_CONNECT_S):
            raise RunFailed(f"no Dask scheduler answers at {self._cluster}; start one with: dask scheduler")

    @property
    def width(self) -> int:
        """The threads of all workers that are there now."""
        if self._client is not None and time.monotonic() - self._looked >= _LOOK_S:
            self._looked = time.monotonic()
            try:
                threads = sum(self._client.nthreads().values())
            except (OSError, TimeoutError):
                self._lose()
            else:
                self._width = max(1, threads)
                self._tell(threads)
        return self._width

    def _tell(self, threads: int) -> None:
        """Report once that there are no workers: runs wait for them, and they may connect at any time or never."""
        if threads:
            self._staffed = time.monotonic()
        elif self._staffed is not None and time.monotonic() - self._staffed >= _LONELY_S:
            self._staffed = None
            place = self._cluster if isinstance(self._cluster, str) else self._cluster.scheduler_address
            # Written past all buffers, as there may be a bar.
            os.write(2, f"\nanabranch: no worker is at {place}; the runs wait for one\n".encode())

    def submit(self, ticket: int, request: Request) -> None:
        """Hand a run to the scheduler, or keep it for when that is back."""
        future = None
        if self._client is not None:
            future = self._client.submit(run_here, self._backend, request, self._build, pure=False)
            future.add_done_callback(lambda done: self._ended.put((ticket, done)))
        self._under_way[ticket] = (request, future)

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait for the next run to end, or for a moment; look for a scheduler that has gone."""
        if self._client is None:
            self._return(timeout_s)
            return []
        taken, self._taken_back = self._taken_back, []
        try:
            ended = [self._ended.get(timeout=timeout_s)]
            while not self._ended.empty():
                ended.append(self._ended.get())
        except queue.Empty:
            ended = []
        for ticket, future in ended:
            # Futures of a lost scheduler are ignored.
            if ticket not in self._under_way or self._under_way[ticket][1] is not future:
                continue
            outcome = self._outcome(future)
            if outcome is None:
                self._lose()
                break
            del self._under_way[ticket]
            taken.append((ticket, outcome))
        return taken

    def _outcome(self, future: Any) -> Outcome | None:
        """Outcome of a run; `None` if the scheduler has lost it."""
        try:
            outcome: Outcome = future.result(timeout=_PATIENCE_S)
        except distributed.scheduler.KilledWorker as error:
            return worker.Outcome(None, failure=f"its workers died, the last at {error.last_worker.address}")
        except (OSError, TimeoutError, concurrent.futures.CancelledError):
            return None
        except Exception as error:
            # Failures of a run are in its outcome; here a worker could not begin.
            text = f"a worker cannot carry runs out ({type(error).__name__}: {error}); install the same wheel there"
            return worker.Outcome(None, mistake=InputError(text))
        return outcome

    def _lose(self) -> None:
        """The scheduler has gone, and with it all that was under way."""
        client, self._client = self._client, None
        self._gone_since = time.monotonic()
        self._under_way = {ticket: (request, None) for ticket, (request, _) in self._under_way.items()}
        if client is not None:
            # No scheduler is left to sign off from.
            with suppress(OSError, TimeoutError):
                client.close(timeout=_LEAVE_S)

    def _return(self, timeout_s: float) -> None:
        """Look for the scheduler, and hand it all that was under way."""
        if self._connect(_CONNECT_S):
            for ticket, (request, _) in list(self._under_way.items()):
                self.submit(ticket, request)
        elif self._gone_since is not None and time.monotonic() - self._gone_since > _PATIENCE_S:
            raise RunFailed(
                f"the Dask scheduler at {self._cluster} has gone and did not come back; finished runs are kept, go on "
                "with --resume"
            )
        else:
            time.sleep(timeout_s)

    def _connect(self, timeout_s: float) -> bool:
        try:
            self._client = _Client(self._cluster, timeout=timeout_s, set_as_default=False)
        except (OSError, TimeoutError):
            return False
        self._gone_since, self._looked = None, -_LOOK_S
        return True

    def under_way(self) -> dict[int, float]:
        """Nothing: only Dask's workers know when a run has started."""
        return {}

    def skip(self, ticket: int, reason: str) -> None:
        """Not possible: `under_way` names no run."""

    def stop(self) -> None:
        """Take back all runs that no worker has begun."""
        if self._client is None:
            return
        try:
            begun = {key for keys in self._client.processing().values() for key in keys}
        except (OSError, TimeoutError):
            self._lose()
            return
        for ticket, (_, future) in list(self._under_way.items()):
            if future is not None and future.key not in begun:
                self._taken_back.append((ticket, worker.Outcome(None, begun=False)))
                del self._under_way[ticket]
                future.cancel()

    def kill(self) -> None:
        """Give up what is under way, and end the workers that were started for this."""
        if self._client is not None:
            self._client.cancel([future for _, future in self._under_way.values() if future is not None], force=True)
        self.close()

    def close(self) -> None:
        """Let go of the scheduler, and end it and its workers if they were started for this."""
        if self._client is not None:
            self._client.close()
        if not isinstance(self._cluster, str):
            self._cluster.close()
