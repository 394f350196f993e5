"""Runs the dumbbell scenarios in the installed ns-3, for a comparison on the same machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from anabranch.bench.measure import Speed
from anabranch.errors import InputError, RunFailed

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
    compiler = shutil.which("g++")
    if compiler is None:
        raise InputError('the comparison with ns-3 needs a C++ compiler; install the package "g++"')
    if not Path("/usr/include/ns3/core-module.h").is_file():
        raise InputError('the comparison with ns-3 needs its headers; install the package "libns3-dev"')
    program = folder / "dumbbell"
    command = [
        compiler,
        "-O3",
        "-std=c++17",
        str(SOURCE),
        "-o",
        str(program),
        *(f"-lns3-{m}" for m in MODULES),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        first = next((line for line in compiled.stderr.splitlines() if "error" in line), "no message")
        raise RunFailed(f"the ns-3 program does not compile: {first}")
    return program


def measure(name: str, program: Path, seconds: float = 300.0) -> Speed:
    """Run one of the scenarios of `PROGRAMS` in ns-3.

    Raises:
        RunFailed: If the program fails.

    """
    command = [str(program), *PROGRAMS[name], f"--seconds={seconds:g}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RunFailed(f"the ns-3 program failed: {ran.stderr.strip() or ran.returncode}")
    found = json.loads(ran.stdout)
    return Speed(
        name=name,
        packets=int(found["packets"]),
        events=int(found["events"]),
        wall_s=float(found["wall_s"]),
        peak_bytes=0,
        goodput_bps=tuple(found["goodput_bps"]),
    )


def compare(seconds: float = 300.0) -> dict[str, Speed]:
    """Compile the ns-3 program, run all scenarios and return ns-3's speeds by scenario.

    Raises:
        InputError: If a compiler or ns-3 is not installed.
        RunFailed: If the program does not compile or fails.

    """
    with tempfile.TemporaryDirectory(prefix="anabranch-ns3-") as folder:
        program = build(Path(folder))
        return {name: measure(name, program, seconds) for name in PROGRAMS}
