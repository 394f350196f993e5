"""Runs the command line in a separate process."""

from __future__ import annotations

import subprocess
import sys


def anabranch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `anabranch` with arguments and return its status and output."""
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *arguments], capture_output=True, text=True, check=False, timeout=300
    )
