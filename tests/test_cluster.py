"""Studies on Dask: the report equals that of local processes, also when workers or the scheduler die."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import distributed
import pytest

import fake_simulator
import small_study
from anabranch._core import simulator
from anabranch._core.simulator import Request
from anabranch.errors import InputError, RunFailed
from anabranch.report.write import write_all
from anabranch.study import certificates, cluster, pool
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute
from anabranch.study.store import read
from command import anabranch
from dask_machines import Machines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anabranch.study.engine import Progress
    from anabranch.study.worker import Backend, Outcome

HERE = Path(__file__).parent


def plan(folder: Path, results: Path, place: str, backend: Backend = fake_simulator.simulate) -> Plan:
    study = load(folder)
    return Plan(study, study.full, results, backend, simulator.build_fingerprint(), 2, place=place)


def report(chosen: Plan) -> dict[str, bytes]:
    """The parts of a report that do not depend on the duration of runs."""
    with read(chosen.folder) as store:
        write_all(Analysis(chosen.study, chosen.effort, store.records), chosen)
    names = ["report.md", "points.csv", *(f"figures/{f.name}.svg" for f in chosen.study.figures if f.metrics)]
    return {name: (chosen.folder / name).read_bytes() for name in names}


def run(chosen: Plan, *, resume: bool = False) -> Progress:
    return execute(chosen, Silent(), resume=resume)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_study.write(tmp_path / "study")


@pytest.fixture(autouse=True)
def workers_find_the_doubles_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, sys.path)]))


@pytest.mark.slow
def test_local_cluster_gives_the_local_report(folder: Path, tmp_path: Path) -> None:
    here, there = plan(folder, tmp_path / "here", ""), plan(folder, tmp_path / "there", "dask")
    assert run(here).finished == run(there).finished == 12
    assert report(there) == report(here)
    assert run(there, resume=True).reused == 12


def test_interrupt_during_start_spares_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that die during start make Dask fail with a traceback."""
    asked = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"

    def start(**_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True).stdout

    monkeypatch.setattr("anabranch.study.certificates.LocalCluster", start)
    before = signal.getsignal(signal.SIGINT)
    assert cluster._local(1) == "True\n"
    assert signal.getsignal(signal.SIGINT) == before


def refuses_strangers(address: str) -> bool:
    """Whether a scheduler refuses a client without its certificate."""
    assert address.startswith("tls://")
    plain = address.replace("tls://", "tcp://")
    for options in ({"address": plain}, {"address": address, "security": distributed.Security.temporary()}):
        with pytest.raises((OSError, TimeoutError)):
            distributed.Client(timeout=2, set_as_default=False, **options)
    return True


@pytest.mark.slow
def test_scheduler_refuses_clients_without_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scheduler", "worker"):
        monkeypatch.setattr(logging.getLogger(f"distributed.{name}"), "disabled", True)
    with cluster._local(1) as local:
        assert refuses_strangers(local.scheduler_address)
        # Dask opens a web server here even without a dashboard.
        assert local.scheduler.services == {}
        with distributed.Client(local, set_as_default=False) as own:
            assert own.submit(abs, -7).result() == 7


@pytest.mark.slow
def test_worker_that_restarts_slowly_is_kept() -> None:
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 ms"}),
        certificates.LocalCluster(n_workers=1, threads_per_worker=1, memory_limit=0) as local,
        distributed.Client(local, set_as_default=False) as own,
    ):
        first = own.submit(os.getpid).result()
        os.kill(first, signal.SIGKILL)
        assert own.submit(os.getpid, pure=False).result(timeout=300) != first


def test_jobs_get_certificates_and_no_web_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = certificates.job_options()
    assert options["security"].require_encryption
    assert (options["protocol"], options["shared_temp_directory"]) == ("tls://", str(tmp_path))
    assert options["scheduler_cls"] is not distributed.Scheduler
    with dask.config.set({"jobqueue.slurm.scheduler-options": {"dashboard_address": "127.0.0.1:8787"}}):
        assert "scheduler_cls" not in certificates.job_options()


@pytest.mark.slow
def test_only_the_run_that_kills_workers_fails(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = plan(folder, tmp_path / "results", "dask", fake_simulator.dying_on_one)
    monkeypatch.setenv("FAKE_VICTIM", str(chosen.study.runs(chosen.effort)[5].seed))
    outcome = run(chosen)
    assert (outcome.finished, len(outcome.failures)) == (11, 1)
    assert "its workers died" in outcome.failures[0]


def request(seed: int) -> Request:
    return Request(small_study.SCENARIO, "s.toml", (), seed)


def take_all(workers: cluster.DaskPool, count: int) -> dict[int, Outcome]:
    """The next outcomes by their tickets."""
    taken: dict[int, Outcome] = {}
    while len(taken) < count:
        taken |= dict(workers.take(0.2))
    return taken


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which backends mark their start."""
    monkeypatch.setenv("FAKE_MARKS", str(tmp_path / "marks"))
    monkeypatch.setenv("FAKE_SECONDS", "0")
    return tmp_path / "marks"


@contextmanager
def opened(backend: Backend, threads: int) -> Iterator[cluster.DaskPool]:
    """A pool whose only worker runs this number of requests at the same time."""
    options = {"n_workers": 1, "threads_per_worker": threads, "memory_limit": 0}
    with certificates.LocalCluster(**options) as local, closing(cluster.DaskPool(backend, local)) as workers:
        yield workers


def test_bundle_begins_no_run_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, build = [0.0], (simulator.version(), simulator.build_fingerprint())
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def backend(_: Request) -> Any:
        clock[0] += 0.2
        return {}

    requests = [request(seed) for seed in range(10)]
    # The second run begins at 0.2 s, the third would begin at 0.4 s.
    assert [outcome.seconds for outcome in cluster.run_here(backend, requests, build)] == pytest.approx([0.2] * 2)


def take_by_capacity(workers: cluster.DaskPool, seeds: Iterable[int]) -> dict[int, Outcome]:
    """The outcomes of all runs by their seeds; the runs are submitted like those of the engine."""
    waiting, pending = iter(seeds), 0
    taken: dict[int, Outcome] = {}
    while True:
        for seed in itertools.islice(waiting, max(0, workers.capacity - pending)):
            workers.submit(seed, request(seed))
            pending += 1
        if not pending:
            return taken
        ended = workers.take(0.2)
        pending -= len(ended)
        assert not taken.keys() & dict(ended).keys()
        taken |= dict(ended)


@pytest.mark.slow
def test_short_runs_share_few_tasks() -> None:
    with opened(fake_simulator.simulate, 1) as workers:
        taken = take_by_capacity(workers, range(600))
        tasks = next(workers._numbers)
    assert set(taken) == set(range(600))
    assert all(outcome.document is not None for outcome in taken.values())
    assert tasks < 60


@pytest.mark.slow
def test_only_the_deadly_run_of_a_bundle_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VICTIM", "70")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        opened(fake_simulator.dying_on_one, 1) as workers,
    ):
        taken = take_by_capacity(workers, range(200))
    assert {seed for seed, outcome in taken.items() if outcome.document} == set(range(200)) - {70}
    assert "its workers died, also while it ran alone" in taken[70].failure


@pytest.mark.slow
def test_stop_returns_unstarted_runs_of_a_bundle(marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "0.2")
    with opened(fake_simulator.slow, 1) as workers:
        workers._bundle_runs = 20
        for seed in range(20):
            workers.submit(seed, request(seed))
        while not marks.exists():
            assert workers.take(0.05) == []
        workers.stop()
        taken = take_all(workers, 20)
    begun = {seed for seed, outcome in taken.items() if outcome.begun}
    assert begun == {int(seed) for seed in marks.read_text(encoding="utf-8").split()}
    assert 0 < len(begun) < 20


@pytest.mark.slow
def test_run_with_deadly_neighbour_is_repeated(marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask counts the first death of their worker against both."""
    monkeypatch.setenv("FAKE_VICTIM", "13")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        opened(fake_simulator.dying_with_neighbour, 2) as workers,
    ):
        for seed in (13, 14):
            workers.submit(seed, request(seed))
        taken = take_all(workers, 2)
        # The pool takes runs in groups again.
        for seed in (15, 16):
            workers.submit(seed, request(seed))
        taken |= take_all(workers, 2)
    assert {seed for seed, outcome in taken.items() if outcome.document} == {14, 15, 16}
    assert "its workers died, also while it ran alone" in taken[13].failure


@pytest.mark.slow
def test_suspect_runs_alone_and_others_wait(marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VICTIM", "13")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        opened(fake_simulator.dying_with_neighbour, 2) as workers,
    ):
        for seed in (13, 14):
            workers.submit(seed, request(seed))
        while workers._alone is None:
            assert workers.take(0.2) == []
        workers.submit(15, request(15))
        assert list(workers._under_way) == [workers._alone]
        workers.stop()
        taken = take_all(workers, 3)
    assert not taken[15].begun
    assert {seed for seed, outcome in taken.items() if outcome.failure} <= {13}


@pytest.mark.slow
def test_take_does_not_wait_for_a_result_lost_with_worker(marks: Path) -> None:
    with opened(fake_simulator.dying_with_result, 1) as workers:
        workers.submit(1, request(1))
        while not marks.exists() or marks.read_text(encoding="utf-8").count("\n") < 2:
            assert workers.take(0.2) == []
        marks.with_suffix(".go").touch()
        assert take_all(workers, 1)[1].document is not None
    assert marks.read_text(encoding="utf-8").count("\n") == 2


# ---- a cluster that the test started before the study


@pytest.fixture
def machines(
    workers_find_the_doubles_of_the_tests: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    monkeypatch.setenv("FAKE_MARKS", str(tmp_path / "marks"))
    monkeypatch.setenv("FAKE_SECONDS", "0.2")
    found = Machines()
    try:
        yield found
    finally:
        found.end()


class Disasters(Silent):
    """An observer that calls a function after a certain number of runs."""

    def __init__(self, machines: Machines, after: dict[int, str]) -> None:
        self._machines = machines
        self._after = after

    def advance(self, progress: Progress) -> None:
        match self._after.pop(progress.finished, ""):
            case "worker":
                self._machines.kill_worker()
                self._machines.add_worker()
            case "scheduler":
                self._machines.restart_scheduler()
            case _:
                pass


@pytest.mark.slow
def test_study_survives_worker_and_scheduler_death(folder: Path, tmp_path: Path, machines: Machines) -> None:
    here = plan(folder, tmp_path / "here", "", fake_simulator.slow)
    there = plan(folder, tmp_path / "there", machines.address, fake_simulator.slow)
    machines.add_worker()
    machines.add_worker()
    disasters = Disasters(machines, {2: "worker", 4: "scheduler", 8: "worker"})
    outcome = execute(there, disasters, resume=False)
    assert (outcome.finished, outcome.failures) == (12, [])
    run(here)
    assert report(there) == report(here)


def test_unreachable_scheduler_keeps_earlier_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plan(folder, tmp_path / "results", ""))
    monkeypatch.setattr(cluster, "_FIRST_CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(RunFailed, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run(plan(folder, tmp_path / "results", "tcp://127.0.0.1:9"))
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["runs.jsonl"]
    assert run(plan(folder, tmp_path / "results", ""), resume=True).reused == 12


@pytest.mark.slow
def test_interrupt_ends_the_wait_for_a_scheduler(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = ("--results", str(tmp_path / "results"), "--on", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        command = subprocess.Popen(
            [sys.executable, "-m", "anabranch", "study", "run", str(folder), *place], stderr=subprocess.PIPE, text=True
        )
        try:
            # Dask connects and waits for a greeting.
            silent.settimeout(300)
            with silent.accept()[0]:
                command.send_signal(signal.SIGINT)
                _, said = command.communicate(timeout=300)
        finally:
            command.kill()
    assert (command.returncode, said.strip().splitlines()[-1]) == (130, "anabranch: interrupted")


def test_foreign_server_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        talker = threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.0\r\n"))
        talker.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RunFailed, match=rf"no Dask scheduler of this version is at {address} \(MemoryError"):
            run(plan(folder, tmp_path / "results", address))
        talker.join()


def test_tls_scheduler_needs_certificates(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs certificates, and Dask's configuration names none"):
        run(plan(folder, tmp_path / "results", "tls://127.0.0.1:9"))
    missing = dict.fromkeys(("ca-file", "client.key", "client.cert"), str(tmp_path / "none.pem"))
    with (
        dask.config.set({f"distributed.comm.tls.{key}": file for key, file in missing.items()}),
        pytest.raises(InputError, match="certificates of Dask's configuration cannot be read"),
    ):
        run(plan(folder, tmp_path / "results", "tls://127.0.0.1:9"))


@pytest.mark.slow
def test_wait_for_workers_is_reported(
    folder: Path, tmp_path: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "_NO_WORKER_NOTICE_S", 0.0)
    monkeypatch.setattr(cluster, "_COUNT_INTERVAL_S", 0.1)
    later = threading.Timer(2.0, machines.add_worker)
    later.start()
    assert run(plan(folder, tmp_path / "results", machines.address)).finished == 12
    later.join()
    said = capfd.readouterr().err
    assert said.count(f"no worker is at {machines.address}; the runs wait for one") == 1


@pytest.mark.slow
def test_lost_scheduler_ends_the_study(
    folder: Path, tmp_path: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_RECONNECT_TIMEOUT_S", 1.0)
    machines.add_worker()

    class End(Silent):
        def advance(self, progress: Progress) -> None:
            machines.end()

    with pytest.raises(RunFailed, match="has ended and did not restart; finished runs are kept"):
        execute(plan(folder, tmp_path / "results", machines.address), End(), resume=False)
    with read(tmp_path / "results") as store:
        assert store.records


@pytest.mark.slow
def test_stop_without_scheduler_returns_all_runs(machines: Machines) -> None:
    with closing(cluster.DaskPool(fake_simulator.simulate, machines.address)) as workers:
        workers.submit(1, request(1))
        machines.end()
        while workers._client is not None:
            assert workers.take(0.2) == []
        workers.submit(2, request(2))
        workers.stop()
        assert {ticket: outcome.begun for ticket, outcome in workers.take(0.2)} == {1: False, 2: False}


# ---- checks of workers and places


def test_worker_of_another_build_is_refused() -> None:
    request = Request(small_study.SCENARIO, "s.toml", ("duration=3 s",), 1)
    build = (simulator.version(), simulator.build_fingerprint())
    assert cluster.run_here(simulator.simulate, [request], build)[0].document is not None
    for other in (("0.0.0", build[1]), (build[0], "0" * 16)):
        (refused,) = cluster.run_here(simulator.simulate, [request, request], other)
        assert refused.document is None
        assert "install the same wheel on both" in str(refused.mistake)


def test_unknown_cluster_and_missing_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match='unknown cluster "mars"'):
        pool.check_place("mars")
    for address in (
        "tcp://head",
        "tcp://head:dask",
        "tcp://head:0",
        "tcp://head:65536",
        "tcp://[::1",
        "tcp://::1:8786",
    ):
        with pytest.raises(InputError, match="the address of a Dask scheduler such as"):
            pool.check_place(address)
    for place in ("dask", "tcp://10.0.0.1:8786", "tcp://[fd00::1]:8786", "tls://head:8786"):
        pool.check_place(place)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="--on slurm needs sbatch, which is not here"):
        pool.check_place("slurm")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'needs the package distributed.*pip install "anabranch\[cluster\]"'):
        pool.check_place("dask")


def test_wrong_cluster_options_are_refused(tmp_path: Path) -> None:
    study = str(small_study.write(tmp_path / "study"))
    unknown = anabranch("study", "run", study, "--on", "mars", "--results", str(tmp_path / "r"))
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    kernel = anabranch("study", "run", study, "--on", "dask", "--world", "kernel", "--results", str(tmp_path / "r"))
    assert kernel.returncode == 2
    assert not (tmp_path / "r").exists()


SBATCH = """#!/bin/sh
# Runs each submitted job at once on this machine, from a copy: the caller deletes the script as soon as this ends.
for script; do :; done
cp "$script" "{pids}.$$.sh"
sh "{pids}.$$.sh" > "{pids}.$$.log" 2>&1 &
echo "$!" >> "{pids}"
echo "Submitted batch job $!"
"""


def slurm(folder: Path, submit: str) -> str:
    """A PATH with a replacement of Slurm's `sbatch`, whose script is `body`."""
    folder.mkdir()
    for name, text in (("sbatch", submit), ("scancel", "#!/bin/sh\nkill $1\n")):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


def test_job_refused_by_slurm_is_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    refusal = "#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n"
    monkeypatch.setenv("PATH", slurm(tmp_path / "bin", refusal))
    with pytest.raises(InputError, match=r"Slurm takes no job: sbatch: error: invalid partition; .*jobqueue\.yaml"):
        run(plan(folder, tmp_path / "results", "slurm"))
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_slurm_jobs_run_the_study(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("PATH", slurm(tmp_path / "bin", SBATCH.format(pids=pids)))
    monkeypatch.chdir(tmp_path)
    try:
        outcome = run(plan(folder, tmp_path / "results", "slurm"))
        assert outcome.finished == 12
    finally:
        for pid in pids.read_text(encoding="utf-8").split() if pids.is_file() else []:
            subprocess.run(["kill", pid], check=False, stderr=subprocess.DEVNULL)
