"""Types of the values that the native module returns as JSON, apart from results: see `document.py` for those.

A test compares the keys with those of the native module.
"""

from typing import TypedDict


class PathSample(TypedDict):
    """Present values of a path; docs/how-to/step.md has the keys."""

    name: str
    links: list[str]
    usable: bool
    backup: bool
    cwnd_bytes: int
    ssthresh_bytes: int | None
    srtt_s: float | None
    in_flight_bytes: int
    sent_bytes: int
    delivered_bytes: int
    retransmissions: int
    timeouts: int
    limited_s: dict[str, float]


class FlowSample(TypedDict):
    """Present values of a flow."""

    state: str
    written_bytes: int
    delivered_bytes: int
    reverse_delivered_bytes: int | None
    send_buffer_bytes: int
    receive_buffer_bytes: int
    reordering_buffer_bytes: int
    peer_window_bytes: int
    limited_s: dict[str, float]
    paths: list[PathSample]


class DirectionSample(TypedDict):
    """Present values of a direction of a link."""

    up: bool
    queue_packets: int
    queue_bytes: int
    sent_packets: int
    sent_bytes: int
    drops: dict[str, int]
    marks: int


class LinkSample(TypedDict):
    """Present values of a link."""

    forward: DirectionSample
    reverse: DirectionSample


class Sample(TypedDict):
    """Present values of a simulation."""

    now_ns: int
    events: int
    over: bool
    flows: list[FlowSample]
    links: list[LinkSample]


class PathReport(TypedDict):
    """State and counters of a path of a connection; docs/reference/endpoint.md has the keys."""

    id: int
    local: str
    remote: str
    usable: bool
    backup: bool
    cwnd_bytes: int
    outstanding_bytes: int
    srtt_s: float | None
    sent_bytes: int
    received_bytes: int
    retransmissions: int
    timeouts: int


class ConnectionReport(TypedDict):
    """State and counters of a connection."""

    written_bytes: int
    acknowledged_bytes: int
    delivered_bytes: int
    fallback: bool
    paths: list[PathReport]


class Difference(TypedDict):
    """The first difference between a recording and its replay; docs/reference/recordings.md has the keys."""

    time_s: float
    packet: int | None
    call: int | None
    field: str | None
    recorded: str | None
    replayed: str | None
    sentence: str


class Replay(TypedDict):
    """The outcome of a replay."""

    equal: bool
    recorded: str
    version: str
    data: bool
    sent_packets: int
    arrived_packets: int
    calls: int
    duration_s: float
    difference: Difference | None
