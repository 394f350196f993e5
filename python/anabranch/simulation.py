"""A simulation in steps: read values and change links while it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from anabranch._core import simulator
from anabranch.errors import InputError
from anabranch.execution import request_of
from anabranch.results import Result
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch._core.simulator import Capture
    from anabranch._core.states import Sample

Direction = Literal["both", "forward", "reverse"]
"""Directions of a link: both, from its first node to its second, or from its second to its first."""


PathValues = tuple[int, float, int, int, int]
"""Of a path: new bytes that arrived, smoothed round-trip time in seconds (0 before its first sample), bytes in flight,
window in bytes, and retransmissions."""

FlowValues = tuple[int, int, list[PathValues]]
"""Of a flow: bytes that the receiving application has read, bytes that wait out of order, and its paths."""


class Simulation:
    """A simulated run that goes on in steps.

    The run does not depend on the steps: its digest equals that of `anabranch.run`. Orders are events of the scenario
    at the present time, so `scenario()` repeats the run.

    >>> import anabranch
    >>> run = anabranch.Simulation("wifi-and-cellular.toml", seed=1)
    >>> run.step_until(5.0)
    >>> run.sample()["flows"][0]["paths"][0]["cwnd_bytes"]
    >>> run.order("wifi", {"rate": "2 Mbit/s", "queue": {"limit": "20 packets"}})
    >>> run.finish().flows
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        *,
        seed: int | None = None,
        trace: str | Path | None = None,
        pcap: str | Path | Capture | None = None,
    ) -> None:
        """Open a run, which stands at time 0.

        Args:
            scenario: A scenario, or the path of its file.
            seed: Seed of all random streams, from 0 to 2⁶³ − 1; by default the scenario's own.
            trace: Folder for traces over time, as CSV files.
            pcap: File for a pcapng capture of all link ends, or a `Capture` to select ends, flows and bytes per packet.

        Raises:
            InputError: If an argument is not valid, or a file cannot be written.

        """
        if not isinstance(scenario, Scenario):
            scenario = Scenario.from_file(scenario)
        self._file = scenario.file
        self._trace = trace
        self._run = simulator.stepper(request_of(scenario, seed=seed, trace=trace, pcap=pcap))

    def step_until(self, time_s: float) -> None:
        """Process every event before a time; at the end of the run, end it.

        The interpreter is released meanwhile; another thread must not use this run then, or gets a `RuntimeError`. A
        time that is not after `now_s` has no effect. Ctrl-C stops the run for good, at the `now_s` that it has reached.

        Args:
            time_s: Simulated time in seconds; any later one, such as infinity, is the end of the run.

        Raises:
            InputError: If the time is not a number, a trace cannot be written, or an earlier call was interrupted.
            RunFailed: If the disk is full.

        """
        try:
            time_ns = min(max(int(time_s * 1e9 + 0.5), 0), _LAST_NS)
        except OverflowError:
            time_ns = _LAST_NS if time_s > 0 else 0
        except (TypeError, ValueError):
            raise InputError(f"time_s must be a number of seconds, not {time_s!r}") from None
        with simulator.NativeErrors():
            self._run.step_until(time_ns)

    def finish(self) -> Result:
        """Go on to the end of the run and return its result.

        Raises:
            InputError: As `step_until`.
            RunFailed: As `step_until`.

        """
        self.step_until(float("inf"))
        return self.result()

    @property
    def now_s(self) -> float:
        """The present simulated time in seconds. Events at this time have not happened yet."""
        return self._run.now_ns() / 1e9

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._run.is_over()

    @property
    def events(self) -> int:
        """Number of processed events."""
        return self._run.events()

    def sample(self) -> Sample:
        """The present values of all flows, paths and links, in the order of the scenario.

        Counters are since the start, so a rate is a difference of two samples. docs/how-to/step.md lists the keys. Does
        not change the run.
        """
        values: Sample = json.loads(self._run.sample())
        return values

    def flow_values(self, flow: int = 0) -> FlowValues:
        """The present values of one flow without the text of `sample`, for programs that steer it every few steps.

        Args:
            flow: Index of the flow in the scenario.

        Raises:
            InputError: If there is no such flow.

        """
        if not isinstance(flow, int) or flow < 0:
            raise InputError(f"the index of a flow is a whole number from 0 on, not {flow!r}")
        with simulator.NativeErrors():
            return self._run.flow_values(flow)

    def order(self, link: str, changes: Mapping[str, Any], *, direction: Direction = "both") -> None:
        """Change a link at the present time. The change takes effect when the run goes on.

        A further change of the same key at the same time replaces the first.

        Args:
            link: Name of the link.
            changes: Keys of `set` of an `[[event]]`: state, rate, delay, jitter, loss and queue.
            direction: The directions that change.

        Raises:
            InputError: If the change is not valid, or the run is over.

        """
        try:
            order = json.dumps({"link": link, "direction": direction, "set": changes}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"changes must be a table of texts, numbers and tables: {error}") from None
        with simulator.NativeErrors():
            self._run.order(order)

    def digest(self) -> str:
        """The digest of the run until now: 16 hexadecimal digits."""
        return self._run.digest()

    def result(self) -> Result:
        """The result, after the end of the run.

        Raises:
            InputError: If the run is not over.

        """
        if not self.is_over:
            raise InputError("the run is not over; call finish, or step to its end before result")
        return Result(json.loads(self._run.result()), self._trace)

    def scenario(self) -> Scenario:
        """The scenario with every default, the seed of the run, and all changes until now as events."""
        return Scenario(self._run.scenario(), self._file)

    def __repr__(self) -> str:
        state = "over" if self.is_over else f"at {self.now_s:g} s"
        return f"Simulation({self._file!r}, {state})"


_LAST_NS = 2**63 - 1
"""A time after the end of every run."""
