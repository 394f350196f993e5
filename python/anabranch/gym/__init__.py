"""Gymnasium environments on `anabranch.Simulation`: steer a scheduler or a congestion control by learning.

The import registers `anabranch/Scheduler-v0` and `anabranch/Congestion-v0`. It needs the extra `anabranch[gym]`. An
episode is a Multipath TCP upload of 20 s over two paths, drawn by the seed of its network; a step takes 100 ms of
simulated time. docs/how-to/gymnasium.md has observations, actions and rewards.

>>> import gymnasium
>>> import anabranch.gym
>>> env = gymnasium.make("anabranch/Scheduler-v0", split="train")
>>> observation, info = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from anabranch.extras import missing

try:
    import gymnasium
except ImportError:
    raise ImportError(missing("gym", "gymnasium", "anabranch.gym")) from None

from anabranch.gym.environments import Congestion, Scheduler
from anabranch.gym.networks import SPLITS, network
from anabranch.gym.vector import ThreadVectorEnv

__all__ = ["SPLITS", "Congestion", "Scheduler", "ThreadVectorEnv", "network"]


def _register() -> None:
    for name, kind in (("Scheduler", Scheduler), ("Congestion", Congestion)):
        gymnasium.register(
            f"anabranch/{name}-v0",
            entry_point=f"anabranch.gym:{name}",
            vector_entry_point=kind.vector,
        )


_register()
