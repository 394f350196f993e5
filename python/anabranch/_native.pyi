"""The native module: the simulator behind a handful of functions that take and return plain values."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal

class InputError(ValueError):
    """A mistake in a scenario or a setting; `args[0]` is the message."""

    file: str | None
    line: int | None

class AlgorithmError(RuntimeError):
    """An exception of a congestion control or scheduler in Python, which is the cause."""

class Path:
    """A path of a connection, for a congestion control. Each event of a path has the same object.

    Windows and thresholds are in bytes. Setting one rounds it to the permitted values: one packet to 2⁴⁸ bytes, and
    whole packets if `whole_packets`.
    """

    @property
    def id(self) -> int:
        """Number of the path in its connection."""
    @property
    def cwnd(self) -> int:
        """Congestion window."""
    @cwnd.setter
    def cwnd(self, value: int) -> None: ...
    @property
    def ssthresh(self) -> int | None:
        """Slow-start threshold; `None` before the first loss."""
    @ssthresh.setter
    def ssthresh(self, value: int | None) -> None: ...
    @property
    def mss(self) -> int:
        """Largest payload of a packet."""
    @property
    def usable(self) -> bool:
        """Whether the path is established and not considered failed."""
    @property
    def recovering(self) -> bool:
        """Whether a loss is being repaired: from a fast retransmission to its success or a timeout."""
    @property
    def bottleneck(self) -> int:
        """Mark of the path's bottleneck with `couple = "shared"`; 0 while unknown."""
    @property
    def initial_window(self) -> int:
        """Window before the first acknowledgement."""
    @property
    def rules(self) -> Literal["tcp", "sctp"]:
        """The standard that the window follows: RFC 5681 or RFC 9260."""
    @property
    def floor(self) -> int:
        """Minimum threshold after an uncoupled loss reaction."""
    @property
    def abc_limit(self) -> int | None:
        """Maximum growth per acknowledgement in slow start, in packets; `None` for no limit."""
    @property
    def whole_packets(self) -> bool:
        """Whether window and threshold are multiples of a packet, as in Linux."""

class Ack:
    """New data of a path was acknowledged."""

    now_s: float
    acked: int
    rtt_s: float | None
    srtt_s: float | None
    cwnd_limited: bool

class Loss:
    """A loss was detected, or an ECN echo arrived; at most one for each window of data."""

    now_s: float
    ecn: bool
    in_flight: int

class Timeout:
    """The retransmission timer expired."""

    now_s: float
    repeated: bool
    in_flight: int

class Idle:
    """Data is about to be sent on a path that was idle for longer than its retransmission timeout."""

    now_s: float
    timeouts: int

class Offer:
    """Data for which a scheduler selects a path."""

    now_s: float
    bytes: int
    window: int
    send_window: int
    repeated: bool

class PathState:
    """State of a path for one decision of a scheduler. Sizes are bytes."""

    id: int
    eligible: bool
    usable: bool
    backup: bool
    cwnd: int
    ssthresh: int | None
    outstanding: int
    queueable: int
    queued: int
    recovering: bool
    srtt_s: float | None
    rtt_variation_s: float
    mss: int

class SharesScheduler:
    """A scheduler that sends packets in proportion to shares, which Python sets at any time.

    A path with share 0 sends only if no usable path has a share. Decisions call no method, so it is as fast as the
    schedulers of the table.
    """

    shares: builtins.list[float]
    """The shares of paths by their number. A path that is not listed has share 1."""

    def __init__(self) -> None: ...

def register_congestion(name: str, algorithm: object) -> None: ...
def register_scheduler(name: str, algorithm: object) -> None: ...
def registered() -> builtins.list[tuple[Literal["congestion control", "scheduler"], str]]: ...
def check_congestion(algorithm: object, sequences: int, vectors: str | None, tolerance_bytes: int) -> str | None: ...
def run(
    toml_text: str,
    file_name: str,
    overrides: builtins.list[str],
    seed: int | None = None,
    trace_dir: str | None = None,
    pcap: tuple[str, int | None, builtins.list[str], builtins.list[str]] | None = None,
    check_wire: bool = False,
    progress_callback: Callable[[float], None] | None = None,
    trace_changes: bool = False,
    real_time: bool = False,
    record: str | None = None,
) -> str: ...
def replay(file: str) -> str: ...

class RecordDecoder:
    """Decodes lines of a store into columns."""

    def __init__(self, keys: builtins.list[tuple[str, str, bool]]) -> None:
        """Begin without records; each key has a name, a type in Rust, and is true if it may be absent."""
    def add(self, line: bytes) -> str | None:
        """Add the record of a line; returns the difference if it is damaged or has another layout."""
    def take(self) -> Column:
        """Return the columns of all records, and begin empty ones."""

class Column:
    """A column of decoded records: bytes of numbers in the machine's order, or further columns."""

    rows: int
    absent: bytes
    """Indices of the rows without a value, u64."""
    values: bytes
    """Numbers f64 or u64, truth values u8, indices of texts u32, or ends of lists and tables u64."""
    texts: builtins.list[str]
    """Different texts."""
    keys: Column | None
    """Keys of tables."""
    items: Column | None
    """Items of lists, or values of tables."""
    parts: dict[str, Column]
    """Columns of a part by key."""

class StoreLines:
    """The lines of a store, in their order."""

    def __init__(self, path: str) -> None: ...
    def __iter__(self) -> StoreLines: ...
    def __next__(self) -> tuple[int, int, tuple[str, str] | None, bytes | None]:
        """Offset and length of a line without its end, and the key of its run with the fingerprint of the simulator.

        A line that is damaged, or has another beginning than those of runs, is given as a whole instead.
        """

def checksum(text: bytes) -> int: ...

class Stepper:
    """A run of a scenario that goes on in steps."""

    def __init__(
        self,
        toml_text: str,
        file_name: str,
        overrides: builtins.list[str],
        seed: int | None = None,
        trace_dir: str | None = None,
        pcap: tuple[str, int | None, builtins.list[str], builtins.list[str]] | None = None,
    ) -> None: ...
    def step_until(self, time_ns: int) -> None: ...
    def now_ns(self) -> int: ...
    def is_over(self) -> bool: ...
    def events(self) -> int: ...
    def sample(self) -> str: ...
    def flow_values(self, flow: int) -> tuple[int, int, builtins.list[tuple[int, float, int, int, int]]]: ...
    def order(self, order: str) -> None: ...
    def digest(self) -> str: ...
    def result(self) -> str: ...
    def scenario(self) -> str: ...

def layout(toml_text: str, file_name: str, overrides: builtins.list[str]) -> str: ...

class Emulation:
    """A scenario's network between network namespaces. On Linux only."""

    def __init__(
        self,
        toml_text: str,
        file_name: str,
        overrides: builtins.list[str],
        namespaces: dict[str, str],
        seed: int | None = None,
        trace_dir: str | None = None,
        spin_us: int = 0,
        pcap: tuple[str, int | None, builtins.list[str], builtins.list[str]] | None = None,
        machine: str | None = None,
    ) -> None: ...
    def start(self) -> float: ...
    def control(self) -> LinkControl: ...
    def is_over(self) -> bool: ...
    def stop(self) -> str: ...
    def measure(
        self,
        sysctls: dict[str, dict[str, str]],
        differences: builtins.list[str],
        begun_callback: Callable[[float], None],
        progress_callback: Callable[[float], None] | None = None,
    ) -> str: ...

class LinkControl:
    """Changes the links of an emulation that runs. On Linux only."""

    def set(self, settings: builtins.list[str], direction: str) -> str: ...
    def links(self) -> str: ...
    def tunnels(self) -> str: ...

class MeterServer:
    """A meter that waits for others. On Linux only."""

    def __init__(self, address: str, port: int) -> None: ...
    def address(self) -> str: ...
    def poll(self) -> tuple[str, bool] | None: ...

class Call:
    """A call of the stack that has begun. On Linux only, as the following classes."""

    def wait(self, timeout_s: float | None = None) -> Any: ...
    def answer(self) -> Any: ...
    def cancel(self) -> None: ...

class Calls:
    """The waiting calls of an event loop."""

    def __init__(self) -> None: ...
    def fd(self) -> int: ...
    def begin(self) -> int: ...
    def poll(self, key: int, call: Call) -> bool: ...
    def end(self, key: int) -> None: ...
    def take(self) -> builtins.list[int]: ...

class Stack:
    """A host in user space with its devices."""

    def __init__(
        self,
        tuns: builtins.list[tuple[str, str, str, bool]],
        udp: builtins.list[str],
        udp_port: int,
        mtu: int,
        pcap: str | None = None,
    ) -> None: ...
    def connect(self, remote: str, port: int, protocol: tuple[str, builtins.list[tuple[str, str]]]) -> Call: ...
    def associate(
        self,
        remote: builtins.list[str],
        port: int,
        protocol: tuple[str, builtins.list[tuple[str, str]]],
        peer_udp_port: int,
    ) -> Call: ...
    def listen(self, port: int, protocol: tuple[str, builtins.list[tuple[str, str]]], backlog: int) -> Call: ...
    def use_address(self, ip: str, is_used: bool) -> Call: ...
    def reports(self) -> Call: ...
    def stop(self, drain_s: float | None = None) -> Call: ...

class Listener:
    """A port that accepts connections."""

    def accept(self) -> Call: ...
    def accept_association(self) -> Call: ...
    def close(self) -> None: ...

class Stream:
    """A connection of TCP or Multipath TCP."""

    def read(self, max_bytes: int) -> Call: ...
    def write(self, data: bytes) -> Call: ...
    def set_backup(self, path: int, backup: bool) -> Call: ...
    def addresses(self) -> tuple[str | None, str | None]: ...
    def shutdown(self) -> None: ...
    def abort(self) -> None: ...
    def ended(self) -> Call: ...
    def event(self) -> Call: ...
    def report(self) -> Call: ...
    def close(self) -> None: ...

class Association:
    """An association of SCTP or CMT-SCTP."""

    def send(
        self,
        data: bytes,
        stream: int,
        ppid: int,
        unordered: bool,
        limits: tuple[float | None, int | None, int | None],
    ) -> Call: ...
    def receive(self) -> Call: ...
    def set_primary(self, path: int) -> Call: ...
    def change_streams(self, request: int | builtins.list[int] | None, incoming: bool) -> Call: ...
    def addresses(self) -> tuple[str | None, str | None]: ...
    def shutdown(self) -> None: ...
    def abort(self) -> None: ...
    def ended(self) -> Call: ...
    def event(self) -> Call: ...
    def report(self) -> Call: ...
    def close(self) -> None: ...

def meter_port() -> int: ...
def meter_run(
    host: str,
    port: int,
    plan: str,
    callback: Callable[[str], None],
    local: Sequence[str] = ...,
    first_port: int | None = None,
    ipv6: bool | None = None,
) -> str: ...
def read_captures(files: builtins.list[str], progress_callback: Callable[[float], None] | None = None) -> str: ...
def validate(toml_text: str, file_name: str, overrides: builtins.list[str]) -> None: ...
def canonical(toml_text: str, file_name: str, overrides: builtins.list[str]) -> str: ...
def kinds() -> builtins.list[str]: ...
def schema() -> str: ...
def list(kind: str) -> builtins.list[tuple[str, str]]: ...  # noqa: A001
def coupled() -> builtins.list[str]: ...
def names(toml_text: str, file_name: str) -> tuple[builtins.list[str], builtins.list[str], builtins.list[str]]: ...
def directions() -> builtins.list[str]: ...
def metrics() -> builtins.list[tuple[str, str, str, Literal["run", "flow", "path", "link"], str, float]]: ...
def result_parts() -> builtins.list[tuple[str, builtins.list[tuple[str, str, bool]]]]: ...
def largest_seed() -> int: ...
def reference() -> str: ...
def version() -> str: ...
def build_kind() -> Literal["checked", "release"]: ...
