"""The report of a study as Markdown, with its figures in the same folder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.report import first_findings
from anabranch.report import study_tables as tables
from anabranch.report.terminal import absences, expectation, measurements, tally

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.study.analysis import Analysis
    from anabranch.study.engine import Plan
    from anabranch.study.model import Experiment


def write(analysis: Analysis, figures: Sequence[Path], plan: Plan) -> Path:
    """Write report.md into the plan's folder; the figures are linked relative to it."""
    study = analysis.study
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
    parts += _first_findings(analysis)
    parts.append(f"## Every point\n\n{tables.repetitions(analysis)}")
    for experiment in study.experiments.values():
        found = tables.points(analysis, experiment)
        if found.rows:
            parts.append(f"### {inline(experiment.title)}\n\n" + table(found.head, found.rows))
            if study.shows_deviation:
                parts += _deviations(analysis, experiment)
    target = plan.folder / "report.md"
    target.write_text("\n\n".join(p for p in parts if p) + "\n", encoding="utf-8")
    return target


def _provenance(analysis: Analysis, build: str) -> str:
    """Number of runs, their machine and build, and missing runs; `build` is the present simulator."""
    found = tables.provenance(analysis, build)
    return "\n".join(f"**{sentence}**" if is_warning else sentence for sentence, is_warning in found)


def _first_findings(analysis: Analysis) -> list[str]:
    """The likely causes that slow the points of each experiment down."""
    findings = first_findings.tables(analysis)
    parts = [f"## First findings\n\n{first_findings.NOTE}"] if findings else []
    for title, found in findings:
        rows = [[*row[:-1], f"`{row[-1]}`"] for row in found.rows]
        parts.append(f"### {inline(title)}\n\n{found.note}\n\n" + table(found.head, rows))
    return parts


def _summaries(analysis: Analysis) -> str:
    found = tables.summaries(analysis)
    return f"{found.note}\n\n{table(found.head, found.rows)}"


def _verdicts(analysis: Analysis) -> str:
    rows = []
    for v in analysis.verdicts:
        measured = "<br>".join(measurements(v)) or "–"
        rows.append([f"**{v.outcome}**", v.claim.id, v.claim.text, expectation(v.claim), measured])
    text = table(tables.VERDICT_HEAD, rows)
    return "\n\n".join([text, *(f"**{title}** {reason}" for title, reason in tables.explanations(analysis))])


def _deviations(analysis: Analysis, experiment: Experiment) -> list[str]:
    """For each metric of an experiment a table of mean ± standard deviation and median at each point."""
    return [f"{found.note}:\n\n{table(found.head, found.rows)}" for found in tables.deviations(analysis, experiment)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers are set to the right."""
    aligned = ["---:" if all(is_number(row[i]) for row in rows) else "---" for i in range(len(head))]
    lines = [_line(head), "|" + "|".join(aligned) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(inline(cell).replace("|", "\\|") for cell in cells) + " |"


def inline(text: str) -> str:
    """A text on one line, as in headings and cells: a line break would end these."""
    return " ".join(text.split("\n")).strip()


def is_number(text: str) -> bool:
    """Whether a cell of a table is a number, or stands for one that does not exist."""
    if text in ("–", "all equal"):
        return True
    first = text.replace("±", "").replace("%", "").strip().split(" ")[0]
    try:
        return not math.isnan(float(first.replace(",", "")))
    except ValueError:
        return False
