"""Writes scalar and vector files of OMNeT++ for its tools and R scripts, with the names that NetPerfMeter uses.

The format is that of the Simulation Manual, "Result File Formats", version 3.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.files import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VERSION = 3
_END_NAMES = {"client-to-server": ("active", "passive"), "server-to-client": ("passive", "active")}
"""NetPerfMeter's names of the sender and the receiver, by direction."""


def write(prefix: str, document: Mapping[str, Any]) -> None:
    """Write PREFIX.sca, and PREFIX-ID.vec for each flow, from the result of a test.

    Raises:
        InputError: If a file cannot be written.
        RunFailed: If the disk is full.

    """
    run = f"anabranch-{secrets.token_hex(4)}"
    files = {".sca": _scalars(run, document)}
    for flow in document["flows"]:
        files[f"-{flow['id']}.vec"] = _vectors(run, document, flow)
    for ending, lines in files.items():
        write_output(Path(prefix + ending), "\n".join(lines) + "\n")


def _head(run: str, document: Mapping[str, Any]) -> Iterator[str]:
    yield f"version {_VERSION}"
    yield f"run {run}"
    attributes = {
        "network": "meter", "configname": "meter", "server": document["server_address"],
        "duration": f"{document['duration_s']:g}s", "version": document["version"],
    }  # fmt: skip
    for name, value in attributes.items():
        yield f"attr {name} {json.dumps(value)}"


def _scalars(run: str, document: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(run, document)
    for module, name, value in _values(document):
        yield f'scalar {module} "{name}" {value!r}'


def _values(document: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Module, name and value of each scalar."""
    total: dict[str, float] = {}
    for flow in document["flows"]:
        number = flow["id"]
        for way in flow["ways"]:
            writes, reads = (f"netPerfMeter.{end}.flow[{number}]" for end in _END_NAMES[way["direction"]])
            seconds = max(way["measured_s"], 1e-9)
            sent = 8 * way["written"]["bytes"] / max(document["duration_s"], 1e-9)
            yield writes, "Transmitted Bytes", way["written"]["bytes"]
            yield writes, "Transmitted Packets", way["written"]["messages"]
            yield writes, "Transmitted Bit Rate", sent
            yield reads, "Received Bytes", way["read"]["bytes"]
            yield reads, "Received Packets", way["read"]["messages"]
            yield reads, "Received Bit Rate", way["goodput_bps"]
            yield reads, "Received Packet Rate", way["read"]["messages"] / seconds
            if way["lost_messages"] is not None:
                yield reads, "Lost Packets", way["lost_messages"]
                yield reads, "Open Packets", way["open_messages"]
            for name, value in (way["read"]["delay_s"] or {}).items():
                yield reads, f"Delay {name}", value
            total[reads.partition(".flow")[0]] = total.get(reads.partition(".flow")[0], 0.0) + way["goodput_bps"]
        if flow["answers"] is not None:
            yield f"netPerfMeter.active.flow[{number}]", "Answers", flow["answers"]
    for module, value in total.items():
        yield f"{module}.total", "Received Bit Rate", value


def _vectors(run: str, document: Mapping[str, Any], flow: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(run, document)
    for identifier, (module, name, rows) in enumerate(_series(document, flow)):
        yield f'vector {identifier} {module} "{name}" TV'
        for at, value in rows:
            yield f"{identifier}\t{at!r}\t{value!r}"


def _series(
    document: Mapping[str, Any], flow: Mapping[str, Any]
) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Module, name and rows of time in seconds and value of each vector of a flow."""
    interval, until = document["interval_s"], document["duration_s"]

    def rates(counts: list[int]) -> list[tuple[float, float]]:
        """Bit rates at the ends of the intervals; the last one may be shorter."""
        ends = [min((place + 1) * interval, until) for place in range(len(counts))]
        return [
            (end, 8 * count / max(end - place * interval, 1e-9))
            for place, (end, count) in enumerate(zip(ends, counts, strict=True))
        ]

    number = flow["id"]
    for way in flow["ways"]:
        writes, reads = (f"netPerfMeter.{end}.flow[{number}]" for end in _END_NAMES[way["direction"]])
        yield writes, "Transmitted Bit Rate", rates(way["written"]["intervals"])
        yield reads, "Received Bit Rate", rates(way["read"]["intervals"])
        if way["read"]["delays"]:
            yield reads, "Delay", [(at, delay) for at, delay in way["read"]["delays"]]
    ends = list(dict.fromkeys((subflow["local"], subflow["remote"]) for subflow in flow["subflows"]))
    for place, pair in enumerate(ends):
        looks = [look for look in flow["subflows"] if (look["local"], look["remote"]) == pair]
        module = f"netPerfMeter.active.flow[{number}].subflow[{place}]"
        yield module, "Congestion Window", [(look["at_s"], look["cwnd_bytes"]) for look in looks]
        yield module, "Retransmissions", [(look["at_s"], look["retransmissions"]) for look in looks]
        times = [(look["at_s"], look["srtt_s"]) for look in looks if look["srtt_s"] is not None]
        yield module, "Smoothed RTT", times
