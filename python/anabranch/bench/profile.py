"""Profiles the simulator by valgrind: `python -m anabranch.bench.profile LIBRARY FOLDER`, which `make profile` calls.

For each scenario it writes instructions and cache misses by function, and heap memory by allocation site; and for
all of them one table.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.bench.instructions import changed, profiled, shortened, under_valgrind
from anabranch.bench.measure import carried, many_flows, scenarios
from anabranch.errors import InputError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._core.simulator import Request
    from anabranch.bench.callgrind import Profile

_PACKET_BYTES = 1500
_MAX_FUNCTIONS = 60  # rows of a table; the rest is below 0.1 %
_MAX_SITES = 25
_MAX_FRAMES = 30  # stack frames of an allocation site
_CRATE_PREFIX = "anabranch_"  # the crates' names begin with it
_ARGUMENT_COUNT = 3


@dataclass(frozen=True)
class Heap:
    """Heap memory that the crates allocate."""

    peak_bytes: int
    """Sum of the largest size of each allocation site: at least the largest total."""
    places: dict[str, int]
    """Largest size by allocation site, bytes."""


def chosen() -> dict[str, Request]:
    """The scenarios, by name."""
    fixed = scenarios()
    return {
        "S1": shortened(fixed["S1"], 5),
        "S3": shortened(fixed["S3"], 5),
        "CMT": shortened(fixed["CMT"], 20),
        "1000-flows": shortened(many_flows(1000), 2),
        "lossy": changed(shortened(fixed["S1"], 20), 'link.bottleneck.loss={ model = "bernoulli", rate = 0.01 }'),
        "ConSN": changed(shortened(fixed["S3"], 5), "flow.F0.scheduler=consn"),
    }


def heap(request: Request, library: Path) -> Heap:
    """Run a scenario under valgrind's heap profiler."""
    with tempfile.TemporaryDirectory(prefix="anabranch-dhat-") as folder:
        out = Path(folder) / "dhat.json"
        under_valgrind(request, library, ("--tool=dhat", f"--dhat-out-file={out}", f"--num-callers={_MAX_FRAMES}"))
        return heap_of(json.loads(out.read_text(encoding="utf-8")))


def heap_of(found: Mapping[str, Any]) -> Heap:
    """The crates' part of an output of the heap profiler."""
    names = [frame.partition(": ")[2] or frame for frame in found["ftbl"]]
    places: Counter[str] = Counter()
    for point in found["pps"]:
        own = next((names[frame] for frame in point["fs"] if _CRATE_PREFIX in names[frame]), None)
        if own is not None:
            places[own] += point["mb"]
    return Heap(places.total(), dict(places.most_common()))


def functions(profile: Profile, packets: int) -> str:
    """Table of the functions with most instructions."""
    total = profile.instructions
    at = {event: i for i, event in enumerate(profile.events)}
    rows = ["instructions/packet   share   D1 misses   LL misses  function"]
    ranked = sorted(profile.functions.items(), key=lambda item: -item[1][at["Ir"]])
    for name, costs in ranked[:_MAX_FUNCTIONS]:
        first, last = (costs[at[r]] + costs[at[w]] for r, w in (("D1mr", "D1mw"), ("DLmr", "DLmw")))
        spent = costs[at["Ir"]]
        rows.append(f"{spent / packets:19.1f} {spent / total:7.1%} {first:11,} {last:11,}  {name}")
    return "\n".join(rows) + "\n"


def measure(name: str, request: Request, library: Path, folder: Path) -> str:
    """Profile a scenario, write its tables, and return its row of the common table."""
    document, profile = profiled(request, library, ("--cache-sim=yes",))
    if not any(_CRATE_PREFIX in function for function in profile.functions):
        raise InputError("the library has no symbols; build it with make profile", str(library))
    packets = carried(document)
    in_flight = sum(p["outstanding_mean_bytes"] for f in document["flows"] for p in f["paths"]) / _PACKET_BYTES
    memory = heap(request, library)
    (folder / f"{name}.functions.txt").write_text(functions(profile, packets), encoding="utf-8")
    places = [f"{size:12,}  {place}" for place, size in list(memory.places.items())[:_MAX_SITES]]
    (folder / f"{name}.heap.txt").write_text("\n".join(["       bytes  place", *places]) + "\n", encoding="utf-8")
    misses = (profile.total("DLmr") + profile.total("DLmw")) / packets
    return (
        f"{name:12} {packets:9,} {profile.instructions / packets:12,.0f} {misses:8.2f} "
        f"{profile.allocations / packets:8.2f} {in_flight:10,.0f} {memory.peak_bytes / max(in_flight, 1):10,.0f}"
    )


def main(arguments: list[str]) -> None:
    """Profile all scenarios.

    Raises:
        InputError: If the arguments or the library are not usable.

    """
    if len(arguments) != _ARGUMENT_COUNT:
        raise InputError("usage: python -m anabranch.bench.profile LIBRARY FOLDER")
    library, folder = Path(arguments[1]).resolve(), Path(arguments[2])
    if not library.is_file():
        raise InputError("no such library; build it with make profile", str(library))
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["scenario       packets instructions LL misses allocations  in flight bytes/packet"]
    rows.append("                          per packet per packet  per packet    packets   in flight")
    for name, request in chosen().items():
        rows.append(measure(name, request, library, folder))
        sys.stderr.write(f"{name} is done\n")
    (folder / "summary.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    try:
        main(sys.argv)
    except (InputError, RunFailed) as error:
        sys.exit(str(error))
