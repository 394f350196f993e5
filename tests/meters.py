"""A meter on this machine, for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Iterator


def served_port() -> Iterator[str]:
    """The port of a meter that listens on loopback until the iterator ends."""
    command = [sys.executable, "-m", "anabranch", "meter", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    # By default the server accepts clients from this machine only.
    assert said.startswith("waiting at 127.0.0.1:")
    yield said.rpartition(":")[2].strip()
    process.terminate()
    process.wait(10)


def measured(port: str, *arguments: str) -> dict[str, Any]:
    """The result of a test with the meter at this port."""
    done = anabranch("meter", "run", "127.0.0.1", "--port", port, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
