"""Coupled congestion controls for the kernel: the program `anabranch-cc`, which loads them as BPF.

It is a program of its own, so that servers can have it without Python, and so that this package needs no libelf.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from anabranch.errors import InputError, RunFailed

PROGRAM = "anabranch-cc"

_OVERRIDE = "ANABRANCH_CC"
"""Environment variable that names another program to load with."""


def kernel_name(control: str) -> str:
    """What a control of a scenario is called in the kernel, where names of controls in BPF have no hyphens."""
    return control.replace("-", "_")


def find() -> Path | None:
    """The program, beside this interpreter or on the path; `None` if it is not installed."""
    if os.environ.get(_OVERRIDE):
        return Path(os.environ[_OVERRIDE])
    beside = Path(sys.executable).parent / PROGRAM
    if beside.exists():
        return beside
    found = shutil.which(PROGRAM)
    return Path(found) if found else None


def path() -> Path:
    """The program.

    Raises:
        InputError: If it is not installed, with how to get it, or what is named instead is no program.

    """
    if platform.system() != "Linux":
        raise InputError("congestion controls are loaded into Linux")
    found = find()
    if found is not None and not (found.is_file() and os.access(found, os.X_OK)):
        named = f"{_OVERRIDE} names {found}, which" if os.environ.get(_OVERRIDE) else str(found)
        raise InputError(f"{named} is no program that can be run")
    if found is None:
        raise InputError(
            f"the program {PROGRAM}, which loads congestion controls, is not installed; build it with: make build "
            f"(needs libelf-dev, zlib1g-dev and pkg-config), or: cargo install --path crates/kernel"
        )
    return found


@cache
def loadable() -> tuple[str, ...]:
    """The controls that could be loaded, as scenarios call them; none if the program is not installed."""
    if find() is None:
        return ()
    done = subprocess.run([path(), "list", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return ()
    return tuple(json.loads(done.stdout)["available"])


def load(control: str) -> None:
    """Load a control, which stays until it is unloaded or the machine goes down.

    Raises:
        RunFailed: If this machine lacks something, or the kernel refuses.

    """
    done = subprocess.run([path(), "load", control], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().removeprefix(f"{PROGRAM}: "))
