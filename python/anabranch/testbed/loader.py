"""Coupled congestion controls for the kernel: the program `anabranch-cc`, which loads them as BPF.

It is a program of its own, so that servers can have it without Python, and so that this package needs no libelf.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import Any

from anabranch.errors import RunFailed
from anabranch.program import Program

LOADER = Program(
    name="anabranch-cc",
    override="ANABRANCH_CC",
    task="loads congestion controls",
    elsewhere="congestion controls are loaded into Linux",
    folder="cc",
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
    try:
        return tuple(_list()["available"])
    except RunFailed:
        return ()


def loaded() -> dict[str, int]:
    """The controls that are loaded, and the kernel's numbers of their operations, which change with an exchange.

    Raises:
        RunFailed: If the system does not tell.

    """
    return {control["name"]: control["number"] for control in _list()["loaded"] or ()}


def load(control: str) -> None:
    """Load a control, which stays until it is unloaded or the machine goes down.

    Raises:
        RunFailed: If this machine lacks something, or the kernel refuses.

    """
    _ask("load", control)


def unload(control: str) -> None:
    """Unload a control. Connections that have it keep it.

    Raises:
        RunFailed: If it is not loaded or new connections get it, or the system refuses.

    """
    _ask("unload", control)


def _list() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_ask("list", "--json"))
    return answer


def _ask(*arguments: str) -> str:
    done = subprocess.run([LOADER.path(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().removeprefix(f"{LOADER.name}: "))
    return done.stdout
