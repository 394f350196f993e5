"""Runs the dumbbell scenarios in the installed ns-3, for a comparison on the same machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.bench.peers import compile_program, compiler, run
from anabranch.errors import InputError

if TYPE_CHECKING:
    from anabranch.bench.measure import Speed

SOURCE = Path(__file__).parent / "ns3" / "dumbbell.cc"
MODULES = (
    "core",
    "network",
    "internet",
    "point-to-point",
    "applications",
    "traffic-control",
    "bridge",
    "stats",
)
PROGRAMS = {"S1": ("--rate=100", "--queue=100"), "S2": ("--rate=10", "--queue=50")}


def build(folder: Path) -> Path:
    """Compile the ns-3 program into a folder and return its path.

    Raises:
        InputError: If a compiler or ns-3 is not installed.
        RunFailed: If the program does not compile.

    """
    gxx = compiler("ns-3")
    if not Path("/usr/include/ns3/core-module.h").is_file():
        raise InputError('the comparison with ns-3 needs its headers; install the package "libns3-dev"')
    program = folder / "dumbbell"
    command = [
        gxx,
        "-O3",
        "-std=c++17",
        str(SOURCE),
        "-o",
        str(program),
        *(f"-lns3-{m}" for m in MODULES),
    ]
    compile_program("ns-3", command)
    return program


def measure(name: str, program: Path, seconds: float = 300.0) -> Speed:
    """Run one of the scenarios of `PROGRAMS` in ns-3.

    Raises:
        RunFailed: If the program fails.

    """
    return run("ns-3", name, program, *PROGRAMS[name], f"--seconds={seconds:g}")


def compare(seconds: float = 300.0) -> dict[str, Speed]:
    """Compile the ns-3 program, run all scenarios and return ns-3's speeds by scenario.

    Raises:
        InputError: If a compiler or ns-3 is not installed.
        RunFailed: If the program does not compile or fails.

    """
    with tempfile.TemporaryDirectory(prefix="anabranch-ns3-") as folder:
        program = build(Path(folder))
        return {name: measure(name, program, seconds) for name in PROGRAMS}
