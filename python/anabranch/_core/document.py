"""Types of result documents: `make generate` writes this file from the types of the simulator's results.

docs/reference/results.md has the meaning of every key.
"""

from typing import Any, NotRequired, TypedDict


class MeanMax(TypedDict):
    """Mean and maximum of a quantity."""

    mean: float
    max: int


class Quantiles(TypedDict):
    """Mean, median, 95 % and 99 % quantile of a quantity."""

    mean: float
    p50: float
    p95: float
    p99: float


class LatenessResult(TypedDict):
    """Delay of an emulated network behind the clock when it delivered packets."""

    packets: int
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float
    late_share: float
    lost: int
    overloaded: bool


class HostFacts(TypedDict):
    """The machine of a run, and its load during the run."""

    kernel: str
    cpu: str
    cpus: int
    load: list[float]
    stolen: float
    sysctls: dict[str, dict[str, str]]
    differences: list[str]
    lateness: LatenessResult


class RouterResult(TypedDict):
    """Packets with a loose source route at a router."""

    node: str
    source_routed: int
    followed: int
    dropped: int
    invalid: int


class HostResult(TypedDict):
    """A host of the scenario whose protocols are a kernel's."""

    name: str
    counters: dict[str, int]
    utilisation: NotRequired[float]
    drops: NotRequired[int]


class MiddleboxResult(TypedDict):
    """Counts of a middlebox."""

    node: str
    kind: str
    packets: int
    changed: int
    dropped: int


LinkResult = TypedDict(
    "LinkResult",
    {
        "name": str,
        "direction": str,
        "from": str,
        "to": str,
        "packets": int,
        "bytes": int,
        "throughput_bps": float,
        "utilisation": float,
        "drops": int,
        "drops_by_cause": dict[str, int],
        "marks": int,
        "occupancy": MeanMax,
        "occupancy_bytes": MeanMax,
    },
)


class RouterRecord(TypedDict):
    """The record of a router with network control about the way of a path."""

    router: str
    rate_bps: float
    free_rate_bps: float
    delay_s: float
    loss: float
    queue_packets: int
    shared: bool


class WantedPathResult(TypedDict):
    """A path that the hosts of a flow want to use."""

    name: str
    local: str
    remote: str
    reason: str | None


class PathResult(TypedDict):
    """One path of a flow, from the sender's point of view."""

    name: str
    local: str
    remote: str
    links: list[str]
    usable: bool
    backup: bool
    goodput_bps: float
    throughput_bps: float
    packets: int
    data_packets: int
    retransmissions: int
    retransmissions_by_cause: dict[str, int]
    reinjections: int | None
    probes: int | None
    recoveries: int | None
    timeouts: int | None
    undone: int | None
    ecn_reductions: int | None
    reductions_by_cause: NotRequired[dict[str, int]]
    bytes_by_kind: NotRequired[dict[str, int]]
    delivery_rate_max_bps: NotRequired[float]
    srtt_min_s: NotRequired[float]
    srtt_s: float | None
    srtt_mean_s: float | None
    rto_s: float
    cwnd_bytes: int
    cwnd_mean_bytes: float
    cwnd_max_bytes: int
    ssthresh_bytes: int | None
    outstanding_mean_bytes: float
    path_back_s: NotRequired[float]
    first_data_after_event_s: NotRequired[float]
    bottleneck: NotRequired[int]
    bottleneck_share: NotRequired[float]
    coupled_share: NotRequired[float]
    network_control: NotRequired[list[RouterRecord]]
    kernel: NotRequired[dict[str, int]]
    head_of_line_s: NotRequired[float]
    limited_s: NotRequired[dict[str, float | None]]
    missed_bytes: NotRequired[dict[str, int | None]]


class StreamResult(TypedDict):
    """One SCTP stream of a flow."""

    stream: int
    delivered_bytes: int
    delivery_delay_s: Quantiles | None
    reordering_buffer_bytes: MeanMax


FlowResult = TypedDict(
    "FlowResult",
    {
        "name": str,
        "from": str,
        "to": str,
        "through": NotRequired[str],
        "protocol": str,
        "direction": NotRequired[str],
        "congestion": str | None,
        "start_s": float,
        "state": str,
        "fallback": bool,
        "goodput_bps": float,
        "throughput_bps": float,
        "delivered_bytes": int,
        "written_bytes": int,
        "setup_s": NotRequired[float],
        "completion_s": float | None,
        "delivery_delay_s": Quantiles | None,
        "reverse_goodput_bps": NotRequired[float],
        "reverse_delivered_bytes": NotRequired[int],
        "reverse_written_bytes": NotRequired[int],
        "reverse_delivery_delay_s": NotRequired[Quantiles],
        "answers": NotRequired[int],
        "response_time_s": NotRequired[Quantiles],
        "lost_share": NotRequired[float],
        "duplicated_share": NotRequired[float],
        "jitter_s": NotRequired[float],
        "r_factor": NotRequired[float],
        "mos": NotRequired[float],
        "arrived": NotRequired[int],
        "unfinished": NotRequired[int],
        "refused": NotRequired[int],
        "completion_time_s": NotRequired[Quantiles],
        "slowdown": NotRequired[Quantiles],
        "recovery_s": NotRequired[float],
        "recovered_share": NotRequired[float],
        "gap_s": NotRequired[float],
        "gap_delivered_bytes": NotRequired[int],
        "repeated_share": NotRequired[float],
        "reordering_buffer_bytes": MeanMax | None,
        "receive_buffer_bytes": MeanMax | None,
        "limited_s": NotRequired[dict[str, float | None]],
        "missed_bytes": NotRequired[dict[str, int | None]],
        "blocked_s": dict[str, float],
        "buffer_blocked_s": NotRequired[dict[str, float]],
        "counters": dict[str, int],
        "streams": NotRequired[list[StreamResult]],
        "paths": list[PathResult],
        "paths_wanted": NotRequired[list[WantedPathResult]],
    },
)


class RunResult(TypedDict):
    """The result of a run."""

    format: int
    version: str
    world: str
    title: str
    seed: int
    duration_s: float
    warmup_s: float
    digest: str | None
    events: int | None
    wall_s: float
    unreachable_packets: int | None
    jain: float | None
    flows: list[FlowResult]
    links: list[LinkResult]
    middleboxes: NotRequired[list[MiddleboxResult]]
    hosts: NotRequired[list[HostResult]]
    routers: NotRequired[list[RouterResult]]
    host: HostFacts | None


SpeltOut = dict[str, Any]
"""A scenario with every default, or a table in it; docs/reference/scenario.md has the keys.

No class describes it, because a table's `kind` or `protocol` decides which keys it has.
"""


class Document(RunResult):
    """The result of a run as decoded from JSON."""

    scenario: NotRequired[SpeltOut]
    """The scenario with every default and every setting."""
