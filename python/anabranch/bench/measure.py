"""Measures the simulator: packets carried by the bottleneck per wall second, events per second, memory.

Each measurement runs in a new process: its memory is measured alone, and it starts with cold caches.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import resource
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core.simulator import Request, simulate
from anabranch.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch._core.document import Document

BOTTLENECK = "bottleneck"
SCALE_FLOWS = (2, 10, 100, 1000)
_FLOW_SECONDS = 300.0 * 2  # simulated seconds of each measurement times its number of flows
_MIN_SECONDS = 10.0  # slow start and its losses, two seconds, remain a small part of each measurement


@dataclass(frozen=True)
class Speed:
    """Cost of a benchmark scenario; medians over repetitions."""

    name: str
    packets: int
    """Packets that the bottleneck carried in the direction of the data."""
    events: int
    wall_s: float
    peak_bytes: int
    """Growth of the process's peak resident size during the run, bytes."""
    goodput_bps: tuple[float, ...]

    @property
    def packets_per_s(self) -> float:
        """Packets carried by the bottleneck per wall second."""
        return self.packets / self.wall_s

    @property
    def events_per_s(self) -> float:
        """Events per wall second."""
        return self.events / self.wall_s

    @property
    def cost_ns(self) -> float:
        """Wall nanoseconds per packet carried by the bottleneck."""
        return 1e9 * self.wall_s / self.packets


def scenarios() -> dict[str, Request]:
    """The fixed scenarios, by name."""
    folder = Path(__file__).parent / "scenarios"
    return {
        path.stem.upper(): Request(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(folder.glob("*.toml"))
    }


def many_flows(flows: int) -> Request:
    """Many flows over a bottleneck of 10 Mbit/s per flow; more flows are simulated for a shorter time."""
    duration = max(_MIN_SECONDS, _FLOW_SECONDS / flows)
    links = [_link(BOTTLENECK, "R1", "R2", f"{10 * flows} Mbit/s", "10 ms", 25 * flows)]
    parts = [f'title = "{flows} flows"\nduration = "{duration:g} s"\nwarmup = "0 s"\n']
    for i in range(flows):
        links.append(_link(f"S{i}", f"source{i}", "R1", "100 Mbit/s", "1 ms", 1000))
        links.append(_link(f"D{i}", "R2", f"sink{i}", "100 Mbit/s", "1 ms", 1000))
        parts.append(
            f'[[flow]]\nname = "F{i}"\nfrom = "source{i}"\nto = "sink{i}"\nprotocol = "tcp"\nrecovery = "sack"\n'
            'congestion = "reno"\n'
            f'start = "{i * 1000.0 / flows:.3f} ms"\nworkload = {{ kind = "saturated" }}\n'
        )
    return Request("\n".join([parts[0], *links, *parts[1:]]), f"{flows} flows")


def measure(name: str, request: Request, repetitions: int) -> Speed:
    """Run a scenario several times, one after the other; times and memory are medians.

    Raises:
        RunFailed: If the process of a run dies.

    """
    results = [_in_own_process(request) for _ in range(repetitions)]
    document = results[0][0]
    return Speed(
        name=name,
        packets=carried(document),
        events=document["events"] or 0,
        wall_s=statistics.median([d["wall_s"] for d, _ in results]),
        peak_bytes=int(statistics.median([float(peak) for _, peak in results])),
        goodput_bps=tuple(flow["goodput_bps"] for flow in document["flows"]),
    )


def spread(speeds: Sequence[Speed]) -> float:
    """Largest cost per packet of a scenario relative to the smallest, minus 1."""
    costs = [s.cost_ns for s in speeds]
    return max(costs) / min(costs) - 1.0


def carried(document: Document) -> int:
    """Packets in the busier direction of the bottleneck, or on all links if no link has that name."""
    named = [link for link in document["links"] if link["name"] == BOTTLENECK]
    if named:
        return max(int(link["packets"]) for link in named)
    return sum(int(link["packets"]) for link in document["links"] if link["direction"] == "forward")


def _in_own_process(request: Request) -> tuple[Document, int]:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(_run, request).result()
        except concurrent.futures.process.BrokenProcessPool:
            raise RunFailed(f"{request.file}: the process died, perhaps for lack of memory") from None


def _run(request: Request) -> tuple[Document, int]:
    before = _resident()
    document = simulate(request)
    return document, max(0, peak_bytes() - before)


def _resident() -> int:
    """Resident size of this process, bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def peak_bytes() -> int:
    """Peak resident size of this process, bytes (Linux reports KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _link(name: str, a: str, b: str, rate: str, delay: str, queue: int) -> str:
    return (
        f'[[link]]\nname = "{name}"\nbetween = ["{a}", "{b}"]\nrate = "{rate}"\ndelay = "{delay}"\n'
        f'queue = {{ kind = "fifo", limit = "{queue} packets" }}\n'
    )
