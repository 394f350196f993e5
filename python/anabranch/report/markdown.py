"""The report of a study as Markdown, with its figures in the same folder."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from anabranch.report.terminal import (
    absences,
    as_published,
    confidence,
    expectation,
    form,
    interim,
    interval,
    measurements,
    number,
    other_builds,
    percent,
    share,
    tally,
    unreadable,
)
from anabranch.sweep import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.study.analysis import Analysis, Comparison
    from anabranch.study.claims import Verdict
    from anabranch.study.engine import Plan
    from anabranch.study.model import Experiment


def write(analysis: Analysis, figures: Sequence[Path], plan: Plan) -> Path:
    """Write report.md into the plan's folder; the figures are linked relative to it."""
    study, effort = analysis.study, analysis.effort
    parts = [f"# {inline(study.title)}", study.about.strip()]
    if study.source:
        parts.append(f"Source: {study.source}")
    parts.append(_provenance(analysis, plan.build))
    if study.assumptions:
        parts.append("## Assumptions\n\n" + "\n".join(f"- {inline(a)}" for a in study.assumptions))
    if analysis.summaries:
        parts.append("## Deviations from published values\n\n" + _summaries(analysis))
    if analysis.verdicts:
        parts.append(f"## Published statements\n\n{tally(analysis)}\n\n" + _verdicts(analysis))
    links = [f"![{f.stem}]({f.relative_to(plan.folder).as_posix()})" for f in figures if f.suffix == ".png"]
    if links:
        parts.append("## Figures\n\n" + "\n\n".join([*links, *absences(analysis)]))
    if analysis.undefined:
        parts.append("## Values that do not exist\n\n" + "\n".join(f"- {note}" for note in analysis.undefined))
    often = f"{effort.repetitions} repetitions" + (", and more of some points" if effort.more else "")
    parts.append(f"## Every point\n\n{often}. {analysis.intervals}")
    for experiment in study.experiments.values():
        chosen = [c for c in analysis.comparisons if c.point.experiment == experiment.name]
        if chosen:
            parts.append(f"### {inline(experiment.title)}\n\n" + _points(analysis, experiment.over, chosen))
            if study.shows_deviation:
                parts += _deviations(analysis, experiment)
    target = plan.folder / "report.md"
    target.write_text("\n\n".join(p for p in parts if p) + "\n", encoding="utf-8")
    return target


def _provenance(analysis: Analysis, build: str) -> str:
    """Number of runs, their machine and build, and missing runs; `build` is the present simulator."""
    lines = [f"**{text}**"] if (text := interim(analysis)) else []
    lines.append(form(analysis))
    if analysis.runs:
        record = analysis.runs[0][1]
        lines.append(
            f"Simulator {record.document['version']} (build {', '.join(sorted(analysis.builds))}) on "
            f"{record.host.get('cpu', '?')}, {record.host.get('system', '?')}."
        )
    if analysis.builds - {build}:
        lines.append(f"**{other_builds(analysis, build)}**")
    if text := unreadable(analysis):
        lines.append(f"**{text}**")
    if analysis.missing:
        lines.append("**The study is not complete.** Finish it with `--resume`.")
    return "\n".join(lines)


def _summaries(analysis: Analysis) -> str:
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
    return note + "\n\n" + table(head, rows)


def _verdicts(analysis: Analysis) -> str:
    rows = []
    for v in analysis.verdicts:
        measured = "<br>".join(measurements(v)) or "–"
        rows.append([f"**{v.outcome}**", v.claim.id, v.claim.text, expectation(v.claim), measured])
    text = table(["outcome", "statement", "text", "expected", "measured"], rows)
    explained = [v.claim for v in analysis.verdicts if v.claim.explanation and _is_to_explain(v)]
    words = {claim.id: "is not run" if claim.world == "elsewhere" else "fails" for claim in explained}
    return "\n\n".join([text, *(f"**Why {c.id} {words[c.id]}.** {c.explanation}" for c in explained)])


def _is_to_explain(verdict: Verdict) -> bool:
    return verdict.outcome == "fail" or verdict.claim.world == "elsewhere"


def _points(analysis: Analysis, over: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    study = analysis.study
    metric = study.metrics[study.tabulated]
    head = [study.parameters[name].axis for name in over]
    head += ["flow", f"ours [{metric.unit}]", confidence(c.ours for c in comparisons), "published", "deviation"]
    rows = []
    for c in comparisons:
        label = study.experiments[c.point.experiment].flow_label(c.subject, c.point.values)
        row = [plain(c.point.values[name]) for name in over]
        row += [label, number(c.ours.centre, 1.0, 2), interval(c.ours)]
        row += [as_published(c.published), percent(c.deviation)]
        rows.append(row)
    if all(c.published is None for c in comparisons):
        head, rows = head[:-2], [row[:-2] for row in rows]
    return table(head, rows)


def _deviations(analysis: Analysis, experiment: Experiment) -> list[str]:
    """For each metric of an experiment a table of mean ± standard deviation and median at each point."""
    study = analysis.study
    parts = []
    for name in study.metrics_of(experiment.name):
        rows = []
        for point in analysis.points():
            found = analysis.samples(point, name) if point.experiment == experiment.name else {}
            for subject, values in found.items():
                label = experiment.flow_label(subject, point.values)
                spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else "–"
                row = [plain(point.values[p]) for p in experiment.over]
                row += [label, f"{statistics.fmean(values):.2f} ± {spread}", f"{statistics.median(values):.2f}"]
                rows.append([*row, str(len(values))])
        if rows:
            head = [study.parameters[p].axis for p in experiment.over]
            head += ["of", "mean ± standard deviation", "median", "runs"]
            parts.append(f"{study.metrics[name].axis}:\n\n" + table(head, rows))
    return parts


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers are set to the right."""
    aligned = ["---:" if all(_is_number(row[i]) for row in rows) else "---" for i in range(len(head))]
    lines = [_line(head), "|" + "|".join(aligned) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(inline(cell).replace("|", "\\|") for cell in cells) + " |"


def inline(text: str) -> str:
    """A text on one line, as in headings and cells: a line break would end these."""
    return " ".join(text.split("\n")).strip()


def _is_number(text: str) -> bool:
    if text in ("–", "all equal"):
        return True
    first = text.replace("±", "").replace("%", "").strip().split(" ")[0]
    try:
        return not math.isnan(float(first.replace(",", "")))
    except ValueError:
        return False
