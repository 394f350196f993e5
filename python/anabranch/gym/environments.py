"""Environments in which a program steers the scheduler or the control of a flow."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np

from anabranch.errors import InputError, nearest
from anabranch.gym import steered
from anabranch.gym.networks import SPLITS, network
from anabranch.gym.vector import ThreadVectorEnv
from anabranch.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from anabranch.algorithms import SharesScheduler
    from anabranch.gym.networks import Split
    from anabranch.gym.steered import SteeredControl
    from anabranch.scenario import Scenario
    from anabranch.simulation import FlowValues, PathValues

STEP_S = 0.1
"""Simulated time of a step."""

PATHS = 2

_MAX_RATE_BPS = 100e6
_MAX_BYTES = 1e6
_MAX_DELAY_S = 1.0
_MAX_PACKETS = 100.0

_NEW_PATH = (0, 0.0, 0, 0, 0)
"""Values of a path before it existed."""

_VALUES_PER_PATH = 5
_VALUES_PER_FLOW = 2


class _Environment(gymnasium.Env["NDArray[np.float32]", "NDArray[np.float32]"]):
    """A flow over two paths, whose scheduler or congestion control the actions steer."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    key: ClassVar[str]
    """Key of the flow that names the steered algorithm."""
    algorithm: ClassVar[str]
    least_action: ClassVar[float]
    """Smallest number of an action; the largest is 1."""

    def __init__(self, split: Split = "train", scenario: Scenario | None = None) -> None:
        """Open an environment.

        Args:
            split: The networks that `reset` draws from: "train", "validation" or "test".
            scenario: A scenario for all episodes instead, whose first flow has two paths.

        Raises:
            InputError: If there is no such split.

        """
        if split not in SPLITS:
            raise InputError(f'there is no split "{split}"; {nearest(str(split), list(SPLITS))}')
        self.split = split
        self.scenario = scenario if scenario is not None else network(SPLITS[split][0])
        self._fixed = scenario
        size = PATHS * _VALUES_PER_PATH + _VALUES_PER_FLOW
        self.action_space = gymnasium.spaces.Box(self.least_action, 1.0, (PATHS,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)
        self._run: Simulation | None = None
        self._has_advanced = False

    @classmethod
    def vector(cls, num_envs: int = 1, **options: Any) -> ThreadVectorEnv:
        """Environments that run in the threads of this process, for `gymnasium.make_vec`."""
        return ThreadVectorEnv([lambda: cls(**options)] * num_envs)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seed of the draw of networks.
            options: `{"network": seed}` chooses a network instead of drawing one of the split.

        Returns:
            The first observation, and the seed of the network.

        """
        super().reset(seed=seed)
        seeds = SPLITS[self.split]
        drawn = seeds[int(self.np_random.integers(len(seeds)))]
        chosen = (options or {}).get("network", drawn)
        if self._fixed is None:
            self.scenario = network(chosen)
        flow = self._flow_name()
        self._schedulers: list[SharesScheduler] = []
        self._controls: list[SteeredControl] = []
        self._run = Simulation(self.scenario.set(f"flow.{flow}.{self.key}", self.algorithm), seed=chosen)
        self._has_advanced = False
        self._steps = 0
        self._last = self._now = self._sample()
        self._least_rtt_s = [math.inf] * PATHS
        return self._observation(), {"network": chosen}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Apply an action and simulate 100 ms.

        Args:
            action: The action, one number for each path.

        Returns:
            Observation, reward, false, whether the episode is over, and the time and goodput of the step.

        Raises:
            InputError: If the episode is over or has not begun, or the action has another form.

        """
        run = self.advance(action)
        self._has_advanced = False
        self._last, self._now = self._now, self._sample()
        for at, (_, srtt_s, *_) in enumerate(self._paths(self._now)):
            self._least_rtt_s[at] = min(self._least_rtt_s[at], srtt_s or math.inf)
        info = {"now_s": run.now_s, "goodput_bps": self._goodput_bps()}
        return self._observation(), float(self.reward()), False, run.is_over, info

    def advance(self, action: NDArray[np.float32]) -> Simulation:
        """Apply an action and simulate 100 ms, unless this was done; `step` then reads the result.

        Raises:
            InputError: As `step`.

        """
        if self._run is None or (self._run.is_over and not self._has_advanced):
            raise InputError("the episode is over or has not begun; call reset before step")
        if not self._has_advanced:
            action = np.asarray(action, np.float32)
            if action.shape != (PATHS,) or not all(map(math.isfinite, action.tolist())):
                raise InputError(f"an action is {PATHS} finite numbers, not {action!r}")
            with steered.collected(self._schedulers, self._controls):
                self.apply(action)
                self._steps += 1
                self._run.step_until(self._steps * STEP_S)
            self._has_advanced = True
        return self._run

    @abstractmethod
    def apply(self, action: NDArray[np.float32]) -> None:
        """Steer the algorithms of the flow."""

    @abstractmethod
    def reward(self) -> float:
        """The reward of the last step."""

    def close(self) -> None:
        """Close the run."""
        self._run = None

    def _flow_name(self) -> str:
        from anabranch._core import simulator

        return simulator.names(self.scenario.text, self.scenario.file)[0][0]

    def _sample(self) -> FlowValues:
        assert self._run is not None
        return self._run.flow_values()

    @staticmethod
    def _paths(flow: FlowValues) -> list[PathValues]:
        return flow[2][:PATHS]

    def _observation(self) -> NDArray[np.float32]:
        """The values of the step, each from 0 to 1."""
        values: list[float] = []
        before = self._paths(self._last)
        for at, (delivered, srtt_s, in_flight, cwnd, repeated) in enumerate(self._paths(self._now)):
            old_delivered, _, _, _, old_repeated = before[at] if at < len(before) else _NEW_PATH
            values += (
                (delivered - old_delivered) * 8 / STEP_S / _MAX_RATE_BPS,
                srtt_s / _MAX_DELAY_S,
                in_flight / _MAX_BYTES,
                cwnd / _MAX_BYTES,
                (repeated - old_repeated) / _MAX_PACKETS,
            )
        values += [0.0] * (PATHS * _VALUES_PER_PATH - len(values))
        values += (self._goodput_bps() / _MAX_RATE_BPS, self._now[1] / _MAX_BYTES)
        # Lists of a dozen numbers take a fifth of the time of array operations.
        return np.array([min(max(value, 0.0), 1.0) for value in values], np.float32)

    def _goodput_bps(self) -> float:
        return (self._now[0] - self._last[0]) * 8 / STEP_S


class Scheduler(_Environment):
    """`anabranch/Scheduler-v0`: the action is the share of packets of each path.

    The reward is the goodput of the step in units of 100 Mbit/s: the bytes that the receiving application has read, in
    order.
    """

    key = "scheduler"
    algorithm = steered.SCHEDULER
    least_action = 0.0

    def apply(self, action: NDArray[np.float32]) -> None:
        """Set the shares of all paths."""
        shares = [min(max(share, 0.0), 1.0) for share in action.tolist()]
        for scheduler in self._schedulers:
            scheduler.shares = shares

    def reward(self) -> float:
        """The goodput in units of 100 Mbit/s."""
        return self._goodput_bps() / _MAX_RATE_BPS


class Congestion(_Environment):
    """`anabranch/Congestion-v0`: the action doubles (1) to halves (−1) the window of each path.

    The reward is the goodput of the step in units of 100 Mbit/s, less a tenth of the mean queueing delay in units of
    the smallest measured round-trip time, less the retransmissions in units of 100 packets.
    """

    key = "congestion"
    algorithm = steered.CONTROL
    least_action = -1.0

    def apply(self, action: NDArray[np.float32]) -> None:
        """Multiply the windows by powers of two."""
        factors = np.exp2(np.clip(action, -1.0, 1.0).astype(np.float64)).tolist()
        for control in self._controls:
            for path in control.paths.values():
                if path.id < PATHS:
                    path.cwnd = round(path.cwnd * factors[path.id])

    def reward(self) -> float:
        """Goodput, less delay, less retransmissions."""
        now, before = self._paths(self._now), self._paths(self._last)
        delays = [
            srtt_s / least - 1.0 for (_, srtt_s, *_), least in zip(now, self._least_rtt_s, strict=False) if srtt_s
        ]
        repeated = sum(count for *_, count in now) - sum(count for *_, count in before)
        delay = sum(delays) / max(len(delays), 1)
        return self._goodput_bps() / _MAX_RATE_BPS - 0.1 * delay - repeated / _MAX_PACKETS
