"""A Dask scheduler and workers as separate processes, as if on separate machines."""

from __future__ import annotations

import socket
import subprocess
import sys


def free_port() -> int:
    """A free TCP port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machines:
    """The processes of a cluster; workers have one thread each."""

    def __init__(self) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.scheduler = self._start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    def _start_scheduler(self) -> subprocess.Popen[bytes]:
        host, port = self.address.removeprefix("tcp://").split(":")
        return _dask("scheduler", "--host", host, "--port", port, "--no-dashboard")

    def add_worker(self) -> None:
        """Start a worker."""
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        self.workers.append(_dask("worker", self.address, "--host", "127.0.0.1", *options))

    def kill_worker(self) -> None:
        """Kill the oldest worker."""
        victim = self.workers.pop(0)
        victim.kill()
        victim.wait()

    def restart_scheduler(self) -> None:
        """Kill the scheduler and start another one at its address; the workers end without it and are restarted."""
        self.scheduler.kill()
        self.scheduler.wait()
        for worker in self.workers:
            worker.kill()
            worker.wait()
        count, self.workers = len(self.workers), []
        self.scheduler = self._start_scheduler()
        for _ in range(count):
            self.add_worker()

    def end(self) -> None:
        """Kill all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def _dask(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
