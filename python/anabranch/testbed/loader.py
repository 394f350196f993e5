"""Calls the program `anabranch-cc`, which loads coupled congestion controls into the kernel as BPF.

The program is separate: servers can use it without Python, and this package does not need libelf.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import TypedDict

from anabranch._core.program import Program
from anabranch.errors import RunFailed

LOADER = Program(
    name="anabranch-cc",
    override="ANABRANCH_CC",
    task="loads congestion controls",
    elsewhere="congestion controls can be loaded on Linux only",
    folder="cc",
    needs=" (needs libelf-dev, zlib1g-dev and pkg-config)",
)


def kernel_name(control: str) -> str:
    """The kernel's name of a scenario's control; names in BPF have no hyphens."""
    return control.replace("-", "_")


@cache
def loadable() -> tuple[str, ...]:
    """The controls that the program can load, by their names in scenarios; empty if it is not installed."""
    if LOADER.find() is None:
        return ()
    try:
        return tuple(_list()["available"])
    except RunFailed:
        return ()


def loaded() -> dict[str, int]:
    """The loaded controls and the kernel's numbers of their operations; an exchange of the operations changes them.

    Raises:
        RunFailed: If the program cannot list them.

    """
    return {control["name"]: control["number"] for control in _list()["loaded"] or ()}


def load(control: str) -> None:
    """Load a control; it stays until it is unloaded or the machine shuts down.

    Raises:
        RunFailed: If this machine lacks a requirement or the kernel refuses.

    """
    _ask("load", control)


def unload(control: str) -> None:
    """Unload a control; existing connections keep it.

    Raises:
        RunFailed: If the control is not loaded, is the default of new connections, or the system refuses.

    """
    _ask("unload", control)


class _Loaded(TypedDict):
    name: str
    number: int


class _Listed(TypedDict):
    available: list[str]
    loaded: list[_Loaded] | None


def _list() -> _Listed:
    answer: _Listed = json.loads(_ask("list", "--json"))
    return answer


def _ask(*arguments: str) -> str:
    done = subprocess.run([LOADER.path(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().removeprefix(f"{LOADER.name}: "))
    return done.stdout
