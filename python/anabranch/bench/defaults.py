"""Compares the default mechanisms of a multipath protocol with all other combinations, over random pairs of paths.

Each pair is drawn from `random.Random("SEED/NUMBER")`: pair 7 of seed 1 is the same for any number of pairs and both
protocols. All combinations of mechanisms run over a pair with the same seed and buffers. The single-path protocol runs
with them on each path alone.
"""

from __future__ import annotations

import itertools
import math
import random
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch._core.simulator import Request, simulate
from anabranch.errors import RunFailed
from anabranch.study.local import LocalPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.study.worker import Outcome

Protocol = Literal["mptcp", "cmt-sctp"]

DURATION_S = 30
WARMUP_S = 10
PACKET_BYTES = 1500

RATE_MBPS = (0.5, 100.0)
MIN_RETURN_MBPS = 0.04
ROUND_TRIP_MS = (5.0, 800.0)
MAX_RETURN_PACKETS = 100
QUEUE_BYTES = (10 * PACKET_BYTES, 4_000_000)
LOSS = (0.0001, 0.01)
BUFFER_BYTES = (128_000, 8_000_000)

NEAR_BEST = 0.97
"""Required goodput of the defaults, as a share of the best combination's."""
NEAR_BEST_PAIRS = 0.95
"""Required share of pairs with `NEAR_BEST`."""
NEAR_SINGLE = 0.95
"""Required goodput of the defaults, as a share of the better single path's, in pairs where a combination reaches it."""

_WAIT_S = 0.2


@dataclass(frozen=True)
class Link:
    """One path: a link whose forward direction carries the data."""

    rate_mbps: float
    return_mbps: float
    round_trip_ms: float
    """Round-trip time without queueing and transmission."""
    queue_bytes: int
    """Queue of the forward direction; the queue of the return link has the same number of packets, at most 100."""
    loss: float
    """Probability of the loss of a packet in each direction."""

    def toml(self, name: str) -> str:
        """The link as a table of a scenario."""
        loss = f'loss = {{ model = "bernoulli", rate = {self.loss:g} }}\n' if self.loss else ""
        return (
            f'[[link]]\nname = "{name}"\nbetween = ["A", "B"]\nrate = "{self.rate_mbps:g} Mbit/s"\n'
            f'delay = "{self.round_trip_ms / 2:g} ms"\nqueue = {{ kind = "fifo", limit = "{self.queue_bytes} B" }}\n'
            f'{loss}reverse = {{ rate = "{self.return_mbps:g} Mbit/s", queue = {{ kind = "fifo", limit = '
            f'"{min(MAX_RETURN_PACKETS, self.queue_bytes // PACKET_BYTES)} packets" }} }}\n'
        )

    def __str__(self) -> str:
        slow = "" if self.return_mbps == self.rate_mbps else f"/{self.return_mbps:.2g}"
        loss = f", {100 * self.loss:.2g} %" if self.loss else ""
        return f"{self.rate_mbps:.3g}{slow} Mbit/s, {self.round_trip_ms:.3g} ms, {self.queue_bytes / 1000:.3g} kB{loss}"


@dataclass(frozen=True)
class Pair:
    """Two paths and the flow over them."""

    number: int
    seed: int
    """Seed of the simulations."""
    links: tuple[Link, Link]
    buffer_bytes: int
    """Size of the send buffer and of the receive buffer."""
    ordered: bool
    """Whether the messages of an SCTP flow are ordered."""

    def scenario(self, flow: Mapping[str, str], links: Sequence[int] = (0, 1)) -> str:
        """The scenario as TOML, with some keys of its flow set and some of the links."""
        keys = {
            "from": '"A"', "to": '"B"', **flow,
            "send_buffer": f'"{self.buffer_bytes} B"', "receive_buffer": f'"{self.buffer_bytes} B"',
        }  # fmt: skip
        if "sctp" in flow["protocol"]:
            keys["ordered"] = "true" if self.ordered else "false"
        head = (
            f'title = "pair {self.number}"\nduration = "{DURATION_S} s"\nwarmup = "{WARMUP_S} s"\nseed = {self.seed}\n'
        )
        tables = [self.links[i].toml(("one", "two")[i]) for i in links]
        lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
        return "\n".join([head, *tables, f'[[flow]]\nname = "F"\n{lines}'])


@dataclass(frozen=True)
class Variant:
    """A protocol with its settings, and the links of a pair that it uses."""

    name: str
    flow: Mapping[str, str]
    links: tuple[int, ...] = (0, 1)


@dataclass(frozen=True)
class Comparison:
    """Goodputs over a pair, in bit/s."""

    pair: Pair
    combinations: Mapping[str, float]
    """Goodput by name of the combination."""
    singles: tuple[float, float]
    """Goodput of the single-path protocol on each path."""

    @property
    def default(self) -> float:
        """Goodput of the defaults."""
        return self.combinations[DEFAULTS]

    @property
    def best(self) -> tuple[str, float]:
        """The best combination and its goodput; the defaults if no other combination is better."""
        name = max(self.combinations, key=lambda name: (self.combinations[name], name == DEFAULTS))
        return name, self.combinations[name]

    @property
    def share_of_best(self) -> float:
        """Goodput of the defaults as a share of that of the best combination."""
        best = self.best[1]
        return self.default / best if best else 1.0

    @property
    def share_of_single(self) -> float:
        """Goodput of the defaults as a share of that of the better single path."""
        single = max(self.singles)
        return self.default / single if single else 1.0

    @property
    def is_below_single(self) -> bool:
        """Whether a combination reaches `NEAR_SINGLE` of the better single path, but the defaults do not."""
        wanted = NEAR_SINGLE * max(self.singles)
        return self.default < wanted <= self.best[1]


@dataclass(frozen=True)
class Verdict:
    """Result of the comparison over all pairs."""

    protocol: Protocol
    comparisons: tuple[Comparison, ...]

    @property
    def near_best(self) -> int:
        """Number of pairs in which the defaults reach `NEAR_BEST` of the best combination."""
        return sum(c.share_of_best >= NEAR_BEST for c in self.comparisons)

    @property
    def below_single(self) -> int:
        """Number of pairs in which a combination reaches `NEAR_SINGLE`, but the defaults do not."""
        return sum(c.is_below_single for c in self.comparisons)

    @property
    def is_met(self) -> bool:
        """Whether the defaults meet all requirements."""
        return self.near_best >= NEAR_BEST_PAIRS * len(self.comparisons) and self.below_single == 0

    def worst(self, count: int) -> list[Comparison]:
        """The pairs with the largest loss of the defaults; pairs below a single path come first."""
        return sorted(self.comparisons, key=lambda c: (not c.is_below_single, c.share_of_best))[:count]


DEFAULTS = "defaults"
"""Name of the combination without any setting."""


def combinations(protocol: Protocol) -> list[Variant]:
    """All different combinations of a protocol's mechanisms; the first one is the combination of the defaults."""
    flow = {"protocol": f'"{protocol}"'}
    found = [Variant(DEFAULTS, flow)]
    if protocol == "mptcp":
        # Penalisation needs opportunistic retransmission.
        found.append(Variant("neither", {**flow, "opportunistic_retransmission": "false", "penalisation": "false"}))
        for word, penalisation in (("only", "false"), ("and penalisation of any", '"any"')):
            found.append(Variant(f"retransmission {word}", {**flow, "penalisation": penalisation}))
        return found
    for splitting, (word, rescheduling, penalisation) in itertools.product(
        ("both", "none"), (("nothing", "false", "false"), ("rescheduling", "0.4", "false"), ("both", "0.4", "true"))
    ):
        if (splitting, word) == ("both", "both"):
            continue  # the defaults
        named = {"nothing": "", "rescheduling": "rescheduling", "both": "rescheduling, penalisation"}[word]
        name = ", ".join(filter(None, ("splitting" if splitting == "both" else "", named))) or "none"
        found.append(
            Variant(
                name,
                {
                    **flow,
                    "buffer_splitting": f'"{splitting}"',
                    "chunk_rescheduling": rescheduling,
                    "penalisation": penalisation,
                },
            )
        )
    return found


def singles(protocol: Protocol) -> list[Variant]:
    """The single-path protocol on each path."""
    alone = {"protocol": '"tcp"' if protocol == "mptcp" else '"sctp"'}
    return [Variant(f"alone on {name}", alone, (i,)) for i, name in enumerate(("one", "two"))]


def draw(seed: int, number: int) -> Pair:
    """Draw the pair of a number, from 1 on.

    The logarithms of rates, round trips, queues, losses and buffers are uniform. Half of the return links have the rate
    of the forward direction. Half of the links have no loss. Half of the SCTP flows are unordered.
    """
    source = random.Random(f"{seed}/{number}")

    def logarithmic(low: float, high: float) -> float:
        return float(f"{math.exp(source.uniform(math.log(low), math.log(high))):.3g}")

    def link() -> Link:
        rate = logarithmic(*RATE_MBPS)
        back = logarithmic(MIN_RETURN_MBPS, rate)
        is_slow = source.random() < 0.5  # noqa: PLR2004  a coin toss
        round_trip = logarithmic(*ROUND_TRIP_MS)
        queue = round(logarithmic(*QUEUE_BYTES))
        loss = logarithmic(*LOSS)
        is_lossy = source.random() < 0.5  # noqa: PLR2004  a coin toss
        return Link(rate, back if is_slow else rate, round_trip, queue, loss if is_lossy else 0.0)

    links = (link(), link())
    buffer = round(logarithmic(*BUFFER_BYTES))
    return Pair(number, source.randrange(1, 2**31), links, buffer, source.random() < 0.5)  # noqa: PLR2004  a coin toss


def compare(protocol: Protocol, pairs: Sequence[Pair], jobs: int, advance: Callable[[], None] | None = None) -> Verdict:
    """Run all combinations over all pairs.

    Args:
        protocol: The multipath protocol.
        pairs: Pairs of paths.
        jobs: Number of processes.
        advance: Function that is called after each run.

    Raises:
        RunFailed: If a run fails or a process dies.

    """
    variants = [*combinations(protocol), *singles(protocol)]
    tasks = [(pair, variant) for pair in pairs for variant in variants]
    found: list[float] = [0.0] * len(tasks)
    with closing(LocalPool(simulate, jobs)) as pool:
        for ticket, outcome in _outcomes(pool, [_request(*task) for task in tasks]):
            if outcome.document is None:
                pair, variant = tasks[ticket]
                raise RunFailed(f"pair {pair.number}, {variant.name}: {outcome.mistake or outcome.failure}")
            found[ticket] = outcome.document["flows"][0]["goodput_bps"]
            if advance is not None:
                advance()
    width = len(variants)
    comparisons = []
    for i, pair in enumerate(pairs):
        goodputs = found[i * width : (i + 1) * width]
        named = {v.name: g for v, g in zip(variants[:-2], goodputs[:-2], strict=True)}
        comparisons.append(Comparison(pair, named, (goodputs[-2], goodputs[-1])))
    return Verdict(protocol, tuple(comparisons))


def _request(pair: Pair, variant: Variant) -> Request:
    return Request(pair.scenario(variant.flow, variant.links), f"pair {pair.number}, {variant.name}")


def _outcomes(pool: LocalPool, requests: Sequence[Request]) -> Iterator[tuple[int, Outcome]]:
    """All outcomes in the order of their ends; an interrupt kills the current runs."""
    waiting = iter(enumerate(requests))
    pending = 0
    try:
        while True:
            for ticket, request in itertools.islice(waiting, pool.capacity - pending):
                pool.submit(ticket, request)
                pending += 1
            if not pending:
                return
            ended = pool.take(_WAIT_S)
            pending -= len(ended)
            yield from ended
    except KeyboardInterrupt:
        pool.kill()
        raise
