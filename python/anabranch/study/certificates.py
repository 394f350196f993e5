"""Temporary certificates for Dask clusters, so that only their own front end and workers can use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import distributed

from anabranch.errors import InputError

_RESTART_TIMEOUT = "1 h"


class _QuietScheduler(distributed.Scheduler):  # type: ignore[misc]
    """A scheduler without Dask's web server, which listens on port 8787 even where the dashboard is off."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open no port."""


class LocalCluster(distributed.LocalCluster):  # type: ignore[misc]
    """Workers on this machine; the scheduler refuses clients without the certificate of this cluster."""

    def __init__(self, **options: Any) -> None:
        super().__init__(protocol="tls://", security=temporary(), dashboard_address=None, **options)

    async def _start(self) -> None:
        self.scheduler_spec["cls"] = _QuietScheduler
        await super()._start()

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # A worker that died is started again. If that takes longer than this (default 15 s), Dask removes it for good.
        with dask.config.set({"distributed.deploy.lost-worker-timeout": _RESTART_TIMEOUT}):
            super()._update_worker_status(op, msg)


def temporary() -> Any:
    """Certificates in memory for one cluster.

    Raises:
        InputError: If the package that creates certificates is missing.

    """
    try:
        return distributed.Security.temporary()
    except ImportError:
        raise InputError(
            'certificates of a cluster need the package cryptography, which is missing; install "anabranch[cluster]"'
        ) from None


def job_options() -> dict[str, Any]:
    """Return the options of a cluster of jobs: certificates for it, and a web server only if the configuration has one.

    The jobs read their certificate from a folder that they share with this machine, by default the home folder. The
    files have mode 0600 and are removed with the cluster.
    """
    given = dask.config.get("jobqueue.slurm", {})
    asked = given.get("scheduler-options") or {}
    options = {"security": temporary(), "protocol": "tls://", "scheduler_options": asked}
    if "dashboard_address" not in asked:
        options["scheduler_cls"] = _QuietScheduler
        options["scheduler_options"] = {**asked, "dashboard": False}
    if given.get("shared-temp-directory") is None:
        options["shared_temp_directory"] = str(Path.home())
    return options
