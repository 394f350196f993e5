"""The interface of pools, which carry out the runs of a study.

A pool takes requests with a ticket each and returns outcomes with their tickets, in the order in which they end.
`anabranch.study.local` has the pool of this machine, `anabranch.study.cluster` those of more than one machine.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from typing import TYPE_CHECKING, Protocol

from anabranch.errors import InputError
from anabranch.extras import missing

if TYPE_CHECKING:
    from anabranch._core.simulator import Request
    from anabranch.study.worker import Outcome

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")


def check_place(place: str) -> None:
    """Check that a study can run on a cluster.

    Raises:
        InputError: If the cluster is unknown, or a package or program that it needs is missing.

    """
    if place not in ("dask", "slurm") and not _is_address(place):
        raise InputError(
            f'unknown cluster "{place}"; write dask, slurm, or the address of a Dask scheduler such '
            "as tcp://10.0.0.1:8786"
        )
    for package in ("distributed", "dask_jobqueue") if place == "slurm" else ("distributed",):
        if importlib.util.find_spec(package) is None:
            raise InputError(missing("cluster", package, f"--on {place}"))
    if place == "slurm" and shutil.which("sbatch") is None:
        raise InputError("--on slurm needs sbatch, which is not here; run the command on a machine that submits jobs")


def _is_address(place: str) -> bool:
    """Whether a text may be the address of a scheduler. A port is required, because Dask has no default."""
    found = _ADDRESS.fullmatch(place)
    return found is not None and int(found["port"]) in range(1, 65_536)


class Pool(Protocol):
    """Carries out runs."""

    @property
    def capacity(self) -> int:
        """Number of submitted runs that keeps all its workers busy until the next `take`."""

    def submit(self, ticket: int, request: Request) -> None:
        """Accept a run. No two unfinished runs have the same ticket."""

    def take(self, timeout_s: float) -> list[tuple[int, Outcome]]:
        """Wait at most `timeout_s` for a run to end, and return all that have ended.

        Raises:
            RunFailed: If there is no worker left.

        """

    def under_way(self) -> dict[int, float]:
        """Time since the start of each running run, seconds, by its ticket; empty if the pool does not know."""

    def skip(self, ticket: int, reason: str) -> None:
        """End a running run; its outcome is a failure for this reason."""

    def stop(self) -> None:
        """Start no further run. The outcome of each run that has not started has `begun = False`."""

    def kill(self) -> None:
        """End at once, with all unfinished runs."""

    def close(self) -> None:
        """Release the workers after all runs have ended."""
