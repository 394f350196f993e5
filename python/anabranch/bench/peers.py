"""Compiles and runs a benchmark program of another simulator."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

from anabranch.bench.measure import Speed
from anabranch.errors import InputError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def compiler(simulator: str) -> str:
    """The path of the C++ compiler.

    Raises:
        InputError: If none is installed.

    """
    found = shutil.which("g++")
    if found is None:
        raise InputError(f'the comparison with {simulator} needs a C++ compiler; install the package "g++"')
    return found


def compile_program(simulator: str, command: Sequence[str]) -> None:
    """Compile a program.

    Raises:
        RunFailed: If it does not compile.

    """
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        first = next((line for line in compiled.stderr.splitlines() if "error" in line), "no message")
        raise RunFailed(f"the {simulator} program does not compile: {first}")


def run(simulator: str, name: str, program: Path, *arguments: str) -> Speed:
    """Run a program that prints its costs as a JSON object on the last line.

    Raises:
        RunFailed: If it fails.

    """
    ran = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RunFailed(f"the {simulator} program failed: {ran.stderr.strip() or ran.returncode}")
    found = json.loads(ran.stdout.strip().splitlines()[-1])
    return Speed(
        name=name,
        packets=int(found["packets"]),
        events=int(found["events"]),
        wall_s=float(found["wall_s"]),
        peak_bytes=0,
        goodput_bps=tuple(found["goodput_bps"]),
    )
