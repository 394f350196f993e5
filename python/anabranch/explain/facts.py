"""A run as the remedies see it: a flow with its paths, and both directions of the links on each path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.diagnostics import OBSTACLES, is_obstructed
from anabranch.errors import InputError, nearest
from anabranch.fairness.capacity import MULTIPATH, bits_per_second, directions, seconds, size_bytes
from anabranch.fairness.possible import possible_bps
from anabranch.link_values import reverse_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from anabranch._core.document import Document, FlowResult
    from anabranch.fairness.capacity import Direction

PACKET_BYTES = 1500
HEADER_BYTES = 72
"""Headers of IPv4 and TCP, with timestamps and the data sequence option of Multipath TCP."""
_MATHIS_FACTOR = 1.22
PAYLOAD_SHARE = 0.93
"""Payload as a share of the rate of a link that is full."""
MAX_SHORT_TRIPS = 40
"""Number of round trips below which slow start is a large part of a transfer."""
PACED = ("rate", "on-off", "messages", "recorded")
"""Workloads whose application sets the rate."""
COPIES = ("copy", "opportunistic-retransmission", "chunk-rescheduling", "reinjection")
"""Kinds of data that another path carries, too."""
_MIN_LOSSES = 3
MIN_REDUCING_LOSS = 0.001
"""Share of lost packets from which on losses keep a congestion window small."""
_REDUCED = ("congestion-avoidance", "recovery", "slow-start", "timeout")
"""Limits of a path that waits for its congestion window."""
_MIN_FILLED_SHARE = 0.9
"""Share of a buffer that data in flight takes on average from which on the buffer limits the flow."""
FULL_LINK = 0.9
"""Utilisation above which a link is full."""
_MIN_USED_SHARE = 0.05
"""Share of the data packets up to which a path only repeated some: SCTP retransmits lost data on another path."""
_MIN_TRIPS = 3
"""Minimum number of round trips of a flow that can be explained."""


@dataclass(frozen=True)
class Side:
    """One direction of a link, as the scenario has it."""

    link: str
    is_forward: bool
    values: Mapping[str, Any]
    report: Mapping[str, Any]
    """The entry in the result document."""

    @property
    def key(self) -> str:
        """The prefix of the keys of this direction in settings, such as "link.lte.reverse."."""
        return f"link.{self.link}." if self.is_forward else f"link.{self.link}.reverse."

    @property
    def rate_bps(self) -> float | None:
        """Rate in bit/s; `None` if the link follows a trace."""
        rate = self.values["rate"]
        return bits_per_second(rate) if isinstance(rate, str) else None

    @property
    def delay_s(self) -> float:
        """Propagation delay, seconds; 0 if it follows a trace."""
        delay = self.values["delay"]
        return seconds(delay) if isinstance(delay, str) else 0.0

    @property
    def limit_bytes(self) -> float:
        """Capacity of the queue, bytes."""
        limit = str(self.values["queue"]["limit"])
        packets, unit = limit.split()
        return float(packets) * PACKET_BYTES if unit.startswith("packet") else size_bytes(limit)

    @property
    def limit_s(self) -> float:
        """Time that a full queue needs to empty, seconds; 0 if the rate is unknown."""
        return 8.0 * self.limit_bytes / self.rate_bps if self.rate_bps else 0.0

    @property
    def queue_s(self) -> float:
        """Mean waiting time in the queue, seconds; 0 if the rate is unknown."""
        return 8.0 * float(self.report["occupancy_bytes"]["mean"]) / self.rate_bps if self.rate_bps else 0.0

    @property
    def dropped(self) -> int:
        """Packets that found the queue full."""
        return int(self.report["drops_by_cause"].get("queue") or 0)

    @property
    def lost_share(self) -> float:
        """Share of the packets that the link itself lost; 0 for few losses, which may be chance."""
        lost = self.report["drops_by_cause"].get("loss") or 0
        return lost / self.report["packets"] if lost >= _MIN_LOSSES and self.report["packets"] else 0.0

    def bdp_bytes(self, path: PathFacts) -> float:
        """Bytes of a round trip of a path, of at least 20 ms, at the rate of the link; 0 if the rate is unknown."""
        return (self.rate_bps or 0.0) * max(path.rtt_s, 0.02) / 8.0

    @property
    def loss_rate(self) -> float:
        """Share of the packets that independent or periodic losses take by the scenario; 0 for other models."""
        loss = self.values["loss"]
        if loss["model"] == "bernoulli":
            return float(loss["rate"])
        return 1.0 / loss["every"] if loss["model"] == "periodic" else 0.0

    @property
    def has_loss(self) -> bool:
        """Whether the link itself loses packets."""
        return bool(self.values["loss"]["model"] != "none")


@dataclass(frozen=True)
class PathFacts:
    """A path of the flow with its links in both directions."""

    report: Mapping[str, Any]
    """The entry in the result document."""
    there: tuple[Side, ...]
    """Directions of links that carry the data."""
    back: tuple[Side, ...]
    """Directions of links that carry the acknowledgements."""

    @property
    def name(self) -> str:
        """Name in the result document."""
        return str(self.report["name"])

    @property
    def rate_bps(self) -> float | None:
        """Rate of the slowest link; `None` if a link follows a trace."""
        rates = [side.rate_bps for side in self.there]
        known = [rate for rate in rates if rate is not None]
        return min(known) if known and len(known) == len(rates) else None

    @property
    def back_bps(self) -> float:
        """Smallest rate of the links back, bit/s; 0 if one is unknown."""
        return min((side.rate_bps or 0.0 for side in self.back), default=0.0)

    @property
    def rtt_s(self) -> float:
        """Round-trip time without queues, seconds."""
        return math.fsum(side.delay_s for side in (*self.there, *self.back))

    @property
    def lost_share(self) -> float:
        """Share of the packets that its links lose: that of the run, or with few losses that of the scenario."""
        return math.fsum(side.lost_share or side.loss_rate for side in self.there)

    @property
    def reduced_share(self) -> float:
        """Share of the path's time for which it waited for a congestion window that random losses keep small."""
        limits = self.report.get("limited_s") or {}
        total = math.fsum(each or 0.0 for each in limits.values())
        waited = math.fsum(limits.get(cause) or 0.0 for cause in _REDUCED)
        return waited / total if total and self.lost_share >= MIN_REDUCING_LOSS else 0.0

    @property
    def is_penalised(self) -> bool:
        """Whether penalisation reduced the window more often than losses and timeouts did."""
        causes = self.report.get("reductions_by_cause") or {}
        return bool((causes.get("penalisation") or 0) > sum(causes.get(cause) or 0 for cause in ("loss", "timeout")))

    @property
    def was_open(self) -> bool:
        """Whether the path carried data, or has a round-trip time from its handshake."""
        return bool(self.report["data_packets"] or self.report["srtt_mean_s"] is not None)

    @property
    def srtt_s(self) -> float:
        """Mean smoothed round-trip time, seconds; that without queues before the first sample."""
        return float(self.report["srtt_mean_s"] or self.rtt_s)

    @property
    def goodput_bps(self) -> float:
        """New payload that arrived on this path, bit/s."""
        return float(self.report["goodput_bps"])


@dataclass(frozen=True)
class Facts:
    """A run and the flow to explain."""

    document: Document
    flow: FlowResult
    """The flow's entry in the result document."""
    spelt_out: Mapping[str, Any]
    """The scenario with every default."""

    @classmethod
    def of(cls, document: Document, name: str | None) -> Facts:
        """Select a flow: the named one, or else the first that uses several paths, or else the first.

        Raises:
            InputError: If there is no such flow, it uses UDP, which nothing but the network limits, or it has arrivals.

        """
        flows = document["flows"]
        known = [flow["name"] for flow in flows]
        if name is not None and name not in known:
            raise InputError(f'there is no flow "{name}" in this scenario ({nearest(name, known)})')
        usable = [flow for flow in flows if flow["protocol"] != "udp" and name in (None, flow["name"])]
        if not usable:
            raise InputError("UDP has no control or buffer to explain; explain needs a TCP, MPTCP or SCTP flow")
        usable = [flow for flow in usable if "arrived" not in flow]
        if not usable:
            raise InputError("explain needs a flow with one connection, without arrivals")
        chosen = next((flow for flow in usable if flow["protocol"] in MULTIPATH), usable[0])
        return cls(document, chosen, document["scenario"])

    @property
    def name(self) -> str:
        """Name of the flow."""
        return str(self.flow["name"])

    @property
    def protocol(self) -> str:
        """Protocol of the flow."""
        return str(self.flow["protocol"])

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The flow's keys in the scenario."""
        return next(flow for flow in self.spelt_out["flow"] if flow["name"] == self.name)

    @property
    def measured_s(self) -> float:
        """Duration of the measured part, seconds."""
        return float(self.document["duration_s"] - self.document["warmup_s"])

    @cached_property
    def end_s(self) -> float:
        """The time at which the flow stops or ends, or else the end of the run, seconds."""
        ends = [float(self.document["duration_s"])]
        if "stop" in self.settings:
            ends.append(seconds(self.settings["stop"]))
        if self.flow["completion_s"] is not None:
            ends.append(float(self.flow["start_s"]) + float(self.flow["completion_s"]))
        return min(ends)

    @property
    def open_s(self) -> float:
        """Part of the measured time between the flow's start and its end, seconds."""
        return max(0.0, self.end_s - max(float(self.flow["start_s"]), float(self.document["warmup_s"])))

    def while_open(self, rate_bps: float) -> float:
        """Convert a rate over the measured part, bit/s, to the rate over the part in which the flow was open.

        For a flow with `stop` this is an upper bound, because data that waits in the send buffer leaves after the stop.
        """
        return rate_bps * self.measured_s / self.open_s if self.open_s else rate_bps

    @cached_property
    def paths(self) -> tuple[PathFacts, ...]:
        """The flow's paths with their links; one that never opened can lack links."""
        found = []
        for report in self.flow["paths"]:
            ways = directions(self.flow, report, self.document)
            back = tuple((link, not forward) for link, forward in reversed(ways))
            found.append(PathFacts(report, tuple(map(self.side, ways)), tuple(map(self.side, back))))
        return tuple(found)

    def side(self, direction: Direction) -> Side:
        """One direction of a link."""
        name, forward = direction
        link = next(link for link in self.spelt_out["link"] if link["name"] == name)
        values = link if forward else reverse_of(link)
        wanted = "forward" if forward else "reverse"
        report = next(r for r in self.document["links"] if r["name"] == name and r["direction"] == wanted)
        return Side(name, forward, values, report)

    @property
    def sides_there(self) -> list[Side]:
        """The directions of links that carry the flow's data, each once."""
        return list({side.key: side for path in self.paths for side in path.there}.values())

    @property
    def sides_back(self) -> list[Side]:
        """The directions of links that carry the flow's acknowledgements, each once."""
        return list({side.key: side for path in self.paths for side in path.back}.values())

    @cached_property
    def possible_bps(self) -> float | None:
        """Largest rate that the links on the flow's paths carry without other traffic, bit/s."""
        return possible_bps(self.document, [self.name])

    @property
    def goodput_bps(self) -> float:
        """Goodput in both directions, bit/s."""
        return goodput_bps(self.flow)

    @property
    def gap(self) -> float:
        """Share of the possible rate that the flow does not reach while open; 0.5 if the possible rate is unknown."""
        if not self.possible_bps:
            return 0.5
        return min(1.0, max(0.0, 1.0 - self.while_open(self.goodput_bps) / self.possible_bps))

    @property
    def payload_gap(self) -> float:
        """`gap` without the headers of small packets and the framing of links."""
        framed = 1.0 - self.payload_share / PAYLOAD_SHARE
        return max(0.0, (self.gap - framed) / (1.0 - framed))

    @property
    def is_on_kernel(self) -> bool:
        """Whether the run was in the kernel's world, which lacks most waiting times and kinds of data."""
        return bool(self.document["world"] == "kernel")

    @cached_property
    def payload_share(self) -> float:
        """Payload as a share of the rate of a full link: less with small packets, or with framing."""
        links = [side.values for side in self.sides_there]
        size = self.settings.get("mtu") or min((link["mtu"] for link in links), default=PACKET_BYTES)
        framing = max((link["overhead"] for link in links), default=0)
        usual = (PACKET_BYTES - HEADER_BYTES) / PACKET_BYTES
        return PAYLOAD_SHARE * min(1.0, (size - HEADER_BYTES) / (size + framing) / usual)

    def free_bps(self, path: PathFacts) -> float:
        """Payload that a path would carry in addition while the flow is open, bit/s: the least of its links."""
        free = [self._free_of_link_bps(side) for side in path.there]
        return self.payload_share * min((bps for bps in free if bps is not None), default=0.0)

    def _free_of_link_bps(self, side: Side) -> float | None:
        """The rate of a link that is not in use while the flow is open, bit/s; `None` if it is unknown."""
        used = self.while_open(float(side.report["utilisation"] or 0.0))
        if side.rate_bps is None:
            return 0.0 if used > FULL_LINK else None
        return side.rate_bps * max(0.0, 1.0 - used)

    def others_bps(self, side: Side) -> float:
        """Goodput of all other flows in the same direction of a link, bit/s."""
        return math.fsum(
            path["goodput_bps"]
            for flow in self.document["flows"]
            if flow["name"] != self.name
            for path in flow["paths"]
            for link, is_forward in directions(flow, path, self.document)
            if link == side.link and is_forward == side.is_forward
        )

    def copied_bps(self, path: PathFacts, kinds: Iterable[str]) -> float:
        """Rate of some kinds of data that another path or an earlier packet carries, too, bit/s.

        Args:
            path: The path.
            kinds: Keys of `bytes_by_kind`.

        """
        sent = path.report.get("bytes_by_kind") or {}
        total = math.fsum(sent.values())
        copies = math.fsum(sent.get(kind) or 0 for kind in kinds)
        return self.while_open(float(path.report["throughput_bps"] or 0.0)) * copies / total if total else 0.0

    def share_of(self, more_bps: float) -> float:
        """An additional rate as a share of the rate that the flow would have with it: the evidence of its remedy."""
        now = self.while_open(self.goodput_bps)
        if math.isinf(more_bps):
            return 1.0
        return more_bps / (now + more_bps) if more_bps > 0.0 else 0.0

    @cached_property
    def room_bps(self) -> float:
        """Additional rate of the flow if its open paths carried what their losses permit, and no data twice, bit/s."""
        used = self.data_paths
        return math.fsum(self.usable_bps(path) + self.copied_bps(path, COPIES) for path in used)

    @cached_property
    def data_paths(self) -> list[PathFacts]:
        """The open paths that data may use at the same time: no backups, and the busiest if the protocol uses one."""
        if self.protocol in MULTIPATH:
            return [path for path in self.paths if path.was_open and not path.report["backup"]]
        return sorted(self.paths, key=lambda path: -path.goodput_bps)[:1]

    @property
    def has_starved_path(self) -> bool:
        """Whether one of the open paths carries next to nothing."""
        return any(path.goodput_bps < _MIN_USED_SHARE * (path.rate_bps or 0.0) for path in self.data_paths)

    @property
    def buffer_bits(self) -> float:
        """Size of the smaller buffer, bits; infinite if both grow, and on the kernel, which counts its overhead."""
        sizes = [self.settings[key] for key in ("send_buffer", "receive_buffer")]
        known = [8.0 * size_bytes(size) for size in sizes if size != "auto"]
        return math.inf if self.is_on_kernel else min(known, default=math.inf)

    @property
    def fills_buffer(self) -> bool:
        """Whether the data in flight fills the smaller buffer."""
        outstanding = math.fsum(float(path.report.get("outstanding_mean_bytes") or 0.0) for path in self.data_paths)
        return 8.0 * outstanding >= _MIN_FILLED_SHARE * self.buffer_bits

    @property
    def buffered_bps(self) -> float:
        """Rate up to which the smaller buffer keeps the paths busy, bit/s; infinite if buffers grow.

        A byte occupies a buffer for a round trip. Data of all paths wait for that of the longest path, unless the flow
        uses its best path only.
        """
        used = [path for path in self.data_paths if path.rtt_s > 0.0]
        trips = [path.rtt_s for path in used]
        if not trips or math.isinf(self.buffer_bits):
            return math.inf
        bits = self.buffer_bits
        single = (min(path.rate_bps or math.inf, bits / path.rtt_s) for path in used)
        return max(bits / max(trips), self.payload_share * max(single))

    @property
    def attainable(self) -> float:
        """Largest evidence of remedies that change neither buffers nor the application."""
        limit = self.share_of(self.buffered_bps - self.while_open(self.goodput_bps))
        idle_s = (self.flow.get("limited_s") or {}).get("application") or 0.0
        workload = self.settings["workload"]
        if workload["kind"] in PACED and self.open_s:
            limit = min(limit, max(0.0, 1.0 - idle_s / self.open_s))
        rate = workload.get("rate")
        if workload["kind"] == "rate" and isinstance(rate, str) and "reverse_goodput_bps" not in self.flow:
            # The application writes at this rate, whatever the links carry.
            limit = min(limit, self.share_of(bits_per_second(rate) - self.while_open(self.goodput_bps)))
        return limit

    def usable_bps(self, path: PathFacts) -> float:
        """The free rate of a path up to the rate that a loss-based control reaches in spite of random losses."""
        free_bps = self.free_bps(path)
        lost = path.lost_share
        if not lost or not path.srtt_s:
            return free_bps
        limit_bps = mathis_bps(path.srtt_s, lost)
        return min(free_bps, max(0.0, limit_bps - self.while_open(path.goodput_bps)))

    @cached_property
    def room(self) -> float:
        """`room_bps` as a share of the rate that the flow would have; the kernel's world knows only the whole gap."""
        return self.gap if self.is_on_kernel else self.share_of(self.room_bps)

    def free_share(self, links: Iterable[str]) -> float:
        """The share that the flow would gain if its paths over some links were full."""
        if self.is_on_kernel:
            return self.gap
        names = set(links)
        over = [path for path in self.data_paths if names & {side.link for side in path.there}]
        return self.share_of(math.fsum(self.free_bps(path) for path in over))

    @cached_property
    def is_short(self) -> bool:
        """Whether the flow transfers a file in few round trips, so that its rate is not that of its links."""
        completion_s = self.flow["completion_s"]
        is_file = self.settings["workload"]["kind"] == "file"
        return bool(is_file and completion_s and completion_s <= MAX_SHORT_TRIPS * self.largest_rtt_s)

    @property
    def rate_weight(self) -> float:
        """Weight of remedies that add rate: they hardly change short transfers, and answers that wait for requests."""
        if self.settings["workload"]["kind"] == "request-response":
            return 0.1
        return 0.15 if self.is_short else 1.0

    def check_duration(self) -> None:
        """Refuse a flow that is measured for less than three round trips.

        Raises:
            InputError: With both times.

        """
        trip_s = min((path.rtt_s for path in self.paths if path.there), default=0.0)
        lasts_s = self.document["duration_s"] - max(self.flow["start_s"], self.document["warmup_s"])
        if lasts_s < _MIN_TRIPS * trip_s:
            raise InputError(
                f'"{self.name}" is measured for {1e3 * lasts_s:.3g} ms, less than {_MIN_TRIPS} round trips of '
                f"{1e3 * trip_s:.3g} ms, which explains nothing; let the run last longer"
            )

    def waited_s(self, cause: str) -> float:
        """Time that the flow waited for a cause of its `blocked_s`, seconds."""
        known = self.flow["blocked_s"].get(cause)
        return self._waited_on_kernel_s(cause) if known is None else float(known)

    def _waited_on_kernel_s(self, cause: str) -> float:
        """Time that the flow waited for a cause, from the times of its paths: the kernel reports none for whole flows.

        Linux counts a subflow as limited by its send buffer while the connection gives it no data. Either buffer of the
        connection can be the reason; it is the smaller one.
        """
        buffers = {"receive-window": "receive_buffer", "send-buffer": "send_buffer"}
        sizes = {key: self.settings[key] for key in buffers.values()}
        own = sizes.get(buffers.get(cause, ""), "auto")
        others = [size_bytes(size) for size in sizes.values() if size != "auto"]
        if own == "auto" or size_bytes(own) > min(others):
            return 0.0
        times = [[path.get("limited_s", {}).get(name) or 0.0 for name in buffers] for path in self.flow["paths"]]
        return min(self.open_s, max(map(sum, times), default=0.0))

    def waited_share(self, cause: str) -> float:
        """The time that the flow waited for a cause, as a share of the measured time in which it was open."""
        return min(1.0, self.waited_s(cause) / self.open_s) if self.open_s else 0.0

    @property
    def largest_rtt_s(self) -> float:
        """Largest mean round-trip time of its paths, seconds."""
        return max((path.srtt_s for path in self.paths), default=0.0)

    def obstacle_of(self, links: Iterable[str]) -> str:
        """The end of a sentence on the wanted paths over some links that never opened; empty if there are none.

        Args:
            links: Names of links.

        """
        names = set(links)
        found = [
            f'path "{each["name"]}" never opened: {OBSTACLES[str(each["reason"])]}'
            for each in self.flow.get("paths_wanted") or []
            if is_obstructed(each) and names & {part.partition("#")[0] for part in each["name"].split(">")}
        ]
        return "".join(f"; {each}" for each in found[:2])

    def ends_of(self, name: str) -> tuple[str, str]:
        """The nodes at the ends of a link."""
        first, second = next(link["between"] for link in self.spelt_out["link"] if link["name"] == name)
        return first, second

    def links_of_ends(self) -> Iterator[Mapping[str, Any]]:
        """The links of the flow's two hosts."""
        ends = {self.flow["from"], self.flow.get("through", self.flow["to"])}
        yield from (link for link in self.spelt_out["link"] if ends & set(link["between"]))

    def first_path(self, name: str) -> str:
        """The value of `initial_path` for a link: its name, with the version of IP of its first path if it has both."""
        link = next(link for link in self.spelt_out["link"] if link["name"] == name)
        if link.get("ip", self.spelt_out["ip"]) != "both":
            return name
        local = next((path["local"] for path in self.flow["paths"] if name in path["links"]), "")
        return f"{name}:v6" if local.startswith("[") else f"{name}:v4"

    def unused_links(self) -> list[str]:
        """Links of the flow's hosts that carry nothing of it: without a path, or with one that only stands by.

        A protocol with one path at a time keeps others for its failure; such a path of a protocol with several is the
        scheduler's choice.
        """
        paths = self.flow["paths"]
        if self.protocol not in MULTIPATH:
            least = _MIN_USED_SHARE * sum(path["data_packets"] for path in paths)
            paths = [path for path in paths if path["data_packets"] > least]
        used = {link for path in paths for link in path["links"]}
        return [link["name"] for link in self.links_of_ends() if link["name"] not in used]


def mathis_bps(rtt_s: float, lost_share: float) -> float:
    """Rate of a loss-based control with random losses, bit/s.

    Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997).
    """
    return 8.0 * _MATHIS_FACTOR * PACKET_BYTES / (rtt_s * math.sqrt(lost_share))


def goodput_bps(flow: FlowResult) -> float:
    """Goodput of a flow in both directions, bit/s."""
    return float(flow["goodput_bps"] + (flow.get("reverse_goodput_bps") or 0.0))
