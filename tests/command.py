"""Runs the command line and scripts in separate processes."""

from __future__ import annotations

import signal
import subprocess
import sys


def anabranch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `anabranch` with arguments and return its status and output."""
    return subprocess.run(
        [sys.executable, "-m", "anabranch", *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def interrupted(script: str, line: str) -> str:
    """Run a Python script, interrupt it after its first line, which must be `line`, and return its error output."""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{line}\n"
        process.send_signal(signal.SIGINT)
        try:
            _, complaint = process.communicate(timeout=300)
        finally:
            process.kill()
    return complaint
