"""Regret of `anabranch advise` against an exhaustive search, over random pairs of links.

Each pair is drawn from `random.Random("SEED/NUMBER")`. All combinations of settings of Linux run over a pair with the
first seed of the search. The best ones, and the best one with each congestion control, run with all of its seeds, as
the advised one does. The regret is the loss of the advised combination against the best of these. It is measured with
further seeds, since the seeds that select a combination exaggerate its result. Two answers without a search have a
regret, too: the defaults, and the single combination that is best on average over the other pairs.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.advise.aims import Aim
from anabranch.advise.choices import Choice, access_links, current, dimensions
from anabranch.advise.links import scenario_of
from anabranch.advise.search import Options, advise, spread
from anabranch.errors import InputError
from anabranch.explain.facts import Facts
from anabranch.explain.objective import Objective
from anabranch.explain.trials import Trials, is_valid, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch.scenario import Scenario

AIMS = ("goodput", "delay", "fair")
MAX_REGRETS = {"goodput": (0.01, 0.05), "delay": (0.03, 0.15), "fair": (0.01, 0.05)}
"""By aim, the required median and 95 % quantile of the regret."""
DOWN_MBPS = (1.0, 30.0)
MIN_UP_SHARE = 0.1
ROUND_TRIP_MS = (10.0, 200.0)
QUEUE_BYTES = (30_000, 2_000_000)
LOSS_PERCENT = (0.01, 1.0)
_VERIFIED = 5
"""Best combinations of the exhaustive search that run with all seeds."""
_FIRST_UNUSED_SEED = 1000
_MEASURING_SEEDS = 20
_NO_LIMIT_S = 86_400.0


@dataclass(frozen=True)
class Pair:
    """Two links in the form of `--link`."""

    number: int
    links: tuple[str, str]

    @property
    def scenario(self) -> Scenario:
        """A bulk transfer over the links with the defaults of Linux."""
        return scenario_of(self.links, is_upload=False, on_linux=True)


@dataclass(frozen=True)
class Outcome:
    """The values of the objective over a pair for one aim: bit/s, or seconds."""

    pair: Pair
    aim: str
    is_time: bool
    advised: Choice
    value: float
    """Mean of the advised combination over the seeds that measure."""
    best: Choice
    best_value: float
    """Mean of the best combination over the seeds that measure."""
    values: Mapping[Choice, float]
    """All combinations of the exhaustive search that meet the aim, with the first seed."""
    runs: int
    """Runs of `advise`."""
    elapsed_s: float
    """Time of `advise`, seconds."""
    is_complete: bool
    """Whether the search of `advise` ended before its time limit."""

    @property
    def regret(self) -> float:
        """Share by which the advised combination is worse than the best one."""
        return self.loss(self.value, self.best_value)

    def loss(self, value: float, best: float) -> float:
        """Share by which a value is worse than the best one; 1 for twice the time."""
        if value == best:
            return 0.0
        return max(0.0, value / best - 1.0 if self.is_time else 1.0 - value / best)

    def loss_of(self, choice: Choice) -> float:
        """The loss of a combination with the first seed; all of it if it does not meet the aim or is not valid."""
        best = min(self.values.values()) if self.is_time else max(self.values.values())
        return self.loss(self.values[choice], best) if choice in self.values else math.inf

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "pair": self.pair.number, "links": list(self.pair.links), "aim": self.aim, "advised": self.advised.label,
            "best": self.best.label, "value": self.value, "best_value": self.best_value, "regret": self.regret,
            "combinations": len(self.values), "runs": self.runs, "elapsed_s": self.elapsed_s,
            "complete": self.is_complete,
        }  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The regrets of an aim over all pairs."""

    aim: str
    outcomes: tuple[Outcome, ...]

    def regrets(self) -> dict[str, list[float]]:
        """Regrets by pair: of the advice, of today's defaults, and of the best constant of the other pairs."""
        return {
            "advise": [each.regret for each in self.outcomes],
            "defaults": [each.loss_of(self._start(each)) for each in self.outcomes],
            "constant": [each.loss_of(self._constant(each)) for each in self.outcomes],
        }

    @property
    def is_met(self) -> bool:
        """Whether median and 95 % quantile of the regret are within the bounds."""
        median, tail = quantiles(self.regrets()["advise"])
        return median <= MAX_REGRETS[self.aim][0] and tail <= MAX_REGRETS[self.aim][1]

    def document(self) -> dict[str, object]:
        """The quantiles and all pairs as a value for JSON."""
        named = {name: quantiles(values) for name, values in self.regrets().items()}
        return {
            "aim": self.aim, "pairs": len(self.outcomes), "passed": self.is_met,
            "regret": {
                name: {"median": _finite(median), "p95": _finite(tail)} for name, (median, tail) in named.items()
            },
            "outcomes": [each.document() for each in self.outcomes],
        }  # fmt: skip

    def _start(self, outcome: Outcome) -> Choice:
        """The defaults, or for an aim that they do not meet the simplest combination that does."""
        return min(outcome.values, key=lambda choice: (len(choice.changes), choice.buffer_bytes(), choice.label))

    def _constant(self, outcome: Outcome) -> Choice:
        """The combination with the smallest mean loss over the other pairs."""
        others = [each for each in self.outcomes if each is not outcome]
        if not others:
            return self._start(outcome)
        losses = {choice: [each.loss_of(choice) for each in others] for choice in others[0].values}
        return min(losses, key=lambda choice: (statistics.fmean(losses[choice]), len(choice.changes), choice.label))


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Median and 95 % quantile: the smallest value that 95 % of the values do not exceed."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[math.ceil(0.95 * len(ordered)) - 1]


def draw(seed: int, number: int) -> Pair:
    """Draw the pair of a number, from 1 on; logarithms are uniform, and half of the links lose no packets at random."""
    source = random.Random(f"{seed}/{number}")

    def logarithmic(low: float, high: float) -> float:
        return float(f"{math.exp(source.uniform(math.log(low), math.log(high))):.3g}")

    def link(name: str) -> str:
        down = logarithmic(*DOWN_MBPS)
        up = logarithmic(MIN_UP_SHARE * down, down)
        trip, queue = logarithmic(*ROUND_TRIP_MS), round(logarithmic(*QUEUE_BYTES))
        loss = logarithmic(*LOSS_PERCENT)
        lossy = f",loss={loss:g}%" if source.random() < 0.5 else ""  # noqa: PLR2004  a coin toss
        return f"{name}:{down:g}/{up:g}Mbit,{trip:g}ms,queue={queue}B{lossy}"

    return Pair(number, (link("one"), link("two")))


def compare(
    pairs: Sequence[Pair], aims: Sequence[str], options: Options, advance: Callable[[], None] | None = None
) -> list[Verdict]:
    """Advise on all pairs and search all combinations.

    Args:
        pairs: Pairs of links.
        aims: Aims of `AIMS`.
        options: Settings to search, seeds, processes and time limit of the advice; its aim does not count.
        advance: Function that is called after each pair.

    Raises:
        InputError: If the time limit is too short for an advice.
        RunFailed: If a run breaks off.

    """
    found: dict[str, list[Outcome]] = {aim: [] for aim in aims}
    for pair in pairs:
        with Trials(options.jobs, _NO_LIMIT_S) as trials:
            whole = _Whole(pair, trials, options)
            for aim in aims:
                found[aim].append(whole.outcome(aim))
        if advance is not None:
            advance()
    return [Verdict(aim, tuple(outcomes)) for aim, outcomes in found.items()]


class _Whole:
    """The exhaustive search over a pair, whose runs serve all aims."""

    def __init__(self, pair: Pair, trials: Trials, options: Options) -> None:
        first = trials.first(pair.scenario, None)
        self._pair = pair
        self._options = options
        self._trials = trials
        self._facts = facts = Facts.of(first, None)
        self._base = current(facts)
        self._scenario = pair.scenario.with_settings(spread(facts))
        self._seeds = [int(first["seed"]) + number for number in range(options.reps)]
        self._unused_seeds = [int(first["seed"]) + _FIRST_UNUSED_SEED + number for number in range(_MEASURING_SEEDS)]
        self._documents: dict[tuple[Choice, int], Document] = {}
        self._run(list(self._combinations()), self._seeds[:1])

    def outcome(self, aim: str) -> Outcome:
        """Advise with an aim, and compare with the best of all combinations."""
        wanted = Aim.parse(aim, {name: self._facts.first_path(name) for name in access_links(self._facts)})
        objective = Objective.of(self._documents[Choice(), self._seeds[0]], self._facts.name, wanted.objective)
        values = {
            choice: objective.value(document)
            for (choice, seed), document in self._documents.items()
            if seed == self._seeds[0] and wanted.allows(choice, self._base)
        }
        advice = advise(self._pair.scenario, replace(self._options, aim=aim))
        tried = [*self._candidates(values, is_time=objective.is_time), advice.best.choice]
        best = self._best(tried, objective)
        means = self._means(dict.fromkeys([best, advice.best.choice]), self._unused_seeds, objective)
        return Outcome(
            pair=self._pair,
            aim=aim,
            is_time=objective.is_time,
            advised=advice.best.choice,
            value=means[advice.best.choice],
            best=best,
            best_value=means[best],
            values=values,
            runs=advice.runs,
            elapsed_s=advice.elapsed_s,
            is_complete=advice.is_complete,
        )

    def _candidates(self, values: Mapping[Choice, float], *, is_time: bool) -> list[Choice]:
        """The best combinations with the first seed, and the best one with each congestion control."""
        ordered = sorted(values, key=lambda choice: values[choice] if is_time else -values[choice])
        by_control: dict[object, Choice] = {}
        for choice in ordered:
            by_control.setdefault(dict(choice.changes).get("congestion"), choice)
        return list(dict.fromkeys([*ordered[:_VERIFIED], *by_control.values()]))

    def _best(self, tried: Sequence[Choice], objective: Objective) -> Choice:
        means = self._means(tried, self._seeds, objective)
        return min(means, key=lambda choice: means[choice] if objective.is_time else -means[choice])

    def _means(self, choices: Iterable[Choice], seeds: Sequence[int], objective: Objective) -> dict[Choice, float]:
        tried = list(choices)
        self._run(tried, seeds)
        return {
            choice: statistics.fmean(objective.value(self._documents[choice, seed]) for seed in seeds)
            for choice in tried
        }

    def _combinations(self) -> Iterator[Choice]:
        """All valid combinations of today's values and those that the search tries."""
        searched = self._options.only or dimensions(self._facts, self._options.may)
        values = [dict.fromkeys((self._base.get(each.key), *each.values)) for each in searched]
        for combination in itertools.product(*values):
            choice = Choice()
            for dimension, value in zip(searched, combination, strict=True):
                choice = choice.having(dimension.key, value, self._base)
            if is_valid(self._scenario, choice.settings(self._facts.name)):
                yield choice

    def _run(self, choices: Sequence[Choice], seeds: Sequence[int]) -> None:
        missing = [
            (choice, seed)
            for choice, seed in dict.fromkeys(itertools.product(choices, seeds))
            if (choice, seed) not in self._documents
        ]
        requests = [request(self._scenario, seed, choice.settings(self._facts.name)) for choice, seed in missing]
        for key, document in zip(missing, self._trials.run(requests), strict=True):
            if document is None:
                raise InputError(f"pair {self._pair.number}: no run of {key[0].label}; is the scenario valid?")
            self._documents[key] = document


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
