"""Counts instructions and allocations of the simulator under valgrind, and compares them with stored counts.

Counts hardly depend on the machine's load: a growth of 2 % shows in a run of a few seconds. They depend on the
compiler, its settings and the processor, so stored counts contain all three.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import Request, build_kind, native_file
from anabranch.bench.callgrind import Profile, read
from anabranch.bench.measure import carried, many_flows, scenarios
from anabranch.errors import InputError, RunFailed, not_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch._core.document import Document

FORMAT = 1
"""Version of the file with stored counts."""
MAX_GROWTH = 0.02
"""Largest accepted growth of the instructions per packet, as a share of the stored ones."""


@dataclass(frozen=True)
class Count:
    """Cost of a scenario, inside the native module and the functions of the C library that it calls."""

    name: str
    packets: int
    """Packets that the bottleneck carried in the direction of the data."""
    instructions: int
    allocations: int

    @property
    def per_packet(self) -> float:
        """Instructions per packet carried by the bottleneck."""
        return self.instructions / self.packets


@dataclass(frozen=True)
class Comparison:
    """The count of a scenario and its stored instructions per packet."""

    count: Count
    stored: float

    @property
    def growth(self) -> float:
        """Growth of the instructions per packet, as a share of the stored ones."""
        return self.count.per_packet / self.stored - 1.0

    @property
    def is_met(self) -> bool:
        """Whether the growth is at most `MAX_GROWTH`."""
        return self.growth <= MAX_GROWTH


def guarded() -> dict[str, Request]:
    """The scenarios of the comparison, by name: short, because valgrind runs them about fifty times slower."""
    fixed = scenarios()
    return {
        "S1": shortened(fixed["S1"], 2),
        "S3": shortened(fixed["S3"], 2),
        "CMT": shortened(fixed["CMT"], 5),
        "50 flows": shortened(many_flows(50), 1.2),
    }


def shortened(request: Request, seconds: float) -> Request:
    """A scenario with another duration."""
    return changed(request, f'duration="{seconds:g} s"')


def changed(request: Request, setting: str) -> Request:
    """A scenario with another setting."""
    return dataclasses.replace(request, overrides=(*request.overrides, setting))


def count(name: str, request: Request) -> Count:
    """Count the instructions of a scenario.

    Raises:
        InputError: If valgrind is not installed.
        RunFailed: If the run fails.

    """
    document, profile = profiled(request, native_file())
    return Count(name, carried(document), profile.instructions, profile.allocations)


def profiled(request: Request, library: Path, options: Sequence[str] = ()) -> tuple[Document, Profile]:
    """Run a scenario under callgrind, with the native module of a library file, and return its result and profile.

    Raises:
        InputError: If valgrind is not installed.
        RunFailed: If the run fails.

    """
    with tempfile.TemporaryDirectory(prefix="anabranch-callgrind-") as folder:
        out = Path(folder) / "callgrind.out"
        options = ("--tool=callgrind", f"--callgrind-out-file={out}", *options)
        document = under_valgrind(request, library, options)
        return document, read(out, library)


def under_valgrind(request: Request, library: Path, options: Sequence[str]) -> Document:
    """Run a scenario in a process under valgrind and return its result.

    Raises:
        InputError: If valgrind is not installed.
        RunFailed: If the run fails.

    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise InputError('counting instructions needs valgrind; install the package "valgrind"')
    command = [valgrind, "--quiet", *options, sys.executable, "-m", "anabranch.bench.single", str(library)]
    asked = {"scenario": request.scenario, "file": request.file, "overrides": request.overrides}
    ran = subprocess.run(
        command,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    if ran.returncode != 0:
        lines = ran.stderr.strip().splitlines()
        raise RunFailed(f"{request.file}: the run under valgrind failed: {lines[-1] if lines else ran.returncode}")
    document: Document = json.loads(ran.stdout)
    return document


def environment() -> str | None:
    """Rust compiler and processor, by its model and a checksum of its features; `None` without a compiler.

    The C library chooses its functions by the features of the processor, so counts depend on both.
    """
    rustc = shutil.which("rustc")
    if rustc is None:
        return None
    version = subprocess.run([rustc, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    with suppress(OSError):
        lines = dict(
            re.findall(r"^(model name|flags)\s*: (.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        )
        if lines:
            version += f", {lines.get('model name')} {zlib.crc32(lines.get('flags', '').encode()):08x}"
    return version or None


def store(file: Path, counts: Sequence[Count]) -> None:
    """Write counts as those of this build; counts of other builds in the file stay.

    Raises:
        InputError: If the file cannot be written or has another content.
        RunFailed: If the disk is full.

    """
    builds = _builds(file) if file.exists() else {}
    costs = {c.name: {"packets": c.packets, "instructions": c.instructions} for c in counts}
    builds[build_kind()] = {"environment": environment(), "scenarios": costs}
    text = json.dumps({"format": FORMAT, "builds": dict(sorted(builds.items()))}, indent=2) + "\n"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise not_written(f"cannot write the counts: {error.strerror}", error, str(file)) from None


@dataclass(frozen=True)
class Stored:
    """Stored counts of a build."""

    environment: str | None
    per_packet: dict[str, float]
    """Instructions per packet by scenario."""


def stored(file: Path) -> Stored | None:
    """The counts that a file has for this build; `None` if it has none.

    Raises:
        InputError: If the file cannot be read or is not a file with counts.

    """
    build = _builds(file).get(build_kind())
    if build is None:
        return None
    try:
        costs = {name: c["instructions"] / c["packets"] for name, c in build["scenarios"].items()}
        return Stored(build["environment"], costs)
    except (AttributeError, KeyError, TypeError, ZeroDivisionError):
        raise InputError(f'"builds.{build_kind()}" has not the form that --write-baseline writes', str(file)) from None


def compare(counts: Sequence[Count], known: Stored) -> list[Comparison]:
    """Compare counts with stored ones of the same scenarios; scenarios without stored counts are left out."""
    return [Comparison(c, known.per_packet[c.name]) for c in counts if c.name in known.per_packet]


def _builds(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}; write it with --write-baseline", str(file)) from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("builds"), dict):
        raise InputError("no file with instruction counts; write one with --write-baseline", str(file))
    return dict(found["builds"])
