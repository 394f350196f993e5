"""The search for settings: coordinate descent from today's, then further seeds for the best and for simpler choices.

All runs have the full length, and all choices run with the same seeds (common random numbers).
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
        self._scenario = scenario.with_settings(spread(facts))
        self._documents: dict[tuple[Choice, int], Document] = {}
        self._is_complete = True

    def advice(self) -> Advice:
        """Search, verify, and choose the simplest of equal choices."""
        found = self._descend()
        self._run([Choice(), self._aim.start(self._base), found], self._seeds)
        if not self._has_all(Choice()) or not self._has_all(self._aim.start(self._base)):
            raise InputError("the time limit ended before the first settings had run; give a larger --time-limit")
        singles = self._singles()
        tried = sorted({choice for choice, _ in self._documents}, key=self._rank)
        shorter = [found.without(key) for key, _ in found.changes]
        shorter = [choice for choice in shorter if self._aim.allows(choice, self._base)]
        self._run([*singles, *tried[:_VERIFIED_CHOICES], *shorter], self._seeds)
        verified = sorted({choice for choice, _ in self._documents if self._has_all(choice)}, key=self._rank)
        rows = [self._row(choice, choice in singles) for choice in verified]
        best = self._simplest([choice for choice in verified if self._aim.allows(choice, self._base)])
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
        return [(self._seed + number) % LARGEST_SEED for number in range(self._options.reps)]

    def _descend(self) -> Choice:
        """The best choice by the first seed that no change of one setting improves, nor of the first two together."""
        best = self._aim.start(self._base)
        self._run([Choice(), best], [self._seed], self._search_share())
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
        self._run(variants, [self._seed], self._search_share())
        return min([best, *(each for each in variants if self._has(each, self._seed))], key=self._rank)

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

    def _rank(self, choice: Choice) -> tuple[float, int, float, str]:
        """Order of choices: by the objective, then the simpler one."""
        values = [self._objective.value(self._documents[choice, s]) for s in self._seeds if self._has(choice, s)]
        mean = statistics.fmean(values) if values else math.nan
        return (mean if self._objective.is_time else -mean), *_simplicity(choice)

    def _has(self, choice: Choice, seed: int) -> bool:
        return (choice, seed) in self._documents

    def _has_all(self, choice: Choice) -> bool:
        return all(self._has(choice, seed) for seed in self._seeds)

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
        pairs = [(self._documents[before, seed], self._documents[after, seed]) for seed in self._seeds]
        return Measured(self._objective, tuple(self._objective.gain(*pair) for pair in pairs))

    def _row(self, choice: Choice, is_single: bool) -> Row:
        return Row(choice, self._measured(Choice(), choice), is_single)

    def _simplest(self, verified: Sequence[Choice]) -> Choice:
        """The simplest choice that ties with the best one."""
        best = verified[0]
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
