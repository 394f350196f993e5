"""Runs of a scenario, in the simulator, in user space or on the kernel of this machine."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from anabranch._core import simulator, worlds
from anabranch.errors import InputError
from anabranch.logs import logger
from anabranch.results import Result
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch._core.simulator import Capture
    from anabranch._core.worlds import World

_LOG = logger(__name__)


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    trace: str | Path | None = None,
    pcap: str | Path | Capture | None = None,
    check_wire: bool = False,
    trace_changes: bool = False,
    world: World = "sim",
    record: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Run a scenario in the simulator, in user space or on the kernel of this machine.

    Args:
        scenario: A scenario, or the path of its file.
        seed: Seed of all random streams, from 0 to 2⁶³ − 1; by default the scenario's own.
        trace: Folder for traces over time, as CSV files.
        pcap: File for a pcapng capture of all link ends, or a `Capture` to select ends, flows and bytes per packet.
        check_wire: Encode and re-parse every packet. The result is the same; the run is slower.
        trace_changes: Trace all changes after every event instead of sampling every 10 ms. The run is slower.
        world: "sim" for the simulator; "user" for its protocols in real time, on serialised packets (see
            docs/reference/user-world.md); "kernel" for Linux's own TCP and Multipath TCP over an emulated network, in
            real time (see docs/how-to/kernel-world.md).
        record: File for a recording of a run in the world "user", for `anabranch replay` (see
            docs/reference/recordings.md).
        progress: Function that is called several times during the run with the finished share, 0 to 1.

    Returns:
        The result of the run.

    Raises:
        InputError: If the scenario, the seed or another argument is not valid, the kernel lacks a feature that the
            scenario needs, or a file cannot be written.
        RunFailed: If the disk is full, or the system refuses a step of a run on the kernel.

    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_file(scenario)
    request = request_of(
        scenario, seed=seed, trace=trace, pcap=pcap, check_wire=check_wire, trace_changes=trace_changes, record=record
    )
    document = worlds.of(world)(request, progress)
    _LOG.debug("run: %s, world %s, seed %s, %.3f s", scenario.file, world, document["seed"], document["wall_s"])
    return Result(document, trace)


def request_of(
    scenario: Scenario,
    *,
    seed: int | None,
    trace: str | Path | None,
    pcap: str | Path | Capture | None,
    check_wire: bool = False,
    trace_changes: bool = False,
    record: str | Path | None = None,
) -> simulator.Request:
    """The request of a run with arguments as of `run`.

    Raises:
        InputError: If the name of a file or folder is not text.

    """
    if not isinstance(pcap, simulator.Capture):
        file = _place("pcap", pcap, "file")
        capture = None if file is None else simulator.Capture(file)
    else:
        capture = pcap
    return simulator.Request(
        scenario.text,
        scenario.file,
        scenario.overrides,
        # Integers of numpy, as from a loop over an array, are valid seeds too.
        operator.index(seed) if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) else seed,
        _place("trace", trace, "folder"),
        capture,
        check_wire,
        trace_changes,
        _place("record", record, "file"),
    )


def run_all(
    scenarios: Sequence[Scenario], *, reps: int = 10, seed: int = 1, jobs: int = 1, world: World = "sim"
) -> list[list[Result]]:
    """Run several scenarios with the same seeds, several runs at a time.

    Args:
        scenarios: The scenarios, for instance one for each point of a grid (`cross`).
        reps: Number of runs of each scenario.
        seed: Seed of the first run; the others follow.
        jobs: Number of worker processes. With two or more, a script needs `if __name__ == "__main__"` around its calls.
        world: World of the runs, as for `run`; runs in real time take place one at a time.

    Returns:
        The results of each scenario, in the order of the seeds. They do not depend on `jobs`.

    Raises:
        InputError: If a scenario or another argument is not valid.
        RunFailed: If a run fails.

    """
    from anabranch.comparison import runs
    from anabranch.study.engine import Silent

    for scenario in scenarios:
        if not isinstance(scenario, Scenario):
            raise InputError(f"scenarios must be a list of scenarios, but contains {scenario!r}")
    if not scenarios:
        return []
    variants = [runs.Variant(scenario.file, scenario) for scenario in scenarios]
    found = runs.run_all(variants, runs.Plan(reps, seed, jobs, world), Silent())
    return [[Result(document) for document in documents] for documents in found]


def _place(name: str, place: str | Path | None, kind: str) -> str | None:
    """The path of a file or folder as text; None stays None.

    Raises:
        InputError: If `place` is no path.

    """
    if place is not None and not isinstance(place, str | Path):
        raise InputError(f"{name} must be the name of a {kind}, not {place!r}")
    return None if place is None else str(place)
