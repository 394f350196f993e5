"""The environments for Gymnasium."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from anabranch import InputError, Scenario

gymnasium = pytest.importorskip("gymnasium", reason='gymnasium is not installed; install "anabranch[gym]"')

import anabranch.gym as environments  # noqa: E402
from anabranch.gym import SPLITS, Congestion, Scheduler, network  # noqa: E402

NAMES = ["anabranch/Scheduler-v0", "anabranch/Congestion-v0"]


@pytest.mark.parametrize("name", NAMES)
def test_environment_passes_the_checks_of_gymnasium(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(name).unwrapped)


def episode(env: Any, seed: int, steps: int = 40) -> list[Any]:
    rng = np.random.default_rng(seed)
    low, high = env.action_space.low, env.action_space.high
    first, info = env.reset(seed=seed)
    values = [first, info["network"]]
    for _ in range(steps):
        values += env.step(rng.uniform(low, high).astype(np.float32))
    return values


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_episodes(name: str) -> None:
    one, two = (episode(gymnasium.make(name), 5) for _ in range(2))
    assert str(one) == str(two)
    assert str(one) != str(episode(gymnasium.make(name), 6))


def test_episode_lasts_200_steps() -> None:
    env = Scheduler()
    env.reset(seed=1)
    for n in range(1, 201):
        observation, reward, terminated, truncated, info = env.step(np.array([1, 1], np.float32))
        assert (terminated, truncated) == (False, n == 200)
        assert observation in env.observation_space
        assert 0 <= reward < 3
        assert info["now_s"] == pytest.approx(n / 10)
    with pytest.raises(InputError, match="the episode is over or has not begun; call reset before step"):
        env.step(np.array([1, 1], np.float32))


def test_actions_reach_the_flow() -> None:
    env = Scheduler()
    env.reset(seed=1, options={"network": 3})
    for _ in range(10):
        observation = env.step(np.array([1, 1], np.float32))[0]
    assert observation[0] > 0
    assert observation[5] > 0
    for _ in range(15):
        observation = env.step(np.array([1, 0], np.float32))[0]
    assert observation[0] > 0
    assert observation[5] == 0
    control = Congestion()
    control.reset(seed=1, options={"network": 3})
    for _ in range(10):
        control.step(np.array([0, 0], np.float32))
    before = control.step(np.array([0, 0], np.float32))[0]
    after = control.step(np.array([1, -1], np.float32))[0]
    assert after[3] == pytest.approx(2 * before[3], rel=1e-3)
    assert after[8] == pytest.approx(before[8] / 2, rel=0.01)


def test_splits_are_fixed_and_apart() -> None:
    assert {name: (seeds.start, seeds.stop) for name, seeds in SPLITS.items()} == {
        "train": (0, 1000),
        "validation": (1000, 1100),
        "test": (1100, 1200),
    }
    first = network(0).text
    assert 'rate = "29 Mbit/s"' in first, "the networks of the seeds never change"
    env = gymnasium.make(NAMES[0], split="test")
    drawn = {env.reset(seed=seed)[1]["network"] for seed in range(30)}
    assert drawn <= set(SPLITS["test"])
    assert len(drawn) > 15


@pytest.mark.parametrize("seed", [0, 1, 500, 1_050, 1_199])
def test_networks_are_valid(seed: int) -> None:
    network(seed).validate()


def test_vector_form_equals_single_environments() -> None:
    vector = gymnasium.make_vec(NAMES[0], num_envs=3, split="validation")
    assert isinstance(vector, environments.ThreadVectorEnv)
    rng = np.random.default_rng(1)
    actions = rng.uniform(0, 1, (30, 3, 2)).astype(np.float32)
    observations = [vector.reset(seed=10)[0]]
    observations += [vector.step(action)[0] for action in actions]
    for at in range(3):
        env = gymnasium.make(NAMES[0], split="validation")
        single = [env.reset(seed=10 + at)[0]]
        single += [env.step(action[at])[0] for action in actions]
        assert np.array_equal(np.array(observations)[:, at], np.array(single))
    vector.close()


def test_vector_form_begins_the_next_episode() -> None:
    vector = gymnasium.make_vec(NAMES[1], num_envs=2)
    vector.reset(seed=1)
    action = np.zeros((2, 2), np.float32)
    ends = [vector.step(action)[3].tolist() for _ in range(202)]
    assert [n for n, end in enumerate(ends) if any(end)] == [199]
    vector.close()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError, match='there is no split "trian"; did you mean "train"'):
        Scheduler(split="trian")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the seed of a network must be a whole number from 0 on, not -1"):
        Scheduler().reset(options={"network": -1})
    env = Scheduler()
    with pytest.raises(InputError, match="call reset before step"):
        env.step(np.zeros(2, np.float32))
    env.reset(seed=1)
    for action in (np.zeros(3, np.float32), np.array([np.nan, 0], np.float32), 1.0):
        with pytest.raises(InputError, match="an action is 2 finite numbers, not"):
            env.step(action)  # type: ignore[arg-type]


def test_own_scenario_replaces_the_networks() -> None:
    scenario = network(0).set("link.first.rate", "50 Mbit/s").set("link.second.rate", "50 Mbit/s")
    env = Scheduler(scenario=scenario)
    assert env.reset(seed=1)[1] == {"network": env.reset(seed=1)[1]["network"]}
    assert env.scenario is scenario
    assert isinstance(env.scenario, Scenario)


def test_package_does_not_import_gymnasium() -> None:
    code = (
        "import sys, anabranch, anabranch.algorithms, anabranch.simulation, anabranch.cli;"
        "assert 'gymnasium' not in sys.modules;"
        "sys.modules['gymnasium'] = None\n"
        "try:\n    import anabranch.gym\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sentence = "anabranch.gym needs the package gymnasium, which is not installed"
    assert done.stdout == f'{sentence}; run: pip install "anabranch[gym]"\n'
