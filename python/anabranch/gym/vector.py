"""Several environments that simulate at the same time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import iterate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ThreadVectorEnv(SyncVectorEnv):
    """Environments whose simulations run in threads of this process, since a simulation releases the interpreter.

    Results are those of the environments one after another.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Any]]) -> None:
        super().__init__(env_fns)
        self._pool = ThreadPoolExecutor(min(len(self.envs), os.cpu_count() or 1), "anabranch-gym")

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply an action to each environment and simulate 100 ms.

        Args:
            actions: An action for each environment.

        Returns:
            Observations, rewards, terminations, truncations and infos of all environments.

        """
        each = zip(self.envs, iterate(self.action_space, actions), self._autoreset_envs, strict=True)
        list(self._pool.map(_advance, each))
        return super().step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self._pool.shutdown()
        super().close_extras(**kwargs)


def _advance(each: tuple[Any, Any, bool]) -> None:
    env, action, resets = each
    if not resets:
        env.unwrapped.advance(action)
