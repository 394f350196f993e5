"""Runs of a study on more than one machine, by Dask: a cluster of this machine, one to join, or one of Slurm's jobs.

Store, order and outcome are those of the local pool. A task of Dask costs several milliseconds, so that short runs are
sent in bundles: a worker begins no further run of a bundle after `_BUNDLE_S`, and the pool sends the others again.

Dask repeats all bundles of a dying worker on another one, and counts the death against each of them. Each run of a
bundle with too many deaths is repeated alone, and fails only if workers die then too. A scheduler that ends loses all
submitted bundles; they are submitted again when it is back. Each bundle checks that its worker has the same build as
this process, because workers may join at any time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import logging
import os
import platform
import queue
import signal
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import distributed

from anabranch._core import simulator
from anabranch.errors import InputError, RunFailed
from anabranch.study import certificates, forkserver, worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch._core.simulator import Request
    from anabranch.study.worker import Backend, Outcome

_RECONNECT_TIMEOUT_S = 300.0
"""Time to wait for the return of a scheduler whose connection was lost."""
_FIRST_CONNECT_TIMEOUT_S = 8.0
"""Time to wait for a scheduler that may just be starting; then an error names the address."""
_CONNECT_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 2.0
_COUNT_INTERVAL_S = 5.0
"""Interval at which the number of a cluster's workers is read."""
_NO_WORKER_NOTICE_S = 15.0
"""Time without workers after which a message is written."""
_LOCAL = {
    "distributed.scheduler.allowed-failures": 0,
    # Dask samples all threads 100 to 1,000 times a second for a profile that nothing here reads.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.multiprocessing-method": "forkserver",
}
"""Dask's configuration of a cluster of this machine."""
_BUNDLE_S = 0.25
"""Time after which a worker begins no further run of a bundle."""
_MAX_BUNDLE_RUNS = 256
"""Bounds the memory for the results of a bundle; 256 runs of 1 ms fill `_BUNDLE_S`."""
_JOB = {"cores": 1, "processes": 1, "memory": "2 GB"}
"""Defaults of a Slurm job where Dask's configuration has none: one worker that runs one run at a time."""


def open_pool(place: str, backend: Backend, jobs: int) -> DaskPool:
    """Open the pool of a place that `anabranch.study.pool.check_place` accepts.

    `jobs` is the number of workers, if the pool starts them.

    Raises:
        InputError: If a scheduler requires certificates and there are none, or Slurm refuses a job.
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
    """Check that Dask has certificates. Without them it waits a minute and reports another error."""
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
    # Dask's display of progress and its limit of memory are off: the front end shows progress, and the local pool has
    # no such limit either. Each worker has one thread, so that a run has a core to itself. As in the local pool, a run
    # whose worker died is repeated once, alone. The environment is passed, because the process from which workers are
    # forked may have an older one.
    options = {"n_workers": jobs, "threads_per_worker": 1, "memory_limit": 0, "env": dict(os.environ)}
    forkserver.begin()
    with forkserver.ignoring_interrupts(), dask.config.set(_LOCAL):
        return certificates.LocalCluster(plugins=[_IgnoreInterrupts()], **options)


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
        # The error has the arguments of sbatch, and then its output after "stderr:".
        reason = " ".join(refusal.rpartition("stderr:")[2].split())
        raise InputError(f"Slurm takes no job: {reason}; ~/.config/dask/jobqueue.yaml has the requests of a job")
    return cluster


class _Client(distributed.Client):  # type: ignore[misc]
    """A client that closes at once if no scheduler answers; Dask's client tries for a minute to sign off."""

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


class _IgnoreInterrupts(distributed.WorkerPlugin):  # type: ignore[misc]
    """Plugin of the workers of this machine, also of those that are started again after one died.

    The front end handles Ctrl-C, and lets the running runs finish.
    """

    name = "anabranch-deaf-to-interrupts"

    def setup(self, worker: Any) -> None:
        """Prepare a worker; Dask calls it in the worker's own process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_here(backend: Backend, requests: Sequence[Request], build: tuple[str, str]) -> list[Outcome]:
    """Run a bundle on a worker, if the worker has the version and build of the front end.

    The result has an outcome for each run that was begun: the first one, and others until `_BUNDLE_S` have passed.
    """
    here = (simulator.version(), simulator.build_fingerprint())
    if here != build:
        return [worker.Outcome(None, mistake=_other_build(here, build))]
    begun_s, outcomes = time.monotonic(), list[worker.Outcome]()
    for request in requests:
        if outcomes and time.monotonic() - begun_s > _BUNDLE_S:
            break
        outcomes.append(worker.run(backend, request))
    return outcomes


def _other_build(here: tuple[str, str], build: tuple[str, str]) -> InputError:
    return InputError(
        f"a worker on {platform.node()} has version {here[0]}, build {here[1]}, and this is version "
        f"{build[0]}, build {build[1]}: install the same wheel on both"
    )


@dataclass(frozen=True)
class _Bundle:
    """Runs that the scheduler has as one task, or will get after its return."""

    runs: tuple[tuple[int, Request], ...]
    """Tickets and requests."""
    future: Any = None
    """Dask's handle; `None` without a scheduler."""
    fetched: concurrent.futures.Future[list[Outcome]] | None = None
    """The outcomes, fetched in Dask's thread: Dask waits for a repetition if a worker dies with a finished result."""


class DaskPool:
    """The workers of a Dask scheduler."""

    def __init__(self, backend: Backend, cluster: Any) -> None:
        """Join a cluster: the address of its scheduler, or a cluster started for this pool, which ends with it."""
        self._backend = backend
        self._cluster = cluster
        self._build = (simulator.version(), simulator.build_fingerprint())
        self._under_way: dict[int, _Bundle] = {}
        self._numbers = itertools.count()
        """Numbers for bundles; a repeated bundle gets another number."""
        self._bundle_runs = 1
        """Number of runs that fill a bundle, by the duration of the latest runs."""
        self._ended: queue.SimpleQueue[tuple[int, concurrent.futures.Future[list[Outcome]]]] = queue.SimpleQueue()
        self._suspects: deque[tuple[int, Request]] = deque()
        """Runs whose workers died; each is repeated while no other run is running."""
        self._alone: int | None = None
        """Number of the bundle that has a suspect."""
        self._waiting: deque[tuple[int, Request]] = deque()
        """Runs that are in no bundle yet."""
        self._is_stopped = False
        self._taken_back: list[tuple[int, Outcome]] = []
        self._client: Any = None
        self._gone_since: float | None = None
        self._width, self._looked = 1, -_COUNT_INTERVAL_S
        self._staffed: float | None = time.monotonic()
        """Last time with a worker; `None` once the message about missing workers was written."""
        if not self._connect(_FIRST_CONNECT_TIMEOUT_S):
            raise RunFailed(f"no Dask scheduler answers at {self._cluster}; start one with: dask scheduler")

    @property
    def width(self) -> int:
        """Number of threads of all present workers."""
        if self._client is not None and time.monotonic() - self._looked >= _COUNT_INTERVAL_S:
            self._looked = time.monotonic()
            try:
                threads = sum(self._client.nthreads().values())
            except (OSError, TimeoutError):
                self._lose()
            else:
                self._width = max(1, threads)
                self._report_missing_workers(threads)
        return self._width

    @property
    def capacity(self) -> int:
        """Two submitted bundles for each thread: a running one and one in reserve."""
        return 2 * self.width * self._bundle_runs

    def _report_missing_workers(self, threads: int) -> None:
        """Report once that there are no workers: runs wait for them, and they may connect at any time or never."""
        if threads:
            self._staffed = time.monotonic()
        elif self._staffed is not None and time.monotonic() - self._staffed >= _NO_WORKER_NOTICE_S:
            self._staffed = None
            place = self._cluster if isinstance(self._cluster, str) else self._cluster.scheduler_address
            # Written past all buffers, because a progress bar may be on the terminal.
            os.write(2, f"\nanabranch: no worker is at {place}; the runs wait for one\n".encode())

    def submit(self, ticket: int, request: Request) -> None:
        """Keep a run for the next bundle, which `take` hands to the scheduler."""
        self._waiting.append((ticket, request))

    def _send_bundle(self, number: int, runs: tuple[tuple[int, Request], ...]) -> None:
        """Send a bundle to the scheduler, or keep it until the scheduler is back."""
        if self._client is None:
            self._under_way[number] = _Bundle(runs)
            return
        requests = [request for _, request in runs]
        future = self._client.submit(run_here, self._backend, requests, self._build, pure=False)
        fetching = self._client.gather(future, asynchronous=True)
        fetched = asyncio.run_coroutine_threadsafe(fetching, self._client.loop.asyncio_loop)
        self._under_way[number] = _Bundle(runs, future, fetched)
        fetched.add_done_callback(lambda done: self._ended.put((number, done)))

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait for the next bundle to end, or for a moment; look for a scheduler that has gone."""
        taken, self._taken_back = self._taken_back, []
        if self._client is None:
            if not taken:
                self._return(timeout_s)
            return taken
        self._dispatch()
        for number, fetched in self._take_ended(0.0 if taken else timeout_s):
            # Outcomes of a lost scheduler are ignored.
            if number not in self._under_way or self._under_way[number].fetched is not fetched:
                continue
            try:
                outcomes = self._outcomes(number, fetched)
            except (OSError, TimeoutError, concurrent.futures.CancelledError):
                self._lose()
                break
            taken += self._book(self._under_way.pop(number).runs, outcomes)
        self._dispatch()
        return taken

    def _take_ended(self, timeout_s: float) -> list[tuple[int, concurrent.futures.Future[list[Outcome]]]]:
        """Wait for a bundle to end, and return all that have ended."""
        ended: list[tuple[int, concurrent.futures.Future[list[Outcome]]]] = []
        with suppress(queue.Empty):
            if timeout_s:
                ended.append(self._ended.get(timeout=timeout_s))
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def _outcomes(self, number: int, fetched: concurrent.futures.Future[list[Outcome]]) -> list[Outcome] | None:
        """Outcomes of a bundle's begun runs; `None` if its workers died, perhaps because of another bundle.

        Raises:
            OSError, TimeoutError, CancelledError: If the scheduler has lost it.

        """
        try:
            return fetched.result()
        except distributed.scheduler.KilledWorker as error:
            if self._is_stopped:
                return []
            if number != self._alone:
                return None
            reason = f"its workers died, also while it ran alone, the last at {error.last_worker.address}"
            return [worker.Outcome(None, failure=reason)]
        except (OSError, TimeoutError, concurrent.futures.CancelledError):
            raise
        except Exception as error:
            # Failures of a run are in its outcome; here a worker could not begin.
            text = f"a worker cannot execute runs ({type(error).__name__}: {error}); install the same wheel there"
            return [worker.Outcome(None, mistake=InputError(text))]

    def _book(
        self, runs: Sequence[tuple[int, Request]], outcomes: Sequence[Outcome] | None
    ) -> list[tuple[int, Outcome]]:
        """The ended runs of a bundle with their outcomes; queues the others, as suspects if there is no outcome."""
        if outcomes is None:
            self._suspects.extend(runs)
            return []
        left = runs[len(outcomes) :]
        if self._is_stopped:
            for ticket, _ in left:
                self._take_back(ticket)
        else:
            self._waiting.extendleft(reversed(left))
        seconds = [outcome.seconds for outcome in outcomes if outcome.document is not None]
        if seconds:
            mean_s = max(sum(seconds) / len(seconds), _BUNDLE_S / _MAX_BUNDLE_RUNS)
            self._bundle_runs = max(1, int(_BUNDLE_S / mean_s))
        return [(ticket, outcome) for (ticket, _), outcome in zip(runs, outcomes, strict=False)]

    def _dispatch(self) -> None:
        """Hand over waiting runs; after the last one repeat the suspects, each while no other run is running."""
        had_suspect = self._alone is not None
        if self._alone not in self._under_way:
            self._alone = None
        if self._suspects and not self._under_way and (had_suspect or not self._waiting):
            self._alone = next(self._numbers)
            self._send_bundle(self._alone, (self._suspects.popleft(),))
        if self._alone is not None:
            return
        # A part of a bundle waits for more runs, unless a worker is idle.
        while self._waiting and (len(self._waiting) >= self._bundle_runs or len(self._under_way) < self._width):
            idle = max(1, self._width - len(self._under_way))
            count = min(self._bundle_runs, -(-len(self._waiting) // idle))
            self._send_bundle(next(self._numbers), tuple(self._waiting.popleft() for _ in range(count)))

    def _lose(self) -> None:
        """Record that the connection to the scheduler is lost, and with it all submitted bundles."""
        client, self._client = self._client, None
        self._gone_since = time.monotonic()
        self._under_way = {number: _Bundle(bundle.runs) for number, bundle in self._under_way.items()}
        if client is not None:
            # Signing off fails without a scheduler.
            with suppress(OSError, TimeoutError):
                client.close(timeout=_CLOSE_TIMEOUT_S)

    def _return(self, timeout_s: float) -> None:
        """Reconnect to the scheduler, and submit all lost bundles again."""
        if self._connect(_CONNECT_TIMEOUT_S):
            for number, bundle in list(self._under_way.items()):
                self._send_bundle(number, bundle.runs)
        elif self._gone_since is not None and time.monotonic() - self._gone_since > _RECONNECT_TIMEOUT_S:
            raise RunFailed(
                f"the Dask scheduler at {self._cluster} has ended and did not restart; finished runs are kept, go on "
                "with --resume"
            )
        else:
            time.sleep(timeout_s)

    def _connect(self, timeout_s: float) -> bool:
        try:
            self._client = _Client(self._cluster, timeout=timeout_s, set_as_default=False)
        except (OSError, TimeoutError):
            return False
        self._gone_since, self._looked = None, -_COUNT_INTERVAL_S
        return True

    def under_way(self) -> dict[int, float]:
        """Empty, because only Dask's workers know when a run has started."""
        return {}

    def skip(self, ticket: int, reason: str) -> None:
        """Never called, because `under_way` names no run."""

    def stop(self) -> None:
        """Take back all bundles that no worker has begun; without a scheduler these are all."""
        self._is_stopped = True
        for ticket, _ in (*self._waiting, *self._suspects):
            self._take_back(ticket)
        self._waiting.clear()
        self._suspects.clear()
        begun: set[Any] = set()
        if self._client is not None:
            try:
                begun = {key for keys in self._client.processing().values() for key in keys}
            except (OSError, TimeoutError):
                self._lose()
        for number, bundle in list(self._under_way.items()):
            if bundle.future is not None and bundle.future.key in begun:
                continue
            del self._under_way[number]
            for ticket, _ in bundle.runs:
                self._take_back(ticket)
            if bundle.future is not None:
                bundle.future.cancel()

    def _take_back(self, ticket: int) -> None:
        self._taken_back.append((ticket, worker.Outcome(None, begun=False)))

    def kill(self) -> None:
        """Cancel all submitted bundles, and end the workers that were started for this pool."""
        if self._client is not None:
            futures = [bundle.future for bundle in self._under_way.values() if bundle.future is not None]
            self._client.cancel(futures, force=True)
        self.close()

    def close(self) -> None:
        """Disconnect from the scheduler; end it and its workers if this pool started them."""
        if self._client is not None:
            self._client.close()
        if not isinstance(self._cluster, str):
            self._cluster.close()
