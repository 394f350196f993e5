"""Explains a flow: proposes remedies, runs each, tries pairs where none helps, and ranks them by their gain.

First, every remedy runs with one seed. Then the best ones and the unchanged scenario run with further seeds. The gain
is the mean over pairs of runs with the same seed. It is ranked after the loss of other flows: a remedy that only takes
capacity from others gains nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from anabranch._core.simulator import LARGEST_SEED, validate
from anabranch._core.worlds import LABELS
from anabranch.errors import InputError
from anabranch.explain.facts import Facts, goodput_bps
from anabranch.explain.finding import MIN_GAIN, Finding, Measured, ranked
from anabranch.explain.limits import REPS, TIME_LIMIT_S
from anabranch.explain.network_remedies import busiest
from anabranch.explain.objective import Objective
from anabranch.explain.remedies import WITHOUT_REMEDY, proposed, proposed_together
from anabranch.explain.trials import START_SPREAD_S, Trials, check_of, is_valid, request, spread_starts
from anabranch.extras import require
from anabranch.paths import check_content
from anabranch.quantities import mbps
from anabranch.remarks import released
from anabranch.scenario import Scenario
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request
    from anabranch._core.worlds import World
    from anabranch.explain.proposals import Proposal

_MIN_FULL_UTILISATION = 0.95
"""Minimum utilisation of a full link."""
_MIN_OPEN_SHARE = 0.9
"""Share of the measured time below which an explanation states how long the flow was open."""
_SCREENING_SHARE = 0.7
"""Share of the time limit for the runs with one seed."""
_MAX_VERIFIED = 3
"""Maximum number of remedies that run with further seeds."""
_MAX_PAIRED = 8
"""Maximum number of remedies of different kinds that are tried in pairs."""
_MIN_EVIDENCE = 0.05
_MIN_WEAK_EVIDENCE = 0.03
"""Evidence from which on a cause follows where nothing to mend is named first."""
_MIN_LIKELY_EVIDENCE = 0.09
"""Evidence of a gain of 10 %, below which nothing to mend is the more likely answer."""
_MIN_SURE_EVIDENCE = 0.2
"""Evidence from which on nothing to mend is no answer."""
_MAX_UNVERIFIED = 3
_MAX_SAME_DIFFERENCE = 0.01
_MAX_KERNEL_DIFFERENCE = 0.2
"""Largest relative difference of the goodput up to which the simulator reproduces a run on the kernel."""


@dataclass(frozen=True)
class Options:
    """The flow, the aim and the limits of an explanation."""

    flow: str | None = None
    """Flow to explain; by default the first that uses several paths, or else the first."""
    aim: str = "goodput"
    """"goodput", or "delay" for the 95 % quantile of delays."""
    seed: int | None = None
    """First seed; the scenario's own if `None`."""
    reps: int = REPS
    """Seeds with which the best remedies run."""
    jobs: int = 1
    """Worker processes."""
    time_limit_s: float = TIME_LIMIT_S
    """Time after which no run begins."""
    runs: bool = True
    """Whether to run remedies; otherwise causes are named without verification."""

    def check(self) -> None:
        """Refuse numbers out of range.

        Raises:
            InputError: With the range.

        """
        for name in ("reps", "jobs"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} must be a whole number from 1 on, but is {value!r}")
        if not 0.0 < self.time_limit_s < math.inf:
            raise InputError(f"the time limit must be a number of seconds above 0, but is {self.time_limit_s!r}")


@dataclass(frozen=True)
class Explanation:
    """Causes and remedies for one flow, the most costly first."""

    flow: str
    objective: str
    baseline: float
    """The objective of the unchanged scenario, in `unit`; infinite for a time without an end."""
    unit: str
    goodput_bps: float
    """Goodput of the flow in the unchanged scenario, bit/s."""
    possible_bps: float | None
    """Largest rate of the links on the flow's paths without other traffic, bit/s."""
    findings: tuple[Finding, ...]
    """Causes with their remedies, the best remedy first."""
    others: tuple[Finding, ...]
    """Remedies whose gain is below 10 %, by gain."""
    left_out: int
    """Remedies that the time limit left out."""
    runs: int
    elapsed_s: float
    notes: tuple[str, ...] = field(default=())

    @property
    def first(self) -> Finding:
        """The first finding."""
        return self.findings[0]

    def __str__(self) -> str:
        return "\n".join(f"{number}. {each.sentence}" for number, each in enumerate(self.findings, 1))

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "flow": self.flow,
            "objective": self.objective,
            "unit": self.unit,
            "baseline": self.baseline if math.isfinite(self.baseline) else None,
            "goodput_bps": self.goodput_bps,
            "possible_bps": self.possible_bps,
            "findings": [each.document() for each in self.findings],
            "other_remedies": [each.document() for each in self.others],
            "remedies_left_out": self.left_out,
            "runs": self.runs,
            "elapsed_s": self.elapsed_s,
            "notes": list(self.notes),
        }


def explain(scenario: Scenario, options: Options | None = None, world: World = "sim") -> Explanation:
    """Explain why a flow of a scenario is slow.

    Args:
        scenario: The scenario.
        options: The flow, the aim, and the extent of the runs.
        world: The world whose settings the remedies may use. They run in the simulator.

    Raises:
        InputError: If the scenario, the flow or an option is not valid.
        RunFailed: If a run breaks off.

    """
    chosen = options or Options()
    chosen.check()
    if chosen.runs:
        require("statistics", "a measured gain")
    with Trials(chosen.jobs, chosen.time_limit_s) as trials:
        facts = Facts.of(trials.first(scenario, chosen.seed), chosen.flow)
        facts.check_duration()
        check = check_of(world, scenario)
        work = _ExplanationRuns(scenario, trials, chosen, facts, check)
        return work.verified() if chosen.runs else work.unverified()


def explain_without_runs(scenario: Scenario, document: Document, options: Options | None = None) -> Explanation:
    """Name the causes of a finished run of a scenario by rules, without running anything.

    Args:
        scenario: The scenario, with its settings.
        document: The result of its run.
        options: The flow and the aim.

    Raises:
        InputError: If the flow or an option is not valid.

    """
    chosen = replace(options or Options(), runs=False)
    chosen.check()
    facts = Facts.of(document, chosen.flow)
    facts.check_duration()
    with Trials(1, chosen.time_limit_s) as trials:
        return _ExplanationRuns(scenario, trials, chosen, facts, validate).unverified()


def measure_remedies(scenario: Scenario, options: Options | None = None) -> list[Finding]:
    """All remedies with their gains for one seed, unranked; in pairs, too, where none helps alone.

    Args:
        scenario: The scenario.
        options: The flow, the aim, the seed and the limits.

    Raises:
        InputError: If the scenario, the flow or an option is not valid.
        RunFailed: If a run breaks off.

    """
    chosen = options or Options()
    chosen.check()
    with Trials(chosen.jobs, chosen.time_limit_s) as trials:
        facts = Facts.of(trials.first(scenario, chosen.seed), chosen.flow)
        facts.check_duration()
        return _ExplanationRuns(scenario, trials, chosen, facts, check_of("sim", scenario)).screened()


class _ExplanationRuns:
    """The runs of one explanation."""

    def __init__(
        self, scenario: Scenario, trials: Trials, options: Options, facts: Facts, check: Callable[[Request], None]
    ) -> None:
        self._scenario = scenario
        self._trials = trials
        self._options = options
        self._facts = facts
        self._seed = int(facts.document["seed"])
        self._check = check
        self._objective = Objective.of(facts.document, facts.name, options.aim)
        self._left_out = 0
        self._second: Document | None = None
        self._notes: list[str] = []

    def unverified(self) -> Explanation:
        """The causes by evidence alone, at most three."""
        likely = [*self._together(), *_likely(self._facts, self._accepts, _MIN_WEAK_EVIDENCE)]
        nothing = self._nothing([])
        strongest = likely[0].evidence if likely else 0.0
        if strongest < _MIN_LIKELY_EVIDENCE:
            return self._explanation([nothing, *likely][:_MAX_UNVERIFIED], [])
        likely = [each for each in likely if each.evidence >= _MIN_EVIDENCE]
        found = [*likely[: _MAX_UNVERIFIED - 1], nothing] if strongest < _MIN_SURE_EVIDENCE else likely
        return self._explanation(found[:_MAX_UNVERIFIED], [])

    def _together(self) -> Iterator[Finding]:
        """Two causes by their evidence together, where neither remedy helps alone."""
        kind, proposals = proposed_together(self._facts)
        found = Finding(kind, self._facts.name, proposals, _both_causes(proposals))
        if proposals and self._accepts(found.settings):
            yield found

    def verified(self) -> Explanation:
        """The causes by the gains of their remedies."""
        if self._options.reps > 1:
            self._second = self._trials.run([self._request(self._seeds()[0], ())])[0]
        best, rest = self._repeated(_without_idle_parts(_best_of_kinds(self.screened())))
        remedies = [*(each for each in ranked(best) if each.is_remedy), *(each for each in rest if each.is_remedy)]
        others = ranked([each for each in (*best, *rest) if not each.is_remedy])
        return self._explanation(remedies or [self._nothing(others)], others)

    def screened(self) -> list[Finding]:
        """All remedies with their gains for the first seed; in pairs, too, where none helps alone."""
        proposed = sorted(self._proposed(), key=lambda each: -each.evidence)
        screened = self._screened(proposed, _SCREENING_SHARE)
        if not any(each.is_remedy for each in screened):
            screened += self._screened(self._pairs(screened), _SCREENING_SHARE)
        return screened

    def _accepts(self, settings: Sequence[str]) -> bool:
        return is_valid(self._scenario, settings, self._check)

    def _proposed(self) -> list[Finding]:
        """All remedies that the scenario accepts, and two together where neither helps alone."""
        found = [
            Finding(kind.name, self._facts.name, (proposal,), proposal.cause)
            for kind, proposal in proposed(self._facts)
            if self._accepts(proposal.settings)
        ]
        return [*found, *self._together()]

    def _screened(self, findings: Sequence[Finding], share: float) -> list[Finding]:
        """Findings with their gains for the first seed; those that the time limit leaves out are only counted."""
        documents = self._trials.run([self._request(self._seed, each.settings) for each in findings], share)
        self._left_out += sum(document is None for document in documents)
        return [
            self._measured(finding, [(self._facts.document, document)])
            for finding, document in zip(findings, documents, strict=True)
            if document is not None
        ]

    def _pairs(self, screened: Sequence[Finding]) -> list[Finding]:
        """Pairs of remedies of different kinds, those with the largest gains and evidence first."""
        chosen = sorted(_best_of_kinds(screened), key=lambda each: -(each.net + each.evidence))[:_MAX_PAIRED]
        pairs = []
        for first, second in itertools.combinations(chosen, 2):
            settings = (*first.settings, *second.settings)
            if "buffers" in (first.kind, second.kind) or not self._accepts(settings):
                continue
            proposals = (*first.proposals, *second.proposals)
            cause = _both_causes((first, second))
            pairs.append(Finding(f"{first.kind} + {second.kind}", first.flow, proposals, cause))
        return pairs

    def _repeated(self, screened: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        """The best remedies with their gains over several seeds, and the others as they are."""
        best, rest = list(screened[:_MAX_VERIFIED]), list(screened[_MAX_VERIFIED:])
        if self._options.reps == 1 or not best:
            return best, rest
        vary = self._variation()
        seeds = self._seeds()
        variants: list[tuple[str, ...]] = [(), *(each.settings for each in best)]
        requests: list[Request] = [self._request(seed, (*each, *vary)) for seed in seeds for each in variants]
        documents = self._trials.run(requests)
        found: list[list[tuple[Document, Document]]] = [[] for _ in best]
        for row in range(len(seeds)):
            base, *changed = documents[row * len(variants) : (row + 1) * len(variants)]
            for pairs, document in zip(found, changed, strict=True):
                if base is not None and document is not None:
                    pairs.append((base, document))
        first = [each.measured.gains if each.measured else () for each in best]
        measured = [self._measured(each, pairs) for each, pairs in zip(best, found, strict=True)]
        complete = [
            replace(each, measured=Measured(self._objective, (*gains, *(each.measured.gains if each.measured else ()))))
            for each, gains in zip(measured, first, strict=True)
        ]
        return complete, rest

    def _variation(self) -> tuple[str, ...]:
        """Settings that draw the start of each flow, for scenarios in which the seed changes nothing."""
        if self._second is None or not _equal(self._second, self._facts.document):
            return ()
        self._notes.append(
            f"The seed changes nothing in this scenario: repetitions delay the start of each flow by up to "
            f"{1e3 * START_SPREAD_S:.0f} ms at random."
        )
        settings = spread_starts(self._facts.document["flows"])
        return settings if is_valid(self._scenario, settings) else ()

    def _seeds(self) -> list[int]:
        """The seeds after the first one."""
        return [(self._seed + number) % LARGEST_SEED for number in range(1, max(2, self._options.reps))]

    def _request(self, seed: int, settings: Sequence[str]) -> Request:
        return request(self._scenario, seed, settings)

    def _measured(self, finding: Finding, pairs: Sequence[tuple[Document, Document]]) -> Finding:
        gains = tuple(self._objective.gain(before, after) for before, after in pairs)
        return replace(finding, measured=Measured(self._objective, gains) if gains else None)

    def _nothing(self, others: Sequence[Finding]) -> Finding:
        """The finding for a flow that no remedy improves."""
        facts = self._facts
        remedies = f"the {len(others)} remedies tried" if self._left_out else "the remedies"
        tried = "" if self._options.runs is False else f"; none of {remedies} brings {100 * MIN_GAIN:.0f} % or more"
        largest = max((each.net for each in others), default=0.0)
        if largest > 0.0:
            tried = f"; the best remedy brings {100 * largest:.1f} %"
        possible = facts.possible_bps
        of_possible = "" if possible is None else f" of {mbps(possible)} that its links carry"
        reached = f'"{facts.name}" reaches {mbps(facts.goodput_bps)}{of_possible}'
        if crossing := busiest(facts):
            return Finding("cross-traffic", facts.name, (), f"Nothing to mend: {reached}. {crossing}{tried}")
        if facts.gap < 2 * MIN_GAIN and possible is not None:
            return Finding("capacity", facts.name, (), f"Nothing to mend: {reached}{tried}")
        full = next(
            (side for side in facts.sides_there if (side.report["utilisation"] or 0.0) > _MIN_FULL_UTILISATION), None
        )
        if possible is None and full is not None:
            sentence = f'Nothing to mend: {reached}, and link "{full.link}", which follows a trace, is full{tried}'
            return Finding("capacity", facts.name, (), sentence)
        return Finding("unknown", facts.name, (), f"No cause found: {reached}{tried}")

    def _explanation(self, findings: Sequence[Finding], others: Sequence[Finding]) -> Explanation:
        objective, facts = self._objective, self._facts
        self._notes += released(facts.document, facts.flow)
        if facts.open_s < _MIN_OPEN_SHARE * facts.measured_s:
            self._notes.append(
                f'"{facts.name}" was open for {facts.open_s:.3g} of the {facts.measured_s:.3g} s measured; its goodput '
                f"in that time is {mbps(facts.while_open(facts.goodput_bps))}, by which causes are judged."
            )
        if facts.flow.get("answers") is not None:
            self._notes.append(
                "Waiting times of this flow are those of its requests; those of answers are not recorded."
            )
        return Explanation(
            flow=facts.name,
            objective=objective.name,
            baseline=objective.scale * objective.value(facts.document),
            unit=objective.unit,
            goodput_bps=facts.goodput_bps,
            possible_bps=facts.possible_bps,
            findings=tuple(findings),
            others=tuple(others),
            left_out=self._left_out,
            runs=self._trials.runs,
            elapsed_s=self._trials.elapsed_s,
            notes=tuple(self._notes),
        )


def _both_causes(found: Sequence[Finding | Proposal]) -> str:
    """The sentences of causes that act together, without the last full stop."""
    return ". ".join(("Two causes act together", *(each.cause for each in found)))


def _equal(first: Document, second: Document) -> bool:
    """Whether two runs took the same course: digests contain random tokens, counts of events do not."""
    return bool(first["events"] == second["events"] and first["flows"] == second["flows"])


def _best_of_kinds(findings: Sequence[Finding]) -> list[Finding]:
    """The remedy with the largest gain of each kind and path or link, by gain."""
    best: dict[tuple[str, str], Finding] = {}
    for finding in ranked(findings):
        best.setdefault((finding.kind, finding.subject), finding)
    return list(best.values())


def _without_idle_parts(findings: Sequence[Finding]) -> list[Finding]:
    """Findings without those that change more keys than another finding and gain hardly more."""
    return [
        each
        for each in findings
        if not any(_keys(other) < _keys(each) and each.net < other.net + MIN_GAIN for other in findings)
    ]


def _keys(finding: Finding) -> set[str]:
    return {setting.partition("=")[0] for setting in finding.settings}


def explain_document(
    document: Document, options: Options | None = None, file: str = "result", *, allow_paths: bool = False
) -> Explanation:
    """Explain a flow of a finished run: its scenario runs again in the simulator.

    Args:
        document: The result document.
        options: The flow, the aim, and the extent of the runs; the seed is that of the run by default.
        file: Name of the result in messages; files that the scenario names are relative to its folder.
        allow_paths: Whether the scenario may name files outside that folder.

    Raises:
        InputError: If the document does not contain its scenario, or an option is not valid.
        RunFailed: If a run breaks off.

    """
    if "scenario" not in document:
        raise InputError('lacks "scenario", so that nothing can be run again; explain the scenario file instead', file)
    chosen = options or Options()
    if not allow_paths:
        check_content(document["scenario"], file)
    if chosen.seed is None:
        chosen = replace(chosen, seed=int(document["seed"]))
    text = "\n".join(setting(key, value) for key, value in document["scenario"].items())
    scenario = Scenario(text, file)
    found = explain(scenario, chosen, cast("World", document["world"]))
    facts = Facts.of(document, found.flow)
    then, now = goodput_bps(facts.flow), found.goodput_bps
    if abs(then - now) <= _MAX_SAME_DIFFERENCE * max(then, now):
        return found
    note = (
        f"This run had {mbps(then)} ({LABELS[document['world']]}, version {document.get('version', 'unknown')}), the "
        f"simulator now has {mbps(now)}: the findings are those of the simulator."
    )
    found = replace(found, notes=(*found.notes, note))
    if document["world"] == "kernel" and abs(then - now) > _MAX_KERNEL_DIFFERENCE * max(then, now):
        check = check_of("kernel", scenario)
        return _with_observed(found, facts, lambda settings: is_valid(scenario, settings, check))
    return found


def _with_observed(found: Explanation, facts: Facts, accepts: Callable[[Sequence[str]], bool]) -> Explanation:
    """An explanation whose first findings follow from the run itself, since the simulator does not reproduce it."""
    likely = _likely(facts, accepts, _MIN_EVIDENCE)
    if not likely:
        return found
    kinds = {each.kind for each in likely}
    simulated = [each for each in found.findings if each.kind not in kinds and each.kind not in WITHOUT_REMEDY]
    return replace(found, findings=(*likely, *simulated)[:_MAX_UNVERIFIED])


def _likely(facts: Facts, accepts: Callable[[Sequence[str]], bool], least: float) -> list[Finding]:
    """The causes with some evidence, by evidence alone, at most three kinds."""
    by_kind: dict[str, Finding] = {}
    for kind, proposal in sorted(proposed(facts), key=lambda each: -each[1].evidence):
        if proposal.evidence >= least and kind.name not in by_kind and accepts(proposal.settings):
            by_kind[kind.name] = Finding(kind.name, facts.name, (proposal,), proposal.cause)
    return list(by_kind.values())[:_MAX_UNVERIFIED]
