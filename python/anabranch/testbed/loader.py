"""Coupled congestion controls for the kernel: the program `anabranch-cc`, which loads them as BPF.

It is a program of its own, so that servers can have it without Python, and so that this package needs no libelf.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache

from anabranch.errors import RunFailed
from anabranch.program import Program

LOADER = Program(
    name="anabranch-cc",
    override="ANABRANCH_CC",
    task="loads congestion controls",
    elsewhere="congestion controls are loaded into Linux",
    crate="kernel",
    needs=" (needs libelf-dev, zlib1g-dev and pkg-config)",
)


def kernel_name(control: str) -> str:
    """What a control of a scenario is called in the kernel, where names of controls in BPF have no hyphens."""
    return control.replace("-", "_")


@cache
def loadable() -> tuple[str, ...]:
    """The controls that could be loaded, as scenarios call them; none if the program is not installed."""
    if LOADER.find() is None:
        return ()
    done = subprocess.run([LOADER.path(), "list", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return ()
    return tuple(json.loads(done.stdout)["available"])


def load(control: str) -> None:
    """Load a control, which stays until it is unloaded or the machine goes down.

    Raises:
        RunFailed: If this machine lacks something, or the kernel refuses.

    """
    done = subprocess.run([LOADER.path(), "load", control], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().removeprefix(f"{LOADER.name}: "))
