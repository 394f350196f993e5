"""The report of a study as a page in one file: figures with values under the pointer, statements, every point."""

from __future__ import annotations

import html
import json
import shlex
from typing import TYPE_CHECKING

from anabranch.html import bullets, cells, downloadable, grid, paragraph
from anabranch.html.figure import embed
from anabranch.html.page import page
from anabranch.plot.panels import PanelKind, chosen, series_label, view_of
from anabranch.report import first_findings
from anabranch.report import study_tables as tables
from anabranch.report.markdown import is_number
from anabranch.report.run_tables import number
from anabranch.report.terminal import absences, as_published, expectation, interval, measurements, tally
from anabranch.sweep import matches, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.figure import Figure as Canvas

    from anabranch.plot.spots import Spot
    from anabranch.report.study_tables import Table
    from anabranch.study.analysis import Analysis
    from anabranch.study.claims import Quantity, Verdict
    from anabranch.study.figures import Figure
    from anabranch.study.model import Experiment
    from anabranch.sweep import Point

_OUTCOME_LOOKS = {"pass": "good", "fail": "bad"}
_ALL = '<option value="">all</option>'


def page_of(analysis: Analysis, drawn: Mapping[str, Canvas], build: str) -> str:
    """The report as the text of a page.

    Args:
        analysis: The finished runs.
        drawn: The figures by name.
        build: The present build of the simulator.

    """
    study = analysis.study
    names = {point.key: f"p{number}" for number, point in enumerate(analysis.points())}
    parts = [f"<h1>{html.escape(study.title)}</h1>", paragraph(study.about.strip())]
    if study.source:
        parts.append(paragraph(f"Source: {study.source}"))
    parts += [paragraph(text, "bad" if is_bad else "dim") for text, is_bad in tables.provenance(analysis, build)]
    if study.assumptions:
        parts += ["<h2>Assumptions</h2>", bullets(study.assumptions)]
    parts += _comparisons(analysis)
    if drawn:
        parts.append("<h2>Figures</h2>")
        parts += [_figure(f, analysis, drawn[f.name], names) for f in study.figures if f.name in drawn]
        parts += map(paragraph, absences(analysis))
    if analysis.undefined:
        parts += ["<h2>Values that do not exist</h2>", bullets(analysis.undefined)]
    parts += _first_findings(analysis)
    parts += _every_point(analysis, names)
    parts += ["<h2>Scenarios</h2>", _scenarios(analysis)]
    return page(study.title, "\n".join(parts))


def _comparisons(analysis: Analysis) -> list[str]:
    """Deviations from published values, and published statements."""
    parts = []
    if analysis.summaries:
        found = tables.summaries(analysis)
        parts += ["<h2>Deviations from published values</h2>", paragraph(found.note), _table(found)]
    if analysis.verdicts:
        parts += ["<h2>Published statements</h2>", paragraph(tally(analysis)), _verdicts(analysis)]
    return parts


def _first_findings(analysis: Analysis) -> list[str]:
    found = first_findings.tables(analysis)
    parts = ["<h2>First findings</h2>", paragraph(first_findings.NOTE)] if found else []
    for title, rows in found:
        parts += [f"<h3>{html.escape(title)}</h3>", paragraph(rows.note), _table(rows)]
    return parts


def _every_point(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    parts = ["<h2>Every point</h2>", paragraph(tables.repetitions(analysis)), _filter(analysis)]
    runs = _runs(analysis)
    for experiment in analysis.study.experiments.values():
        found = tables.points(analysis, experiment)
        if not found.rows:
            continue
        parts += [f"<h3>{html.escape(experiment.title)}</h3>", _points(found, experiment, names, runs)]
        for spread in tables.deviations(analysis, experiment) if analysis.study.shows_deviation else []:
            parts += [paragraph(f"{spread.note}:"), _table(spread)]
    return parts


def _numbers(rows: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Whether each column has numbers only."""
    return [all(is_number(row[i]) for row in rows) for i in range(width)]


def _table(found: Table) -> str:
    numbers = _numbers(found.rows, len(found.head))
    return grid(found.head, (f"<tr>{cells(row, numbers)}</tr>" for row in found.rows), numbers)


# Statements


def _verdicts(analysis: Analysis) -> str:
    outcomes = dict.fromkeys(v.outcome for v in analysis.verdicts)
    options = "".join(f"<option>{html.escape(outcome)}</option>" for outcome in outcomes)
    choice = f'<fieldset id="outcomes"><label>Outcome <select>{_ALL}{options}</select></label></fieldset>'
    reasons = "".join(
        f"<p><b>{html.escape(title)}</b> {html.escape(reason)}</p>" for title, reason in tables.explanations(analysis)
    )
    rows = map(_verdict_row, analysis.verdicts)
    return choice + grid(tables.VERDICT_HEAD, rows, [False] * len(tables.VERDICT_HEAD)) + reasons


def _verdict_row(verdict: Verdict) -> str:
    claim = verdict.claim
    measured = "<br>".join(map(html.escape, measurements(verdict))) or "–"
    name = html.escape(claim.id)
    return (
        f'<tr data-outcome="{html.escape(verdict.outcome)}" id="claim-{name}"><td>{_outcome(verdict)}</td>'
        f"<td>{name}</td><td>{html.escape(claim.text)}</td><td>{html.escape(expectation(claim))}</td>"
        f"<td>{measured}</td></tr>"
    )


def _outcome(verdict: Verdict) -> str:
    look = _OUTCOME_LOOKS.get(verdict.outcome, "dim")
    return f'<span class="{look}">{html.escape(verdict.outcome)}</span>'


# Figures


def _figure(figure: Figure, analysis: Analysis, canvas: Canvas, names: Mapping[str, str]) -> str:
    labels: list[str] = []
    if isinstance(figure.kind, PanelKind):
        points = chosen(figure, analysis.points())
        labels = [series_label(figure, analysis, s, points) for s in view_of(figure, analysis, points).names]

    def describe(spot: Spot) -> tuple[str, Sequence[str]]:
        label = None if spot.series is None else labels[spot.series]
        return _text(spot, figure, analysis, label), [names[point.key] for point in spot.points]

    title = figure.title or figure.name
    found = embed(canvas, figure.name, title, labels, describe)
    toggles = "".join(
        f'<label><input type="checkbox" checked data-shows="{index}">{html.escape(label)}</label>'
        for index, label in enumerate(found.series)
    )
    series = f"<fieldset><legend>Series</legend>{toggles}</fieldset>" if len(found.series) > 1 else ""
    about = [v for v in analysis.verdicts if _is_about(v, figure, analysis)]
    items = "".join(f"<li>{_outcome(v)} {_link(v)}: {html.escape(v.claim.text)}</li>" for v in about)
    statements = f"<p>Published statements on these values:</p><ul>{items}</ul>" if items else ""
    caption = f"<figcaption>{html.escape(figure.name)}</figcaption>"
    return f"<h3>{html.escape(title)}</h3><figure>{series}{found.svg}{caption}{statements}</figure>"


def _link(verdict: Verdict) -> str:
    name = html.escape(verdict.claim.id)
    return f'<a href="#claim-{name}">{name}</a>'


def _text(spot: Spot, figure: Figure, analysis: Analysis, label: str | None) -> str:
    """Text of a value: its series, its point, the value with its interval, and the published value."""
    unit = analysis.study.metrics[figure.metric].unit
    lines = [label] if label else []
    shared = dict(spot.points[0].values) if spot.points else {}
    for point in spot.points[1:]:
        shared = {key: value for key, value in shared.items() if point.values.get(key) == value}
    parameters = analysis.study.parameters
    lines += [f"{parameters[key].label or key}: {parameters[key].show(value)}" for key, value in shared.items()]
    reach = "" if spot.ours is None else f" ({interval(spot.ours)})"
    lines.append(f"{number(spot.value, 1.0, 3)} {unit}".rstrip() + reach)
    if spot.published is not None:
        lines.append(f"published {as_published(spot.published)} {unit}".rstrip())
    return "\n".join(lines)


def _is_about(verdict: Verdict, figure: Figure, analysis: Analysis) -> bool:
    """Whether a statement is about values that a figure shows."""
    claim = verdict.claim
    shown = chosen(figure, analysis.points())
    return any(
        quantity.metric in figure.metrics and _shows(quantity, figure, shown)
        for quantity in (claim.quantity, claim.against)
        if quantity is not None and claim.world == "run"
    )


def _shows(quantity: Quantity, figure: Figure, points: Iterable[Point]) -> bool:
    fits = not figure.subjects or not quantity.subjects or bool({*figure.subjects} & {*quantity.subjects})
    is_same = quantity.experiment == figure.experiment
    return is_same and fits and any(matches(point.values, quantity.where) for point in points)


# Points


def _filter(analysis: Analysis) -> str:
    """HTML form in which a reader chooses the shown values of each parameter."""
    choices = {"experiment": [e.title for e in analysis.study.experiments.values()]}
    for point in analysis.points():
        for key, value in point.values.items():
            choices.setdefault(key, []).append(plain(value))
    parts = []
    for key, values in choices.items():
        kept = dict.fromkeys(values)
        if len(kept) > 1:
            parameter = analysis.study.parameters.get(key)
            label = key if parameter is None else parameter.axis
            options = "".join(f"<option>{html.escape(value)}</option>" for value in kept)
            parts.append(
                f'<label>{html.escape(label)} <select data-key="{html.escape(key)}">{_ALL}{options}</select></label>'
            )
    count = '<span id="count" class="dim"></span>'
    return f'<fieldset id="filter"><legend>Show points, here and in figures</legend>{"".join(parts)}{count}</fieldset>'


def _points(found: Table, experiment: Experiment, names: Mapping[str, str], runs: Mapping[str, str]) -> str:
    numbers = [*_numbers(found.rows, len(found.head)), False]
    rows = []
    seen: set[str] = set()
    for row, point in zip(found.rows, found.points, strict=True):
        name = names[point.key]
        values = {"experiment": experiment.title, **{key: plain(value) for key, value in point.values.items()}}
        is_first = point.key not in seen
        seen.add(point.key)
        place = f' id="{name}"' if is_first else ""
        rows.append(
            f'<tr{place} data-point="{name}" data-values="{html.escape(json.dumps(values))}">{cells(row, numbers[:-1])}'
            f"<td>{runs[point.key] if is_first else ''}</td></tr>"
        )
    return grid([*found.head, "runs"], rows, numbers)


def _runs(analysis: Analysis) -> dict[str, str]:
    """For each point the command of its first run, and seed and digest of all."""
    listed: dict[str, list[tuple[int, str]]] = {}
    for run, record in analysis.runs:
        listed.setdefault(run.point.key, []).append((run.seed, str(record.document["digest"] or "none")))
    found = {}
    for point in analysis.points():
        runs = listed[point.key]
        words = ["anabranch", "run", point.scenario]
        for override in point.overrides:
            words += ["--set", override]
        command = shlex.join([*words, "--seed", str(runs[0][0])])
        others = "\n".join(f"seed {seed}  digest {digest}" for seed, digest in runs)
        found[point.key] = (
            f"<details><summary>{len(runs)}</summary><pre>{html.escape(command)}</pre><pre>{html.escape(others)}</pre>"
            f'<a href="#file-{html.escape(point.scenario)}">{html.escape(point.scenario)}</a></details>'
        )
    return found


def _scenarios(analysis: Analysis) -> str:
    """The scenario templates, each with a link that saves it as a file."""
    used = dict.fromkeys(point.scenario for point in analysis.points())
    lead = paragraph(
        "The commands of the points read these files; save them into the current folder first. "
        '"anabranch lab FILE" opens one live in the browser, with its own settings.'
    )
    return lead + "".join(downloadable(file, analysis.study.scenarios[file]) for file in used)
