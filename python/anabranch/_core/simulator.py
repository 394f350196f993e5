"""Calls the native module: takes a `Request`, returns a decoded result document.

Other modules use only `Request` and the document: tests of studies can replace the simulator by any function of the
same type.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _native
from anabranch._core.stacks import stacks
from anabranch.errors import InputError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch._core.document import Document, SpeltOut
    from anabranch._core.states import Replay

LARGEST_SEED = _native.largest_seed()
"""The largest integer of TOML: a result contains its seed, and a scenario can set it."""


@dataclass(frozen=True)
class Capture:
    """A capture of packets in pcapng format."""

    file: str
    """File to write."""
    snaplen: int | None = None
    """Bytes to keep of each packet; all bytes if `None`."""
    ends: tuple[str, ...] = ()
    """Link ends ("node:link"), links or nodes to capture; all if empty."""
    flows: tuple[str, ...] = ()
    """Names of flows to capture; all if empty."""


@dataclass(frozen=True)
class Request:
    """One run: a scenario's text and the options of the run."""

    scenario: str
    """TOML text of the scenario."""
    file: str
    """Name of the scenario's file, for messages and for relative paths in the scenario."""
    overrides: tuple[str, ...] = ()
    """Settings "key=value" as for `--set`; a value that is not TOML is a string."""
    seed: int | None = None
    """Seed of all random streams, 0 to 2⁶³ − 1; the scenario's own if `None`."""
    trace: str | None = None
    """Folder for traces of windows, round-trip times and queues, as CSV; no traces if `None`."""
    pcap: Capture | None = None
    """Capture of packets; none if `None`."""
    check_wire: bool = False
    """Encode and re-parse every simulated packet."""
    trace_changes: bool = False
    """Trace all changes after every event instead of sampling every 10 ms."""
    record: str | None = None
    """File for a recording of a run in the world user, for `replay`; no recording if `None`."""


def simulate(request: Request, progress: Callable[[float], None] | None = None) -> Document:
    """Run a scenario in the simulator and return its result document.

    Raises:
        InputError: If the scenario, a setting or the seed is not valid, or a file cannot be written.
        RunFailed: If a disk is full.

    """
    check_not_recorded(request)
    return _run(request, progress, real_time=False)


def run_in_real_time(request: Request, progress: Callable[[float], None] | None = None) -> Document:
    """Run a scenario in user space: the simulator's hosts and links by the machine's clock, on serialised packets.

    Raises:
        InputError: As `simulate`, or if the request checks packets, which this world always does.
        RunFailed: If a disk is full.

    """
    check_real_time(request)
    return _run(request, progress, real_time=True)


def check_not_recorded(request: Request) -> None:
    """Check that a request of another world than user has no recording.

    Raises:
        InputError: If the request has a recording.

    """
    if request.record is not None:
        raise InputError("only runs in the world user can be recorded; add --world user or omit --record")


def replay(file: str | Path) -> Replay:
    """Replay a recording and compare the packets; docs/reference/recordings.md lists the keys of the result.

    Args:
        file: A file that `--record` has written.

    Raises:
        InputError: If the file cannot be read, is no recording, is damaged or ends too early.

    """
    with NativeErrors():
        outcome: Replay = json.loads(_native.replay(str(file)))
    return outcome


def check_real_time(request: Request) -> None:
    """Check that a scenario can run in user space.

    Raises:
        InputError: If the scenario is not valid or needs the kernel, on systems other than Linux, or with `check_wire`.

    """
    if not sys.platform.startswith("linux"):
        raise InputError("runs in the world user need Linux; choose --world sim")
    if request.check_wire:
        raise InputError("a run in the world user encodes and parses every packet anyway; omit --check-wire")
    for flow in canonical(request)["flow"]:
        if "kernel" in stacks(flow, "user"):
            raise InputError(
                f'flow "{flow["name"]}": the world user has no kernel stack; remove stack, or use --world kernel',
                request.file,
            )


def _run(request: Request, progress: Callable[[float], None] | None, *, real_time: bool) -> Document:
    _check(request)
    with NativeErrors():
        text = _native.run(
            request.scenario,
            request.file,
            list(request.overrides),
            request.seed,
            request.trace,
            _selection(request.pcap),
            request.check_wire,
            progress,
            request.trace_changes,
            real_time,
            request.record,
        )
    document: Document = json.loads(text)
    return document


def stepper(request: Request) -> _native.Stepper:
    """Open a simulated run that goes on in steps.

    Raises:
        InputError: If the scenario, a setting or the seed is not valid, or a file cannot be written.

    """
    _check(request)
    with NativeErrors():
        return _native.Stepper(
            request.scenario,
            request.file,
            list(request.overrides),
            request.seed,
            request.trace,
            _selection(request.pcap),
        )


class InputErrors:
    """Context that converts mistakes from the native module; a class, since a generator would cost microseconds."""

    def __enter__(self) -> None:
        """Enter the context without an action."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Convert the exception, if it is a mistake of the caller.

        Raises:
            InputError: For an error of the caller.

        """
        if isinstance(error, _native.InputError):
            raise translated(error) from None


class NativeErrors(InputErrors):
    """Context that converts exceptions of runs in the native module."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Convert the exception, if there is one.

        Raises:
            InputError: For an error of the caller.
            RunFailed: For a full disk, or an exception of an algorithm in Python, which is the cause.

        """
        super().__exit__(kind, error, trace)
        if isinstance(error, _native.AlgorithmError):
            raise RunFailed(str(error)) from error.__cause__
        # An error with a number comes from a callback.
        if isinstance(error, OSError) and error.errno is None:
            raise RunFailed(str(error)) from None


def _selection(pcap: Capture | None) -> tuple[str, int | None, list[str], list[str]] | None:
    """A capture as the native module takes it."""
    return None if pcap is None else (pcap.file, pcap.snaplen, list(pcap.ends), list(pcap.flows))


def _check(request: Request) -> None:
    """Check the types and ranges of a request at run time."""
    seed = request.seed
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LARGEST_SEED):
        raise InputError(f"a seed is a whole number from 0 to {LARGEST_SEED}, not {seed!r}")
    if request.trace == "":
        raise InputError('cannot write traces to ""; name a folder')
    for name, flag in (("check_wire", request.check_wire), ("trace_changes", request.trace_changes)):
        if not isinstance(flag, bool):
            raise InputError(f"{name} is true or false, not {flag!r}")
    snaplen = request.pcap.snaplen if request.pcap else None
    if snaplen is not None and (not isinstance(snaplen, int) or isinstance(snaplen, bool) or not 1 <= snaplen < 2**32):
        raise InputError(f"a capture keeps a whole number of bytes of each packet, from 1 on, not {snaplen!r}")


def validate(request: Request) -> None:
    """Check a scenario with its settings without running it.

    Raises:
        InputError: If the scenario or a setting is not valid.

    """
    try:
        _native.validate(request.scenario, request.file, list(request.overrides))
    except _native.InputError as error:
        raise translated(error) from None


def canonical(request: Request) -> SpeltOut:
    """Returns a scenario with its settings and every default, as decoded from JSON.

    Raises:
        InputError: If the scenario or a setting is not valid.

    """
    try:
        scenario: SpeltOut = json.loads(_native.canonical(request.scenario, request.file, list(request.overrides)))
    except _native.InputError as error:
        raise translated(error) from None
    return scenario


def check_storable(request: Request) -> None:
    """Check that a scenario names no class of Python, since a store cannot see whether the class has changed.

    Raises:
        InputError: If the scenario names a class of Python.

    """
    registered = set(_native.registered())
    if not registered:
        return
    for flow in canonical(request)["flow"]:
        for kind, key in (("congestion control", "congestion"), ("scheduler", "scheduler")):
            if (kind, flow.get(key)) in registered:
                raise InputError(
                    f'flow "{flow["name"]}": {kind} "{flow[key]}" is a class of Python, whose changes the store of a '
                    "study cannot see; use run_all or compare",
                    request.file,
                )


def schema() -> dict[str, object]:
    """JSON schema of scenario files, for editors."""
    found: dict[str, object] = json.loads(_native.schema())
    return found


def kinds() -> list[str]:
    """The kinds that `entries` accepts, such as congestion controls and schedulers."""
    return list(_native.kinds())


def entries(kind: str) -> list[tuple[str, str]]:
    """Name and description of all entries of a kind.

    Raises:
        InputError: If the kind is unknown.

    """
    try:
        return list(_native.list(kind))
    except _native.InputError as error:
        raise translated(error) from None


def coupled() -> frozenset[str]:
    """The congestion controls that couple the paths of a connection."""
    return frozenset(_native.coupled())


def names(text: str, file: str) -> tuple[list[str], list[str], list[str]]:
    """Names of the flows, of the links and of the declared hosts of a scenario; the scenario may be incomplete.

    Raises:
        InputError: If the text is not TOML.

    """
    try:
        return _native.names(text, file)
    except _native.InputError as error:
        raise translated(error) from None


def version() -> str:
    """Version of the simulator."""
    return str(_native.version())


def native_file() -> Path:
    """File of the native library."""
    return Path(str(_native.__file__))


def build_fingerprint() -> str:
    """Short digest of the native library's bytes; equal fingerprints mean the same code."""
    return hashlib.sha256(native_file().read_bytes()).hexdigest()[:16]


def build_kind() -> str:
    """Kind of the native library's build: `checked` with debug assertions, else `release`."""
    return str(_native.build_kind())


def translated(error: _native.InputError) -> InputError:
    """Convert an error of the native module, with its file and line."""
    return InputError(str(error.args[0]), error.file, error.line)
