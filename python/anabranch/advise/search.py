"""The search for settings: coordinate descent from today's, then further seeds for the best and for simpler choices.

All runs have the full length, and all choices run with the same seeds (common random numbers). Where the results vary
much with the seed, the descent uses several seeds. The choices that the seeds do not distinguish run with more of them.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import LARGEST_SEED
from anabranch.advise.aims import Aim
from anabranch.advise.choices import Choice, access_links, commands, current, dimensions
from anabranch.advise.limits import REPS, TIME_LIMIT_S
from anabranch.errors import InputError
from anabranch.explain.facts import Facts
from anabranch.explain.finding import Measured
from anabranch.explain.objective import Objective
from anabranch.explain.trials import Trials, is_valid, request, spread_starts
from anabranch.extras import require
from anabranch.scenario import Scenario
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch._core.document import Document
    from anabranch.advise.choices import Dimension

MIN_GAIN = 0.01
"""Gain below which a choice counts as equal to a simpler one, in addition to the interval."""
_SEARCH_SHARE = 0.6
"""Share of the time limit for the descent."""
_MAX_SWEEPS = 4
_VERIFIED_CHOICES = 4
"""Number of best choices of the descent that run with all seeds."""
_MIN_NOISE = 0.02
"""Standard deviation over the mean of the first settings' results from which the descent uses several seeds."""
_NOISY_SEEDS = 3
_MAX_ROUNDS = 4
"""Largest number of seeds of contested choices, as a multiple of `Options.reps`."""
_MIN_CONTESTED_GAIN = 0.03
"""Gain of the best choice below which a simpler one is named without further seeds if the interval includes no gain."""
_ROUND_SHARE = 0.5
"""Share of the remaining time that one round of further seeds may use."""


@dataclass(frozen=True)
class Options:
    """The objective, the settings and the limits of a search."""

    aim: str = "goodput"
    """Quantity to improve, one of `aims.NAMES`."""
    may: str = "linux"
    """"linux" for settings that Linux has, "all" for those of our stack."""
    reps: int = REPS
    jobs: int = 1
    time_limit_s: float = TIME_LIMIT_S
    only: tuple[Dimension, ...] = ()
    """Settings to search; if empty, those that `may` permits."""


@dataclass(frozen=True)
class Row:
    """A choice with its gains over today's settings, pair by pair."""

    choice: Choice
    measured: Measured
    is_single_link: bool = False

    @property
    def value(self) -> float:
        """Mean of the objective, in its unit."""
        return self.measured.ends[1]

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "changes": {key: list(v) if isinstance(v, tuple) else v for key, v in self.choice.changes},
            "only_one_link": self.is_single_link,
            **self.measured.document(),
        }


@dataclass(frozen=True)
class Advice:
    """The answer: the advised choice, and all that ran with every seed, best first."""

    flow: str
    aim: str
    best: Row
    rows: tuple[Row, ...]
    over_single: float | None
    """Gain of the advised choice over the best single link, as a share; `None` if no single link ran."""
    competitors: dict[str, tuple[float, float]]
    """By link, goodput of a competing TCP flow next to today's settings and next to the advised ones, bit/s."""
    commands: tuple[str, ...]
    runs: int
    elapsed_s: float
    is_complete: bool
    """Whether the descent ended before the time limit."""

    @property
    def leaves_it(self) -> bool:
        """Whether the best choice keeps today's settings."""
        return not self.best.choice.changes

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "flow": self.flow,
            "aim": self.aim,
            "leave_as_it_is": self.leaves_it,
            "advised": self.best.document(),
            "commands": list(self.commands),
            "gain_over_best_single_link": self.over_single,
            "competing_tcp_bps": {
                link: {"today": before, "advised": after} for link, (before, after) in self.competitors.items()
            },
            "ranking": [row.document() for row in self.rows],
            "complete": self.is_complete,
            "runs": self.runs,
            "elapsed_s": self.elapsed_s,
        }


def advise(scenario: Scenario, options: Options | None = None) -> Advice:
    """Choose settings for a scenario's Multipath TCP flow.

    Raises:
        InputError: If the scenario is not valid or has no such flow, or the aim is unknown.
        RunFailed: If a run breaks off.

    """
    require("statistics", "a choice of settings")
    chosen = options or Options()
    with Trials(chosen.jobs, chosen.time_limit_s) as trials:
        return _Search(scenario, trials, chosen).advice()


class _Search:
    """The runs of one search."""

    def __init__(self, scenario: Scenario, trials: Trials, options: Options) -> None:
        first = trials.first(scenario, None)
        self._trials = trials
        self._options = options
        self._facts = facts = Facts.of(first, None)
        self._aim = Aim.parse(options.aim, {name: facts.first_path(name) for name in access_links(facts)})
        self._dimensions = self._aim.restricted(options.only or dimensions(facts, options.may))
        self._base = current(facts)
        self._objective = Objective.of(first, facts.name, self._aim.objective)
        self._seed = int(first["seed"])
        self._descent_seeds = [self._seed]
        self._scenario = scenario.with_settings(spread(facts))
        self._documents: dict[tuple[Choice, int], Document] = {}
        self._is_complete = True

    def advice(self) -> Advice:
        """Search, verify, and choose the simplest of equal choices."""
        start = self._aim.start(self._base)
        self._run([Choice(), start], self._seeds)
        if not self._has_all(Choice()) or not self._has_all(start):
            raise InputError("the time limit ended before the first settings had run; give a larger --time-limit")
        if self._is_noisy(start):
            self._descent_seeds = self._seeds[:_NOISY_SEEDS]
        singles = self._singles()
        verified = self._verified(self._descend(start), singles)
        allowed = [choice for choice in verified if self._aim.allows(choice, self._base)]
        best = self._simplest(allowed, self._settled(allowed))
        self._run([best], [seed for seed in self._possible_seeds if self._has(Choice(), [seed])])
        rows = [self._row(choice, choice in singles) for choice in verified]
        alone = [choice for choice in singles if self._has_all(choice)]
        single = min(alone, key=self._rank, default=None)
        over = None if single is None else self._measured(single, best).relative
        return Advice(
            flow=self._facts.name,
            aim=self._aim.text,
            best=next(row for row in rows if row.choice == best),
            rows=tuple(rows),
            over_single=over,
            competitors=self._competitors(best),
            commands=tuple(commands(best, self._options.may, self._facts.name)),
            runs=self._trials.runs,
            elapsed_s=self._trials.elapsed_s,
            is_complete=self._is_complete,
        )

    @property
    def _seeds(self) -> list[int]:
        return self._seeds_of_rounds(0, 1)

    @property
    def _possible_seeds(self) -> list[int]:
        return self._seeds_of_rounds(0, _MAX_ROUNDS)

    def _seeds_of_rounds(self, begin: int, end: int) -> list[int]:
        reps = self._options.reps
        return [(self._seed + number) % LARGEST_SEED for number in range(begin * reps, end * reps)]

    def _is_noisy(self, choice: Choice) -> bool:
        """Whether the standard deviation of the results over the seeds exceeds `_MIN_NOISE` of their mean."""
        values = [self._objective.value(self._documents[choice, seed]) for seed in self._seeds]
        if len(values) < 2 or not all(map(math.isfinite, values)):  # noqa: PLR2004  no spread
            return False
        return statistics.stdev(values) > _MIN_NOISE * statistics.fmean(values)

    def _descend(self, best: Choice) -> Choice:
        """The best choice that no change of one setting improves, nor of the first two together."""
        pairs = self._pairs()
        for _ in range(_MAX_SWEEPS):
            before = best
            for dimension in self._dimensions:
                best = self._better(best, [((dimension.key, value),) for value in dimension.values])
            if best == before:
                best, pairs = self._better(best, pairs), []
            if best == before:
                return best
        return best

    def _verified(self, found: Choice, singles: Sequence[Choice]) -> list[Choice]:
        """The choices that ran with all seeds, best first: the best of the descent, simpler ones, and single links."""
        tried = {choice for choice, _ in self._documents}
        ranked = sorted((each for each in tried if self._has(each, self._descent_seeds)), key=self._descent_rank)
        shorter = [found.without(key) for key, _ in found.changes]
        shorter = [choice for choice in shorter if self._aim.allows(choice, self._base)]
        self._run([found, *singles, *ranked[:_VERIFIED_CHOICES], *shorter], self._seeds)
        return sorted({choice for choice, _ in self._documents if self._has_all(choice)}, key=self._rank)

    def _settled(self, verified: Sequence[Choice]) -> Choice:
        """The best choice after further seeds for it and for the choices that its interval does not exclude.

        Args:
            verified: Choices that ran with all seeds, best first.

        """
        left = list(verified)
        for number in range(1, _MAX_ROUNDS):
            left = [left[0], *(each for each in left[1:] if self._is_contested(each, left[0]))]
            if len(left) == 1:
                break
            further = self._seeds_of_rounds(number, number + 1)
            self._run([Choice(), *left], further, _ROUND_SHARE)
            if not all(self._has(each, further) for each in left):
                break
            seeds = self._seeds_of_rounds(0, number + 1)
            left.sort(key=lambda choice: self._order(choice, seeds))
        return left[0]

    def _is_contested(self, choice: Choice, best: Choice) -> bool:
        """Whether the best choice gains much in the mean, and its interval includes no gain."""
        measured = self._measured(choice, best)
        return measured.relative >= _MIN_CONTESTED_GAIN and self._ties(choice, best)

    def _pairs(self) -> list[tuple[tuple[str, Any], ...]]:
        """Changes of the first two settings together: a larger buffer may help only with another control."""
        first, second = self._dimensions[:2] if len(self._dimensions) > 1 else (None, None)
        if first is None or second is None:
            return []
        return [((first.key, one), (second.key, other)) for one in first.values for other in second.values]

    def _better(self, best: Choice, changes: Sequence[tuple[tuple[str, Any], ...]]) -> Choice:
        """The best of a choice and its variants with these changes."""
        variants = []
        for change in changes:
            variant = best
            for key, value in change:
                variant = variant.having(key, value, self._base)
            variants.append(variant)
        self._run(variants, self._descent_seeds, self._search_share())
        return min([best, *(each for each in variants if self._has(each, self._descent_seeds))], key=self._descent_rank)

    def _search_share(self) -> float:
        """Share of the remaining time that the descent may use."""
        limit_s, used_s = self._options.time_limit_s, self._trials.elapsed_s
        return max(0.0, _SEARCH_SHARE * limit_s - used_s) / max(1e-9, limit_s - used_s)

    def _run(self, choices: Sequence[Choice], seeds: Sequence[int], share: float = 1.0) -> None:
        """Run choices that have not run yet, seed by seed."""
        wanted = dict.fromkeys((choice, seed) for seed in seeds for choice in choices)
        name = self._facts.name
        missing = [
            (choice, seed)
            for choice, seed in wanted
            if (choice, seed) not in self._documents and is_valid(self._scenario, choice.settings(name))
        ]
        requests = [request(self._scenario, seed, choice.settings(name)) for choice, seed in missing]
        for key, document in zip(missing, self._trials.run(requests, share), strict=True):
            if document is not None:
                self._documents[key] = document
            else:
                self._is_complete = False

    def _order(self, choice: Choice, seeds: Sequence[int]) -> tuple[float, int, float, str]:
        """Order of choices: by the mean objective over seeds, then the simpler one."""
        mean = statistics.fmean(self._objective.value(self._documents[choice, seed]) for seed in seeds)
        return (mean if self._objective.is_time else -mean), *_simplicity(choice)

    def _rank(self, choice: Choice) -> tuple[float, int, float, str]:
        return self._order(choice, self._seeds)

    def _descent_rank(self, choice: Choice) -> tuple[float, int, float, str]:
        return self._order(choice, self._descent_seeds)

    def _has(self, choice: Choice, seeds: Sequence[int]) -> bool:
        return all((choice, seed) in self._documents for seed in seeds)

    def _has_all(self, choice: Choice) -> bool:
        return self._has(choice, self._seeds)

    def _singles(self) -> list[Choice]:
        """Each link alone with today's other settings: the connection begins there, and all others are backup."""
        links = access_links(self._facts)
        if len(links) < 2:  # noqa: PLR2004  a single link has nothing to be compared with
            return []
        return [
            Choice()
            .having("backup", tuple(sorted(other for other in links if other != name)), self._base)
            .having("initial_path", self._facts.first_path(name), self._base)
            for name in links
        ]

    def _measured(self, before: Choice, after: Choice) -> Measured:
        """The gains over all seeds with which both ran."""
        seeds = [seed for seed in self._possible_seeds if self._has_pair(before, after, seed)]
        pairs = [(self._documents[before, seed], self._documents[after, seed]) for seed in seeds]
        return Measured(self._objective, tuple(self._objective.gain(*pair) for pair in pairs))

    def _has_pair(self, before: Choice, after: Choice, seed: int) -> bool:
        return self._has(before, [seed]) and self._has(after, [seed])

    def _row(self, choice: Choice, is_single: bool) -> Row:
        return Row(choice, self._measured(Choice(), choice), is_single)

    def _simplest(self, verified: Sequence[Choice], best: Choice) -> Choice:
        """The simplest choice that ties with the best one."""
        return min((each for each in verified if self._ties(each, best)), key=_simplicity)

    def _ties(self, choice: Choice, best: Choice) -> bool:
        """Whether the best choice gains less than `MIN_GAIN`, or its interval includes no gain."""
        measured = self._measured(choice, best)
        bounds = measured.interval
        return measured.relative < MIN_GAIN or (bounds is not None and bounds.low <= 0.0)

    def _competitors(self, best: Choice) -> dict[str, tuple[float, float]]:
        """Goodput of a TCP flow on each link, next to today's settings and next to the advised ones."""
        links, facts = access_links(self._facts), self._facts
        ends = (facts.flow["from"], facts.flow.get("through") or facts.flow["to"])
        flows = [
            {"name": f"tcp-on-{link}", "from": ends[0], "to": ends[1], "protocol": "tcp", "congestion": "cubic",
             "initial_path": facts.first_path(link)}
            for link in links
        ]  # fmt: skip
        whole = {**facts.spelt_out, "flow": [*facts.spelt_out["flow"], *flows]}
        text = "\n".join(setting(key, value) for key, value in whole.items())
        crowded = Scenario.from_toml(text, self._scenario.file)
        pair = [request(crowded, self._seed, choice.settings(facts.name)) for choice in (Choice(), best)]
        before, after = self._trials.run(pair)
        if before is None or after is None:
            return {}
        return {link: (_goodput(before, f"tcp-on-{link}"), _goodput(after, f"tcp-on-{link}")) for link in links}


def _goodput(document: Document, name: str) -> float:
    return next(float(flow["goodput_bps"]) for flow in document["flows"] if flow["name"] == name)


def _simplicity(choice: Choice) -> tuple[int, float, str]:
    return len(choice.changes), choice.buffer_bytes(), choice.label


def spread(facts: Facts) -> tuple[str, ...]:
    """Settings that draw the start of each flow whose start is not random already."""
    fixed = {flow["name"] for flow in facts.spelt_out["flow"] if isinstance(flow.get("start", ""), str)}
    return spread_starts(flow for flow in facts.document["flows"] if flow["name"] in fixed)
