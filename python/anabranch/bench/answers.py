"""Scores causes that are named without running remedies, on labelled runs: by this package and by two baselines.

An answer is a list of choices, the best first. A choice is right if the largest gain exceeds 10 % and its remedy gains
within 10 % of that; no remedy is right if none gains more than 12 %, since the last 2 % may be noise. From a run's own
result the remedy is a setting. From a capture it is a kind of remedies, of which the best one counts.
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.bench import limitation_scores, seven_rules
from anabranch.bench.explain import NEAR, TOLERANCE
from anabranch.explain.captured import Captures
from anabranch.explain.explanation import explain_without_runs
from anabranch.explain.finding import MIN_GAIN
from anabranch.explain.remedies import WITHOUT_REMEDY
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anabranch.bench.labelled import LabelledRun

_LOSS_KINDS = ("random-loss", "control", "queue-too-short")
_WINDOW_KINDS = ("receive-buffer", "buffers")
SIMILAR_KINDS: dict[str, tuple[str, ...]] = {
    "random-loss": _LOSS_KINDS,
    "receive-buffer": _WINDOW_KINDS,
    "send-buffer": ("send-buffer", "buffers"),
    "receive-buffer + random-loss": tuple(
        f"{first} + {second}"
        for window, loss in itertools.product(_WINDOW_KINDS, _LOSS_KINDS)
        for first, second in ((window, loss), (loss, window))
    ),
}
"""Kinds of remedies that count as right for a kind of finding in a capture, because packets do not distinguish them."""
_MAX_REGRET = 1.0
"""Upper bound of a counted regret: that of a flow that delivers nothing is infinite."""


@dataclass(frozen=True)
class Choice:
    """A named cause, with the gain of its remedy by the label."""

    name: str
    gain: float | None
    """`None` if the choice names no remedy."""


@dataclass(frozen=True)
class Answered:
    """The choices for one run."""

    run: LabelledRun
    choices: tuple[Choice, ...]

    def is_choice_right(self, choice: Choice) -> bool:
        """Whether a choice gains nearly as much as the best remedy, or names none if none helps.

        If the largest gain exceeds 10 % by at most `TOLERANCE`, both are right.
        """
        if choice.gain is None:
            return self.run.is_capacity
        if self.run.best <= MIN_GAIN:
            return False
        if math.isinf(self.run.best):
            return choice.gain == self.run.best
        return self.run.best - choice.gain <= max(NEAR * self.run.best, TOLERANCE)

    @property
    def is_right(self) -> bool:
        """Whether the first choice is right."""
        return self.is_choice_right(self.choices[0])

    @property
    def is_among(self) -> bool:
        """Whether one of the choices is right."""
        return any(map(self.is_choice_right, self.choices))

    @property
    def regret(self) -> float:
        """Largest gain less that of the first choice, 0 to 1; a remedy that costs counts as none."""
        gain = max(0.0, self.choices[0].gain or 0.0)
        return 0.0 if gain == self.run.best else min(_MAX_REGRET, self.run.best - gain)


@dataclass(frozen=True)
class Method:
    """A way to name causes without running remedies."""

    name: str
    """Its heading in tables."""
    choose: Callable[[LabelledRun], tuple[Choice, ...]]


@dataclass(frozen=True)
class Tally:
    """The counts of a method over labelled runs."""

    method: str
    answered: tuple[Answered, ...]

    @property
    def right(self) -> int:
        """Runs whose first choice is right."""
        return sum(each.is_right for each in self.answered)

    @property
    def among(self) -> int:
        """Runs of which one choice is right."""
        return sum(each.is_among for each in self.answered)

    @property
    def capacity(self) -> tuple[int, int]:
        """Runs in which no remedy gains 10 % that were recognised, and their number."""
        full = [each for each in self.answered if each.run.best <= MIN_GAIN]
        return sum(each.is_right for each in full), len(full)

    @property
    def regret(self) -> float:
        """Mean regret."""
        return statistics.fmean(each.regret for each in self.answered)

    def by_fault(self) -> dict[str, tuple[int, int]]:
        """Right first choices and runs of each planted fault."""
        found: dict[str, tuple[int, int]] = {}
        for each in self.answered:
            right, count = found.get(each.run.fault, (0, 0))
            found[each.run.fault] = (right + each.is_right, count + 1)
        return found

    def document(self) -> dict[str, object]:
        """All counts as a value for JSON."""
        return {
            "method": self.method, "runs": len(self.answered), "right": self.right, "among_three": self.among,
            "nothing_to_mend": dict(zip(("right", "runs"), self.capacity, strict=True)), "mean_regret": self.regret,
            "planted": {
                fault: {"right": right, "runs": count} for fault, (right, count) in self.by_fault().items()
            },
        }  # fmt: skip


def tallies(runs: Sequence[LabelledRun]) -> list[Tally]:
    """The counts of all methods."""
    return [Tally(each.name, tuple(Answered(run, each.choose(run)) for run in runs)) for each in METHODS]


def _by_result(run: LabelledRun) -> tuple[Choice, ...]:
    """`anabranch explain --no-run`: the rules for results."""
    scenario = Scenario(run.scenario, f"case {run.number}", run.overrides)
    found = explain_without_runs(scenario, run.result).findings
    return tuple(Choice(each.kind, run.gain_of_settings(each.settings) if each.settings else None) for each in found)


def _by_capture(place: str) -> Callable[[LabelledRun], tuple[Choice, ...]]:
    """`anabranch explain CAPTURE`: the rules for captures at a place."""

    def choose(run: LabelledRun) -> tuple[Choice, ...]:
        return tuple(_of_kind(run, each.kind) for each in Captures(run.captures[place]).explain())

    return choose


def _of_kind(run: LabelledRun, kind: str) -> Choice:
    kinds = () if kind in WITHOUT_REMEDY else SIMILAR_KINDS.get(kind, (kind,))
    return Choice(kind, _gain(run, kinds))


def _gain(run: LabelledRun, kinds: Iterable[str]) -> float | None:
    wanted = tuple(kinds)
    return run.gain_of_kinds(wanted) if wanted else None


def _by_scores(run: LabelledRun) -> tuple[Choice, ...]:
    name = limitation_scores.named(Captures(run.captures["sender"]).connection())
    return (Choice(name, _gain(run, limitation_scores.KINDS[name])),)


def _by_seven_rules(run: LabelledRun) -> tuple[Choice, ...]:
    name = seven_rules.named(run.votes)
    return (Choice(name, _gain(run, seven_rules.KINDS.get(name, ()))),)


METHODS: tuple[Method, ...] = (
    Method("result", _by_result),
    Method("sender", _by_capture("sender")),
    Method("middle", _by_capture("middle")),
    Method("receiver", _by_capture("receiver")),
    Method("scores", _by_scores),
    Method("seven rules", _by_seven_rules),
)
"""All methods, in the order of the table: the run's own result, captures at three places, and two baselines."""
