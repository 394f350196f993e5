"""A double of the simulator for tests of the layers above it: shares a capacity by simple arithmetic.

It reads only the keys of the tests' scenario and is as reproducible as the real one: the result depends on scenario,
settings and seed alone.

"""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anabranch.errors import InputError
from anabranch.study.layout import parts

if TYPE_CHECKING:
    from anabranch._core.document import Document
    from anabranch._core.simulator import Request


def simulate(request: Request) -> Document:
    """Two flows share `link.bottleneck.rate` with a little noise from the seed."""
    settings = _settings(request)
    seed = request.seed or 0
    draw = random.Random(seed)
    capacity = float(str(settings.get("link.bottleneck.rate", "10 Mbit/s")).split()[0]) * 1e6
    if capacity < 0:
        raise InputError("a rate cannot be negative", request.file, 3)
    share = 0.5 + 0.05 * draw.random()
    flows = [_flow("F0", capacity * share, draw), _flow("F1", capacity * (0.97 - share), draw)]
    if request.trace is not None:
        _write_traces(Path(request.trace), draw)
    text = json.dumps([request.scenario, request.overrides, seed, flows])
    document: Document = completed({
        "title": "Double", "seed": seed, "version": "0.0.0", "digest": hashlib.sha256(text.encode()).hexdigest()[:16],
        "events": 1000, "wall_s": 0.01, "jain": 0.99, "warmup_s": 2.0, "duration_s": 20.0,
        "flows": flows, "links": [_link(capacity)],
    }, "RunResult")  # fmt: skip
    return document


def slow(request: Request) -> Document:
    """Like `simulate`, but slower; each run that starts writes a marker file."""
    with Path(os.environ["FAKE_MARKS"]).open("a", encoding="utf-8") as marks:
        marks.write(f"{request.seed}\n")
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0.05")))
    return simulate(request)


def broken(request: Request) -> Document:
    """`simulate`, but every second seed fails."""
    if (request.seed or 0) % 2:
        raise RuntimeError("out of luck")
    return simulate(request)


def sometimes_recovering(request: Request) -> Document:
    """`simulate`, but with some seeds flows recover in 2 s, and with the others they never recover."""
    document = simulate(request)
    for flow in document["flows"]:
        flow["recovery_s"] = cast("float", 2.0 if (request.seed or 0) % 2 else None)
    return document


def other(request: Request) -> Document:
    """`simulate`, but with another digest."""
    return {**simulate(request), "digest": "other"}


def dying(_: Request) -> Document:
    """Kills the whole worker process."""
    os._exit(3)


def dying_on_one(request: Request) -> Document:
    """`simulate`, but one seed kills the whole worker process."""
    return dying(request) if str(request.seed) == os.environ["FAKE_VICTIM"] else simulate(request)


def dying_with_neighbour(request: Request) -> Document:
    """`simulate`, but one seed kills the worker process, at first together with the other run of its worker."""
    begun = Path(os.environ["FAKE_MARKS"])
    if str(request.seed) == os.environ["FAKE_VICTIM"]:
        while not begun.exists():
            time.sleep(0.001)
        return dying(request)
    if not begun.exists():
        begun.touch()
        threading.Event().wait()
    return simulate(request)


def dying_with_result(request: Request) -> Document:
    """`slow`, but the first worker dies when its result is fetched."""
    marks = Path(os.environ["FAKE_MARKS"])
    slow(request)
    if marks.read_text(encoding="utf-8").count("\n") == 1:
        return cast("Document", {"result": Unfetchable()})
    while not marks.with_suffix(".go").exists():
        time.sleep(0.001)
    return simulate(request)


class Unfetchable:
    """A result that ends each process that pickles it."""

    def __reduce__(self) -> Any:
        os._exit(3)


def hanging_on_one(request: Request) -> Document:
    """`simulate`, but the run of one seed never ends."""
    while str(request.seed) == os.environ["FAKE_VICTIM"]:
        time.sleep(1.0)
    return simulate(request)


def greedy_on_one(request: Request) -> Document:
    """`simulate`, but the run of one seed allocates memory without limit."""
    taken = []
    while str(request.seed) == os.environ["FAKE_VICTIM"]:
        taken.append(b"x" * 1_000_000)
        time.sleep(0.001)
    return simulate(request)


class Unloadable:
    """A backend that ends each process that unpickles it."""

    def __call__(self, request: Request) -> Document:
        return simulate(request)

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return os._exit, (3,)


def completed(table: dict[str, Any], part: str) -> Any:
    """A part of a result with every other key of the layout at a neutral value."""
    defaults = {"f64": 0.0, "u64": 0, "u32": 1, "u16": 1, "String": "", "bool": False}
    whole: dict[str, Any] = {}
    for name, key in parts()[part].items():
        value = table.get(name)
        if name in table and key.type in parts() and value is not None:
            whole[name] = completed(value, key.type)
        elif name in table and key.kind.startswith("Vec<") and key.kind[4:-1] in parts():
            whole[name] = [completed(item, key.kind[4:-1]) for item in table[name]]
        elif name in table:
            whole[name] = value
        elif not key.may_be_absent:
            whole[name] = None if key.kind.startswith("Option<") else _neutral(key.type, defaults)
    assert not table.keys() - whole.keys(), f"unknown keys of {part}"
    return whole


def _neutral(kind: str, defaults: dict[str, Any]) -> Any:
    if kind in defaults:
        return defaults[kind]
    if kind in parts():
        return completed({}, kind)
    return {} if kind.startswith("BTreeMap<") else []


def _settings(request: Request) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for override in request.overrides:
        key, _, value = override.partition("=")
        settings[key] = tomllib.loads(f"v = {value}")["v"]
    return settings


def _flow(name: str, goodput: float, draw: random.Random) -> dict[str, Any]:
    paths = [
        {"name": path, "goodput_bps": goodput / 2, "throughput_bps": goodput / 1.9, "timeouts": 0, "srtt_mean_s": 0.02,
         "data_packets": int(goodput / 12000), "retransmissions": draw.randrange(50), "reinjections": 0,
         "cwnd_mean_bytes": 20000.0, "links": ["bottleneck"], "packets": int(goodput / 12000)}
        for path in ("A", "B")
    ]  # fmt: skip
    return {
        "name": name, "protocol": "mptcp", "congestion": "lia", "goodput_bps": goodput, "paths": paths,
        "throughput_bps": goodput / 0.95, "delivered_bytes": int(goodput), "blocked_s": {"send-buffer": 0.0},
        "fallback": False,
        "delivery_delay_s": {"mean": 0.02, "p50": 0.02, "p95": 0.03, "p99": 0.04},
    }  # fmt: skip


def _link(capacity: float) -> dict[str, Any]:
    return {
        "name": "bottleneck", "direction": "forward", "packets": int(capacity / 12000), "utilisation": 0.97,
        "drops": 12, "drops_by_cause": {"queue": 12}, "occupancy": {"mean": 20.0, "max": 50},
    }  # fmt: skip


def _write_traces(folder: Path, draw: random.Random) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    paths = ["time_s,flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes"]
    buffers = ["time_s,flow,send_buffer_bytes,receive_buffer_bytes,reordering_buffer_bytes,peer_window_bytes"]
    for step in range(200):
        for flow in ("F0", "F1"):
            for path in ("A", "B"):
                cwnd = 20000 + 1500 * (step % 40) + draw.randrange(1500)
                ssthresh = "" if step < 40 else "20000"
                paths.append(f"{step / 10:.6f},{flow},{path},{cwnd},{ssthresh},20000,{cwnd - 1500}")
            buffers.append(f"{step / 10:.6f},{flow},{500 * step},{100 * (step % 30)},{50 * (step % 30)},500000")
    transfers = ["time_s,flow,direction,event,offset_bytes,length_bytes"]
    queues = ["time_s,link,direction,packets,bytes"]
    decisions = ["time_s,flow,path,offset_bytes,length_bytes,reason"]
    for step in range(200):
        queues.append(f"{step / 10:.6f},bottleneck,forward,{step % 40},{1500 * (step % 40)}")
        for index, flow in enumerate(("F0", "F1")):
            transfers.append(f"{step / 10 + 0.05:.6f},{flow},forward,read,0,{62500 * (index + 1) + draw.randrange(99)}")
            decisions += [f"{step / 10:.6f},{flow},{path},0,25000,new-data" for path in ("A", "B")]
    for name, rows in (("transfers", transfers), ("queues", queues), ("decisions", decisions)):
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "paths.csv").write_text("\n".join(paths) + "\n", encoding="utf-8")
    (folder / "buffers.csv").write_text("\n".join(buffers) + "\n", encoding="utf-8")
