"""Labelled runs for `anabranch explain`: faults planted at random links, alone, in pairs, with distractors, and none.

The label of a run is counterfactual and does not name the planted fault: all remedies run again with another seed and
another start. The first remedy is right if its gain there is within 10 % of the largest. "Nothing to mend" is right if
no remedy gains more than 12 % there (10 %, and `TOLERANCE`). The regret is the largest gain less that of the first
remedy.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.explain.explanation import Options, explain
from anabranch.explain.finding import MIN_GAIN
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.explain.explanation import Explanation

NEAR = 0.10
TOLERANCE = 0.02
"""Excess over 10 % up to which "nothing to mend" still counts as right: the noise of a single seed."""
_LABEL_SEED = 1_000
TIME_LIMIT_S = 600.0

FAULTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "receive-buffer": ("flow.F.receive_buffer=64 kB",),
    "send-buffer": ("flow.F.send_buffer=64 kB",),
    "buffers": ("flow.F.receive_buffer=64 kB", "flow.F.send_buffer=64 kB"),
    "application": ('flow.F.workload={kind="rate",rate="3 Mbit/s"}',),
    "backup": ('flow.F.backup=["b"]',),
    "one path": ("flow.F.protocol=tcp", "flow.F.congestion=cubic"),
    "default paths": ("flow.F.paths=default",),
    "link down": ("link.b.state=down",),
    "random loss": ('link.b.loss={model="bernoulli",rate=0.01}',),
    "bursts of loss": ('link.a.loss={model="gilbert-elliott",to_bad=0.002,to_good=0.2}',),
    "periodic loss on both": ('link.a.loss={model="periodic",every=400}', 'link.b.loss={model="periodic",every=400}'),
    "short queue": ("link.b.queue.limit=4 packets",),
    "long queue": ("link.b.queue.limit=3 MB",),
    "long queue, small buffer": ("link.b.queue.limit=3 MB", "flow.F.receive_buffer=200 kB"),
    "slow return path": ("link.a.reverse.rate=30 kbit/s", "link.b.reverse.rate=30 kbit/s"),
    "redundant scheduler": ("flow.F.scheduler=redundant",),
    "strict scheduler": ("flow.F.scheduler=strict-round-robin",),
    "short transfer": ('flow.F.workload={kind="file",size="100 kB"}', "link.a.delay=80 ms", "link.b.delay=80 ms"),
    "requests": ('flow.F.workload={kind="request-response",response="30 kB"}',),
    "timeouts": ("flow.F.recovery=sack", "flow.F.rto_min=1 s", 'link.a.loss={model="bernoulli",rate=0.03}'),
    "small packets": ("flow.F.mtu=576", "link_defaults.overhead=200"),
    "cmt-sctp, bursts": ("flow.F.protocol=cmt-sctp", "flow.F.max_burst=1"),
    "sctp, other path": ("flow.F.protocol=sctp",),
    "buffer and loss": ("flow.F.receive_buffer=64 kB", 'link.b.loss={model="bernoulli",rate=0.02}'),
    "backup and short queue": ('flow.F.backup=["b"]', "link.a.queue.limit=4 packets"),
}
"""Settings of each planted fault."""

DISTRACTORS: tuple[tuple[str, ...], ...] = (
    (), ("link.a.jitter=2 ms",), ('link.b.loss={model="bernoulli",rate=0.00005}',), ("flow.F.delayed_ack=10 ms",),
)  # fmt: skip
"""Settings that look like faults and matter little."""


@dataclass(frozen=True)
class Case:
    """A scenario with a planted fault."""

    fault: str
    scenario: Scenario


@dataclass(frozen=True)
class Score:
    """The outcome of one case."""

    fault: str
    named: str
    """Kind of the first finding."""
    gain: float
    """Gain of the first remedy by its label; 0 without a remedy."""
    best: float
    """Largest gain of all remedies by their labels."""
    best_kind: str
    runs: int

    @property
    def regret(self) -> float:
        """Largest gain less that of the first remedy."""
        return 0.0 if self.best == self.gain else max(0.0, self.best - self.gain)

    @property
    def is_capacity(self) -> bool:
        """Whether no remedy helps by the label."""
        return self.best <= MIN_GAIN + TOLERANCE

    @property
    def is_right(self) -> bool:
        """Whether the first remedy gains nearly as much as the best one, or no remedy is named and none helps."""
        if self.gain == 0.0 and self.is_capacity:
            return True
        if math.isinf(self.best):
            return self.gain == self.best
        return self.regret <= max(NEAR * self.best, TOLERANCE)

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "fault": self.fault, "named": self.named, "gain": _finite(self.gain), "best": _finite(self.best),
            "best_kind": self.best_kind, "regret": _finite(self.regret), "right": self.is_right, "runs": self.runs,
        }  # fmt: skip


def _finite(gain: float) -> float | None:
    """A gain as a number of JSON; `None` for an infinite one, of a flow that delivered nothing before."""
    return gain if math.isfinite(gain) else None


def cases(count: int, seed: int, *, with_middle: bool = False) -> Iterator[Case]:
    """Cases over random pairs of links, every fault in turn; `with_middle` adds a node behind each link."""
    draw = random.Random(seed)
    names = list(FAULTS)
    for number in range(count):
        fault = names[number % len(names)]
        yield draw_case(draw, fault, FAULTS[fault], f"case {number}", with_middle=with_middle)


def draw_case(draw: random.Random, fault: str, settings: tuple[str, ...], name: str, *, with_middle: bool) -> Case:
    """A case with a planted fault over a random pair of links, with a distractor if the scenario accepts it."""
    scenario = Scenario.from_toml(_network(draw, with_middle=with_middle), name)
    distractor = draw.choice(DISTRACTORS)
    chosen = scenario.with_settings((*settings, *distractor))
    try:
        chosen.validate()
    except ValueError:
        chosen = scenario.with_settings(settings)
    return Case(fault, chosen)


def score(case: Case, jobs: int = 1, explained: Callable[[Scenario, Options], Explanation] = explain) -> Score:
    """Explain a case and label it."""
    found = explained(case.scenario, Options(seed=1, reps=3, jobs=jobs, time_limit_s=TIME_LIMIT_S))
    labelled = label(case, jobs, explained)
    gains = {each.settings: each for each in (*labelled.findings, *labelled.others) if each.settings}
    best = max(gains.values(), key=lambda each: each.net, default=None)
    first = gains.get(found.first.settings)
    gain = 0.0 if first is None else first.net
    largest = 0.0 if best is None else max(0.0, best.net)
    kind = "" if best is None else best.kind
    return Score(case.fault, found.first.kind, gain, largest, kind, found.runs + labelled.runs)


def label(case: Case, jobs: int = 1, explained: Callable[[Scenario, Options], Explanation] = explain) -> Explanation:
    """All remedies of a case, with another seed and another start."""
    later = case.scenario.set("flow.F.start", "0.037 s")
    return explained(later, Options(seed=_LABEL_SEED, reps=1, jobs=jobs, time_limit_s=TIME_LIMIT_S))


def _network(draw: random.Random, *, with_middle: bool) -> str:
    """Two links of random rates, delays and queues of one to two round trips; a fast second half with a middle."""
    text = 'duration = "6 s"\nwarmup = "1 s"\n'
    for name in ("a", "b"):
        rate, delay = draw.choice((4, 8, 12, 16)), draw.choice((5, 10, 20, 30))
        packets = round(draw.uniform(1.0, 2.0) * max(20.0, rate * 1e6 * 2e-3 * delay / 8.0 / 1500.0))
        end, own = (f"M{name}", delay / 2) if with_middle else ("D", delay)
        text += (
            f'[[link]]\nname = "{name}"\nbetween = ["S", "{end}"]\nrate = "{rate} Mbit/s"\ndelay = "{own:g} ms"\n'
            f'queue = {{ kind = "fifo", limit = "{packets} packets" }}\nreverse = {{ rate = "{rate} Mbit/s" }}\n'
        )
        if with_middle:
            text += (
                f'[[link]]\nname = "{name}2"\nbetween = ["{end}", "D"]\nrate = "1 Gbit/s"\n'
                f'delay = "{delay - own:g} ms"\n'
            )
    return text + '[[flow]]\nname = "F"\nfrom = "S"\nto = "D"\nprotocol = "mptcp"\n'
