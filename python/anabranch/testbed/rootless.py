"""Testbeds without root: the command line restarts in a user namespace, where it may make network namespaces."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from anabranch.errors import InputError

_RESTART_MARK = "ANABRANCH_WITHIN_USER_NAMESPACE"
_USER_MAP = Path("/proc/self/uid_map")
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private")


def restart_in_user_namespace() -> None:
    """Restart the command line in a new user namespace, as of `unshare -rnm`; root needs none.

    Raises:
        InputError: If users may not make user namespaces on this machine.

    """
    if inside():
        _mount_run()
        return
    if os.geteuid() == 0:
        return
    if not shutil.which("unshare"):
        raise InputError(
            "only root may make network namespaces here: unshare (package util-linux) is missing; install it or run as "
            "root"
        )
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        reason = tried.stderr.strip().removeprefix("unshare: ") or "refused"
        raise InputError(
            f"only root may make network namespaces here, because users may not make user namespaces ({reason}); "
            f"run it as root, or see kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns"
        )
    sys.stdout.flush()
    again = [*_UNSHARE, sys.executable, "-m", "anabranch", *sys.argv[1:]]
    os.execvpe(again[0], again, {**os.environ, _RESTART_MARK: "1"})


def inside() -> bool:
    """Whether this process has restarted in a user namespace; false for the machine's root in any environment."""
    return (
        bool(os.environ.get(_RESTART_MARK)) and os.geteuid() == 0 and not _is_all(_USER_MAP.read_text(encoding="ascii"))
    )


def _is_all(users: str) -> bool:
    """Whether a map of user numbers has all numbers, as in the machine's own namespace (user_namespaces(7))."""
    return users.split() == ["0", "0", str(2**32 - 1)]


def _mount_run() -> None:
    """Mount a private /run for the names of the process's network namespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/run", b"tmpfs", 0, None) != 0:
        number = ctypes.get_errno()
        raise InputError(f"this user namespace cannot mount a private /run: {os.strerror(number)}; run it as root")
