"""Tables and sentences of a study's report, for all of its formats."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.quantities import counted
from anabranch.report.run_tables import number
from anabranch.report.terminal import (
    as_published,
    confidence,
    form,
    interim,
    interval,
    other_builds,
    percent,
    share,
    unreadable,
)
from anabranch.sweep import plain

if TYPE_CHECKING:
    from anabranch.study.analysis import Analysis
    from anabranch.study.claims import Verdict
    from anabranch.study.model import Experiment
    from anabranch.sweep import Point

VERDICT_HEAD = ["outcome", "statement", "text", "expected", "measured"]


@dataclass
class Table:
    """A heading, rows, and a sentence on them."""

    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    points: list[Point] = field(default_factory=list)
    """Point of each row, in tables of points."""


def provenance(analysis: Analysis, build: str) -> list[tuple[str, bool]]:
    """Sentences on the runs, and whether each is a warning; `build` is the present build of the simulator."""
    found = [(text, True)] if (text := interim(analysis)) else []
    found.append((form(analysis), False))
    if analysis.runs:
        record = analysis.runs[0][1]
        machine = f"{record.host.get('cpu', '?')}, {record.host.get('system', '?')}"
        builds = ", ".join(sorted(analysis.builds))
        found.append((f"Simulator {record.document['version']} (build {builds}) on {machine}.", False))
    if analysis.builds - {build}:
        found.append((other_builds(analysis, build), True))
    if text := unreadable(analysis):
        found.append((text, True))
    if analysis.missing:
        found.append(("The study is not complete. Finish it with `--resume`.", True))
    return found


def repetitions(analysis: Analysis) -> str:
    """Sentences on the repetitions of points and their intervals."""
    effort = analysis.effort
    often = counted(effort.repetitions, "repetition") + (", and more of some points" if effort.more else "")
    return f"{often}. {analysis.intervals}"


def summaries(analysis: Analysis) -> Table:
    """Deviations from published values, by group."""
    published = analysis.study.published
    tolerance = published.sum_tolerance if published is not None else 0.0
    reference = published.relative_to if published is not None else ""
    rows = [
        [s.group, str(s.values), f"{100 * s.median:.1f} %", f"{100 * s.p90:.1f} %", f"{100 * s.largest:.1f} %",
         share(s.within_tenth), f"{share(s.sums_agree)} of {s.points}", share(s.sums_agree_as_printed),
         percent(s.sum_median)]
        for s in analysis.summaries
    ]  # fmt: skip
    head = ["group", "values", "median", "90 % quantile", "largest", "within 10 %",
            f"sums within {100 * tolerance:.0f} %", "as printed", "median deviation of sums"]  # fmt: skip
    note = f"Deviations are |ours − published| / {reference or 'published'}; sums are over all flows of a point."
    if published is not None and published.printed != "exact":
        note += f' "As printed" compares sums of our values {published.printed} to whole units like the publication\'s.'
    return Table(head, rows, note)


def explanations(analysis: Analysis) -> list[tuple[str, str]]:
    """Heading and reason for each statement that fails or is not run, where the reason is known."""
    explained = [v.claim for v in analysis.verdicts if v.claim.explanation and _is_to_explain(v)]
    words = {claim.id: "is not run" if claim.world == "elsewhere" else "fails" for claim in explained}
    return [(f"Why {claim.id} {words[claim.id]}.", claim.explanation) for claim in explained]


def _is_to_explain(verdict: Verdict) -> bool:
    return verdict.outcome == "fail" or verdict.claim.world == "elsewhere"


def points(analysis: Analysis, experiment: Experiment) -> Table:
    """Every point of an experiment: ours, the interval, published, deviation; no rows if none was run."""
    comparisons = [c for c in analysis.comparisons if c.point.experiment == experiment.name]
    study = analysis.study
    metric = study.metrics[study.tabulated]
    found = Table([study.parameters[name].axis for name in experiment.over])
    found.head += ["flow", f"ours [{metric.unit}]", confidence(c.ours for c in comparisons), "published", "deviation"]
    for c in comparisons:
        row = [plain(c.point.values[name]) for name in experiment.over]
        row += [experiment.flow_label(c.subject, c.point.values), number(c.ours.centre, 1.0, 2), interval(c.ours)]
        found.rows.append([*row, as_published(c.published), percent(c.deviation)])
        found.points.append(c.point)
    if all(c.published is None for c in comparisons):
        found.head, found.rows = found.head[:-2], [row[:-2] for row in found.rows]
    return found


def deviations(analysis: Analysis, experiment: Experiment) -> list[Table]:
    """For each metric of an experiment mean ± standard deviation and median at each point."""
    study = analysis.study
    tables = []
    for name in study.metrics_of(experiment.name):
        head = [study.parameters[p].axis for p in experiment.over]
        found = Table([*head, "of", "mean ± standard deviation", "median", "runs"], note=study.metrics[name].axis)
        for point in analysis.points():
            samples = analysis.samples(point, name) if point.experiment == experiment.name else {}
            for subject, values in samples.items():
                label = experiment.flow_label(subject, point.values)
                spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else "–"
                row = [plain(point.values[p]) for p in experiment.over]
                row += [label, f"{statistics.fmean(values):.2f} ± {spread}", f"{statistics.median(values):.2f}"]
                found.rows.append([*row, str(len(values))])
        if found.rows:
            tables.append(found)
    return tables
