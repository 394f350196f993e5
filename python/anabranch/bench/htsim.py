"""Runs scenario S1 in a copy of htsim, in turns with our own simulator.

htsim has neither headers nor selective acknowledgements nor delayed ones: its flows do less per packet.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.bench import measure
from anabranch.bench.instructions import shortened
from anabranch.bench.peers import compile_program, compiler, run
from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.bench.measure import Speed

SOURCE = Path(__file__).parent / "htsim" / "dumbbell.cpp"
SCENARIO = "S1"
_HEADERS = ("eventlist.h", "network.h", "pipe.h", "queue.h", "tcp.h")
_LIBRARY = "libhtsim.a"


def build(copy: Path, folder: Path) -> Path:
    """Compile our program against a copy of htsim into a folder and return its path.

    Args:
        copy: Folder with the copy, or its folder `sim`; its library has been built.
        folder: Folder for the program.

    Raises:
        InputError: If the folder is not such a copy, or there is no compiler.
        RunFailed: If the program does not compile.

    """
    sources = _sources(copy)
    program = folder / "dumbbell"
    command = [compiler("htsim"), "-O3", "-std=c++17", f"-I{sources}", str(SOURCE), str(sources / _LIBRARY)]
    compile_program("htsim", [*command, "-o", str(program)])
    return program


def _sources(copy: Path) -> Path:
    """The folder with headers and library."""
    if not copy.is_dir():
        raise InputError("--htsim needs the folder of a copy of htsim; there is no such folder", str(copy))
    for found in (copy, copy / "sim"):
        if all((found / header).is_file() for header in _HEADERS):
            if not (found / _LIBRARY).is_file():
                raise InputError(f"{_LIBRARY} is missing; build htsim there first, as its README describes", str(found))
            return found.resolve()
    raise InputError(f"no copy of htsim: {_HEADERS[0]} is neither there nor in its folder sim", str(copy))


def compare(copy: Path, repetitions: int, seconds: float = 300.0) -> tuple[Speed, Speed]:
    """Run the scenario in both simulators by turns; returns our speed and that of htsim, medians.

    Raises:
        InputError: If the folder is not a copy of htsim, or there is no compiler.
        RunFailed: If the program does not compile, or a run fails.

    """
    request = shortened(measure.scenarios()[SCENARIO], seconds)
    with tempfile.TemporaryDirectory(prefix="anabranch-htsim-") as folder:
        program = build(copy, Path(folder))
        turns = [
            (measure.measure(SCENARIO, request, 1), run("htsim", SCENARIO, program, f"{seconds:g}"))
            for _ in range(repetitions)
        ]
    ours, theirs = zip(*turns, strict=True)
    return _median(ours), _median(theirs)


def _median(speeds: Sequence[Speed]) -> Speed:
    """The speed with medians of time and memory; all else is the same in each run."""
    wall_s = statistics.median([speed.wall_s for speed in speeds])
    peak_bytes = int(statistics.median([speed.peak_bytes for speed in speeds]))
    return dataclasses.replace(speeds[0], wall_s=wall_s, peak_bytes=peak_bytes)
