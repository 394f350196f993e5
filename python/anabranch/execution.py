"""Runs of a scenario, in the simulator or on the kernel of this machine."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from anabranch import simulator, worlds
from anabranch.errors import InputError
from anabranch.results import Result
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.simulator import Capture
    from anabranch.worlds import World


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    trace: str | Path | None = None,
    pcap: str | Path | Capture | None = None,
    check_wire: bool = False,
    trace_changes: bool = False,
    world: World = "sim",
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Run a scenario in the simulator, or on this machine's kernel.

    Args:
        scenario: A scenario, or the path of its file.
        seed: Seed of all random streams, from 0 to 2⁶³ − 1; by default the scenario's own.
        trace: Directory for traces over time, as CSV files.
        pcap: File for a capture of every link end, in pcapng format, or a `Capture` that says more.
        trace_changes: Traces have every change after every event, not only what a look every 10 ms finds; slower.
        check_wire: Encode and re-parse every packet; the result is the same, the run slower.
        world: "sim", or "kernel" for Linux's own TCP and Multipath TCP over an emulated network, in real time; see
            docs/how-to/kernel-world.md.
        progress: Called now and then with the share of the run that is done, 0 to 1.

    Raises:
        InputError: If the scenario or the seed is not valid or a file cannot be written.

    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_file(scenario)
    if not isinstance(pcap, simulator.Capture):
        file = _place("pcap", pcap, "file")
        capture = None if file is None else simulator.Capture(file)
    else:
        capture = pcap
    request = simulator.Request(
        scenario.text,
        scenario.file,
        scenario.overrides,
        # A whole number of numpy, as in a loop over an array, is as good as one of Python's.
        operator.index(seed) if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) else seed,
        _place("trace", trace, "folder"),
        capture,
        check_wire,
        trace_changes,
    )
    return Result(worlds.of(world)(request, progress), trace)


def _place(name: str, place: str | Path | None, kind: str) -> str | None:
    """A file or folder as text."""
    if place is not None and not isinstance(place, str | Path):
        raise InputError(f"{name} is the name of a {kind}, not {place!r}")
    return None if place is None else str(place)
