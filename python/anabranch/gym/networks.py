"""Networks of the environments: each seed is a network, and the seeds of the three splits never change."""

from __future__ import annotations

import random
from typing import Literal

from anabranch.errors import InputError
from anabranch.scenario import Scenario

Split = Literal["train", "validation", "test"]

SPLITS: dict[Split, range] = {
    "train": range(1_000),
    "validation": range(1_000, 1_100),
    "test": range(1_100, 1_200),
}
"""Seeds of the networks for training, for choosing among trained policies, and for the reported result."""

DURATION_S = 20

_SCENARIO = """\
title = "Network {seed} of the environments"
duration = "{duration_s} s"
seed = {seed}

[[link]]
name = "first"
between = ["phone", "server"]
rate = "{rates[0]} Mbit/s"
delay = "{delays[0]} ms"
queue = {{ kind = "fifo", limit = "{limits[0]} packets" }}

[[link]]
name = "second"
between = ["phone", "server"]
rate = "{rates[1]} Mbit/s"
delay = "{delays[1]} ms"
queue = {{ kind = "fifo", limit = "{limits[1]} packets" }}

[[flow]]
name = "upload"
from = "phone"
to = "server"
protocol = "mptcp"
paths = "disjoint"
congestion = "reno"
scheduler = "round-robin"
send_buffer = "{buffer_kb} kB"
receive_buffer = "{buffer_kb} kB"
opportunistic_retransmission = false
penalisation = false
workload = {{ kind = "saturated" }}

[[event]]
at = "{change_s} s"
link = "{changed}"
set = {{ rate = "{new_rate} Mbit/s" }}
"""


def network(seed: int) -> Scenario:
    """The network of a seed, with the scheduler `round-robin` and the control `reno`.

    Two links of 5 to 50 Mbit/s with one-way delays of 5 to 100 ms and queues of 20 to 200 packets; one of them changes
    its rate once. Buffers are 100 to 500 kB, so that a slow path can block a fast one; the mechanisms against that are
    off.

    Args:
        seed: The seed; `SPLITS` has those of the environments.

    Raises:
        InputError: If the seed is not a whole number from 0 on.

    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"the seed of a network must be a whole number from 0 on, not {seed!r}")
    draw = random.Random(seed)
    text = _SCENARIO.format(
        seed=seed,
        duration_s=DURATION_S,
        rates=[draw.randint(5, 50), draw.randint(5, 50)],
        delays=[draw.randint(5, 100), draw.randint(5, 100)],
        limits=[draw.randint(20, 200), draw.randint(20, 200)],
        buffer_kb=draw.randint(100, 500),
        change_s=draw.randint(5, 15),
        changed=draw.choice(["first", "second"]),
        new_rate=draw.randint(5, 50),
    )
    return Scenario.from_toml(text, f"network-{seed}")
