"""Requirements of tests on the machine that runs them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

WITHOUT_MPTCP = "" if Path("/proc/sys/net/mptcp/enabled").exists() else "this kernel has no Multipath TCP"
"""Reason to skip a test with Multipath TCP of the kernel; empty if it has that."""
PACKAGES = {"ip": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux", "unshare": "util-linux"}


def missing(*tools: str) -> str:
    """Reason to skip a test because testbeds or these programs are unavailable; `None` if they are available."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return ", ".join(f"{tool} (package {PACKAGES[tool]}) is missing" for tool in tools if not shutil.which(tool))
