"""Testbeds without root: the command line begins again in a user namespace, where it may make networks of its own."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from anabranch.errors import InputError

_AGAIN = "ANABRANCH_WITHIN_USER_NAMESPACE"
_USERS = Path("/proc/self/uid_map")
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private")


def help_yourself() -> None:
    """Return at once to root. For anybody else, begin again in a user namespace, as `unshare -rnm` makes one.

    Raises:
        InputError: If this machine lets users make none.

    """
    if inside():
        _own_run()
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
            f"only root may make network namespaces here, because users may make no user namespaces ({reason}); "
            f"run it as root, or see kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns"
        )
    sys.stdout.flush()
    again = [*_UNSHARE, sys.executable, "-m", "anabranch", *sys.argv[1:]]
    os.execvpe(again[0], again, {**os.environ, _AGAIN: "1"})


def inside() -> bool:
    """Whether this process has begun again in a user namespace, and is not the machine's root with its environment."""
    return bool(os.environ.get(_AGAIN)) and os.geteuid() == 0 and not _is_all(_USERS.read_text(encoding="ascii"))


def _is_all(users: str) -> bool:
    """Whether a map of user numbers is that of the machine's own namespace, which has all (user_namespaces(7))."""
    return users.split() == ["0", "0", str(2**32 - 1)]


def _own_run() -> None:
    """Give the process a /run of its own, where the names of its namespaces are kept."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/run", b"tmpfs", 0, None) != 0:
        number = ctypes.get_errno()
        raise InputError(f"this user namespace cannot have a /run of its own: {os.strerror(number)}; run it as root")
