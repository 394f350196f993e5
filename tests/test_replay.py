"""Values of a result document equal those that an independent reader computes from the capture and the traces.

A few random scenarios each time; a change of measurement has to pass with ANABRANCH_REPLAYS=300.

"""

from __future__ import annotations

import json
import math
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

import anabranch
from anabranch.fairness.capacity import bits_per_second
from replay import NANOS, Packet, Received, Traces, capture, mean_max, occupancy, quantile, serve

if TYPE_CHECKING:
    from pathlib import Path

REPLAYS = int(os.environ.get("ANABRANCH_REPLAYS", "20"))
BY_BYTE = {"tcp": True, "mptcp": True, "sctp": False, "cmt-sctp": False, "udp": False}


def scenario(rng: random.Random) -> str:
    """A random network of one to three links with constant rates, and one to three flows."""
    lines = [
        f'duration = "{rng.uniform(1.5, 2.5):.4f} s"', f'warmup = "{rng.uniform(0.1, 0.9):.4f} s"',
        f"seed = {rng.randrange(1 << 32)}",
    ]  # fmt: skip
    for number in range(rng.randint(1, 3)):
        queue = rng.choice([
            f'{{ kind = "fifo", limit = "{rng.randint(3, 80)} packets" }}',
            f'{{ kind = "fifo", limit = "{rng.randint(9, 90)} kB" }}',
            f'{{ kind = "red", limit = "{rng.randint(30, 60)} packets", '
            'min = "5 packets", max = "20 packets", max_p = 0.1 }',
        ])  # fmt: skip
        lines += [
            "[[link]]", f'name = "L{number}"', 'between = ["A", "B"]',
            f'rate = "{rng.choice([1, 2, 3, 7, 10])} Mbit/s"', f'delay = "{rng.uniform(0.0, 40.0):.3f} ms"',
            f"queue = {queue}", f'reverse = {{ rate = "{rng.choice([1, 4, 11])} Mbit/s" }}',
        ]  # fmt: skip
        if rng.random() < 0.4:
            lines.append(f'loss = {{ model = "bernoulli", rate = {rng.uniform(0.001, 0.02):.4f} }}')
    for number in range(rng.randint(1, 3)):
        protocol = rng.choice([*BY_BYTE])
        message = rng.choice(['"1200 B"', '{ uniform = ["100 B", "1400 B"] }', '{ exponential = "700 B" }'])
        workloads = [
            f'{{ kind = "rate", rate = "{rng.randint(100, 3000)} kbit/s", message = {message} }}',
            f'{{ kind = "messages", message = {message}, interval = "{rng.randint(1, 20)} ms", '
            'distribution = "exponential" }',
            f'{{ kind = "on-off", on = "40 ms", off = "30 ms", rate = "1 Mbit/s", message = {message} }}',
        ]
        if protocol != "udp":
            workloads += [
                '{ kind = "saturated" }', '{ kind = "saturated" }',
                f'{{ kind = "file", size = "{rng.randint(5, 300)} kB" }}',
            ]  # fmt: skip
        lines += [
            "[[flow]]", f'name = "F{number}"', 'from = "A"', 'to = "B"', f'protocol = "{protocol}"',
            f'start = {{ uniform = ["0 s", "{rng.uniform(0.0, 1.2):.3f} s"] }}',
            f"workload = {rng.choice(workloads)}",
        ]  # fmt: skip
        if protocol in ("tcp", "mptcp"):
            lines.append(f'recovery = "{rng.choice(["sack", "rack"])}"')
    return "\n".join(lines)


class Checks:
    """Compares values of a document with those of the reader and collects the differences."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.differences: list[str] = []

    def same(self, what: str, found: Any, expected: Any) -> None:
        """A count is exact."""
        if found != expected:
            self.differences.append(f"{what}: {found}, and the reader has {expected}")

    def close(self, what: str, found: float | None, expected: float, floor: float = 1e-9) -> None:
        """A mean or quantile is exact to 0.5 %; a value near zero, to `floor`."""
        if found is None or not math.isclose(found, expected, rel_tol=0.005, abs_tol=floor):
            self.differences.append(f"{what}: {found}, and the reader has {expected}")


@pytest.mark.parametrize("number", range(REPLAYS))
def test_document_matches_capture_and_traces(number: int, tmp_path: Path) -> None:
    text = scenario(random.Random(number))
    result = anabranch.run(
        anabranch.Scenario.from_toml(text),
        trace=tmp_path / "traces",
        trace_changes=True,
        pcap=tmp_path / "all.pcapng",
    )
    checks, packets, traces = Checks(result.document), capture(tmp_path / "all.pcapng"), Traces(tmp_path / "traces")
    for link in result.document["links"]:
        check_link(checks, link, packets)
    for flow in result.document["flows"]:
        check_flow(checks, flow, packets, traces)
    goodputs = [flow["goodput_bps"] for flow in result.document["flows"]]
    if any(goodputs):
        jain = sum(goodputs) ** 2 / len(goodputs) / sum(g * g for g in goodputs)
        checks.close("jain", result.document["jain"], jain)
    assert not checks.differences, "\n".join([*checks.differences, text])


def check_link(checks: Checks, link: Any, packets: dict[str, list[Packet]]) -> None:
    """Every metric of a direction of a link, by a replay of its queue."""
    what, document = f"{link['name']} {link['direction']}", checks.document
    declared = next(one for one in document["scenario"]["link"] if one["name"] == link["name"])
    reverse = declared.get("reverse", {}) if link["direction"] == "reverse" else {}
    rate = bits_per_second(reverse.get("rate", declared["rate"]))
    here, dropped = packets[f"{link['from']}:{link['name']}"], packets[f"{link['from']}:{link['name']} dropped"]
    # This interface shows both sent and received packets.
    there = packets[f"{link['to']}:{link['name']}"]
    sent = [p for p in here if is_from(p, link["from"])]
    arrived = [p for p in there if is_from(p, link["from"])]
    begin, end = document["warmup_s"] * NANOS, document["duration_s"] * NANOS
    replay = serve(sent, dropped, rate)
    began = [(start, length) for start, length in replay.starts if start <= end]
    checks.same(f"{what} packets", link["packets"], len(began))
    checks.same(f"{what} bytes", link["bytes"], sum(length for _, length in began))
    measured = sum(length for start, length in began if start > begin)
    checks.same(f"{what} throughput", round(link["throughput_bps"] * (end - begin) / 8e9), measured)
    busy = sum(
        max(0.0, min(left, end) - max(start, begin))
        for (start, _), left in zip(replay.starts, replay.ends, strict=True)
    )
    checks.close(f"{what} utilisation", link["utilisation"], busy / (end - begin))
    causes = {cause: sum(p.cause == cause for p in dropped) for cause in link["drops_by_cause"]}
    checks.same(f"{what} drops", link["drops_by_cause"], causes)
    checks.same(f"{what} all drops", link["drops"], len(dropped))
    checks.same(f"{what} marks", link["marks"], sum(p.congestion_experienced for p in arrived))
    for key, in_bytes in (("occupancy", False), ("occupancy_bytes", True)):
        mean, largest = mean_max(occupancy(replay.waits, in_bytes=in_bytes), begin, end)
        checks.close(f"{what} {key} mean", link[key]["mean"], mean, 1e-6)
        checks.same(f"{what} {key} max", link[key]["max"], round(largest))


def is_from(packet: Packet, node: str) -> bool:
    """Whether a packet was sent by a node: of a link's two addresses the first is that of the first node."""
    return (packet.data[15] % 2 == 1) == (node == "A")


def check_flow(checks: Checks, flow: Any, packets: dict[str, list[Packet]], traces: Traces) -> None:
    """The metrics of a flow."""
    name, document = flow["name"], checks.document
    begin, end = document["warmup_s"], document["duration_s"]
    checks.same(f"{name} written", flow["written_bytes"], traces.total(name, "write"))
    checks.same(f"{name} delivered", flow["delivered_bytes"], traces.total(name, "read"))
    read = traces.total(name, "read", begin)
    checks.same(f"{name} goodput", round(flow["goodput_bps"] * (end - begin) / 8), read)
    delays = traces.delays(name, begin, by_byte=BY_BYTE[flow["protocol"]])
    if delays:
        mean = sum(value * weight for value, weight in delays) / sum(weight for _, weight in delays)
        checks.close(f"{name} mean delay", flow["delivery_delay_s"]["mean"], mean)
        for key, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            checks.close(f"{name} {key} of the delay", flow["delivery_delay_s"][key], quantile(delays, share))
    else:
        checks.same(f"{name} delays", flow["delivery_delay_s"], None)
    if flow["protocol"] != "udp":
        for key in ("reordering_buffer_bytes", "receive_buffer_bytes"):
            mean, largest = mean_max(traces.column("buffers.csv", key, name), begin, end)
            if not math.isnan(mean):
                checks.close(f"{name} {key} mean", flow[key]["mean"], mean, 1e-3)
                checks.same(f"{name} {key} max", flow[key]["max"], largest)
    throughput = 0.0
    for path in flow["paths"]:
        check_path(checks, flow, path, packets, traces)
        throughput += path["throughput_bps"]
    checks.close(f"{name} throughput", flow["throughput_bps"], throughput)
    if flow["completion_s"] is not None:
        last = max(time for time, value in traces.column("buffers.csv", "delivered_bytes", name) if value is not None)
        checks.same(f"{name} completed", flow["written_bytes"], flow["delivered_bytes"])
        # An endpoint with nothing left to read gets the last packet at most a round-trip time later.
        assert flow["completion_s"] <= end - flow["start_s"] or math.isclose(last, end)


def check_path(checks: Checks, flow: Any, path: Any, packets: dict[str, list[Packet]], traces: Traces) -> None:
    """The metrics of a path."""
    what, document = f"{flow['name']} {path['name']}", checks.document
    begin, end = document["warmup_s"], document["duration_s"]
    if not path["links"]:
        return  # no route leads there, so the packets were on no link
    ends = (path["local"], path["remote"])
    sent = [p for p in packets[f"A:{path['links'][0]}"] if p.ends == ends and not p.of_nobody]
    with_data = [p for p in sent if p.payload()]
    checks.same(f"{what} packets", path["packets"], len(sent))
    checks.same(f"{what} data packets", path["data_packets"], len(with_data))
    measured = sum(p.payload() for p in with_data if p.at > begin * NANOS)
    checks.same(f"{what} throughput", round(path["throughput_bps"] * (end - begin) / 8), measured)
    if flow["protocol"] == "tcp":
        check_stream(checks, flow, path, (with_data, [p for p in packets[f"B:{path['links'][-1]}"] if p.ends == ends]))
    if flow["protocol"] == "udp":
        return
    for key, column, scale in (
        ("cwnd_mean_bytes", "cwnd_bytes", 1.0),
        ("outstanding_mean_bytes", "outstanding_bytes", 1.0),
        ("srtt_mean_s", "srtt_us", 1e-6),
    ):
        mean, largest = mean_max(traces.column("paths.csv", column, flow["name"], path["name"]), begin, end)
        if math.isnan(mean):
            continue
        checks.close(f"{what} {key}", path[key], mean * scale, 1e-6)
        if key == "cwnd_mean_bytes":
            checks.same(f"{what} largest window", path["cwnd_max_bytes"], largest)


def check_stream(checks: Checks, flow: Any, path: Any, packets: tuple[list[Packet], list[Packet]]) -> None:
    """A TCP stream, from its sequence numbers."""
    (sent, arrived), (begin, end) = packets, (checks.document["warmup_s"], checks.document["duration_s"])
    # The sender begins with the first byte; it need not be the first to arrive.
    first = next((number for packet in sent for number, _ in packet.pieces()), 0)
    received, fresh = Received(first), 0
    for packet in arrived:
        for number, length in packet.pieces():
            new = received.add(number, length)
            fresh += new if packet.at > begin * NANOS else 0
    checks.same(f"{flow['name']} in order", flow["delivered_bytes"], received.in_order())
    checks.same(f"{flow['name']} path goodput", round(path["goodput_bps"] * (end - begin) / 8), fresh)
    before, repeated = Received(first), 0
    for packet in sent:
        for number, length in packet.pieces():
            repeated += before.add(number, length) < length
    # A tail-loss probe is either a retransmission or new data.
    least = path["retransmissions"]
    assert least <= repeated <= least + path["probes"], f"{flow['name']} {repeated} {json.dumps(path)}"
