"""The report of a study in several worlds: published, simulated and measured values side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._core.worlds import LABELS
from anabranch.errors import InputError, not_written
from anabranch.plot import style
from anabranch.plot import world_comparison as drawing
from anabranch.report.markdown import inline, table
from anabranch.report.run_tables import number
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import as_published, confidence, interval, percent, say, share, unreadable
from anabranch.study import frames
from anabranch.study.world_comparison import PUBLISHED
from anabranch.sweep import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from anabranch.study.model import Experiment
    from anabranch.study.world_comparison import Cell, WorldComparison

LATE = "†"
"""Mark of a value from a machine that did not keep up with its network."""
_SHORT_WORLDS = {PUBLISHED: "publ.", "sim": "sim.", "user": "user", "kernel": "kernel"}
_WORLD_PHRASES = {"sim": "simulated", "user": "in user space", "kernel": "of the kernel"}
"""Words for a world at the end of the sentence "N cells have no value …"."""


def write_all(comparison: WorldComparison, folder: Path) -> Path:
    """Write report.md, cells.csv and the figures into a folder; returns the report.

    Raises:
        InputError: If the folder cannot be written.

    """
    try:
        for world, analysis in comparison.analyses.items():
            if not analysis.runs:
                raise InputError(f"holds no run of {LABELS[world]} that this version can read; {unreadable(analysis)}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cells.csv").write_text(frames.frame(_rows(comparison)).write_csv(), encoding="utf-8")
        links = []
        for figure in comparison.study.figures:
            canvas = drawing.draw(figure, comparison)
            if canvas is not None:
                style.save(canvas, folder / "figures", figure.name)
                links.append(f"![{figure.name}](figures/{figure.name}.png)")
        target = folder / "report.md"
        target.write_text(_markdown(comparison, links), encoding="utf-8")
    except OSError as error:
        place = str(error.filename or folder)
        raise not_written(f"cannot be written: {error.strerror or error}", error, place) from None
    return target


def print_all(comparison: WorldComparison, console: Console) -> None:
    """Print every cell, then the distributions of the deviations."""
    for experiment in comparison.study.experiments.values():
        cells = _of(comparison, experiment)
        if cells:
            _sheet(
                _cell_columns(comparison, experiment, cells),
                _cell_rows(comparison, experiment, cells),
                experiment.title,
            ).print(console)
    _sheet(_group_columns(comparison), _group_rows(comparison), "Deviations").print(console)
    for sentence in [*_notes(comparison), *_forms(comparison)]:
        say(console, sentence)


def _markdown(comparison: WorldComparison, links: Sequence[str]) -> str:
    study = comparison.study
    *others, last = (LABELS[world] for world in comparison.analyses)
    names = f"{', '.join(others)} and {last}"
    parts = [f"# {inline(study.title)}: {names}", study.about.strip()]
    parts += [f"Source: {study.source}"] if study.source else []
    parts.append("\n".join(f"- {sentence}" for sentence in _forms(comparison)))
    parts.append("## Deviations\n\n" + _table(_group_columns(comparison), _group_rows(comparison)))
    parts += _notes(comparison)
    if links:
        parts.append("## Figures\n\n" + "\n\n".join(links))
    parts.append("## Every cell")
    for experiment in study.experiments.values():
        cells = _of(comparison, experiment)
        if cells:
            text = _table(_cell_columns(comparison, experiment, cells), _cell_rows(comparison, experiment, cells))
            parts.append(f"### {inline(experiment.title)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def _of(comparison: WorldComparison, experiment: Experiment) -> list[Cell]:
    return [cell for cell in comparison.cells if cell.point.experiment == experiment.name]


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    return table([column.name for column in columns], rows)


def _sheet(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str) -> Sheet:
    sheet = Sheet(columns, title)
    for row in rows:
        sheet.add(*row)
    return sheet


def _cell_columns(comparison: WorldComparison, experiment: Experiment, cells: Sequence[Cell]) -> list[Column]:
    study = comparison.study
    parameters = [study.parameters[name] for name in experiment.over]
    columns = [Column(f"{p.name}\n{p.unit}".rstrip(), words=isinstance(p.values[0], str)) for p in parameters]
    columns.append(Column("flow", words=True))
    unit = study.metrics[study.tabulated].unit
    for column in comparison.columns:
        columns.append(Column(f"{LABELS.get(column, column)}\n{unit}".rstrip()))
        if column != PUBLISHED:
            estimates = [cell.worlds[column] for cell in cells if column in cell.worlds]
            columns.append(Column(f"{_SHORT_WORLDS[column]}\n{confidence(estimates)}", spare=1))
    columns += [Column(f"{_SHORT_WORLDS[of]}\n− {_SHORT_WORLDS[base]}") for of, base in comparison.pairs]
    return columns


def _cell_rows(comparison: WorldComparison, experiment: Experiment, cells: Sequence[Cell]) -> list[list[str]]:
    rows = []
    for cell in cells:
        row = [plain(cell.point.values[name]) for name in experiment.over]
        row.append(experiment.flow_label(cell.subject, cell.point.values))
        for column in comparison.columns:
            if column == PUBLISHED:
                row.append(as_published(cell.published))
                continue
            ours = cell.worlds.get(column)
            mark = f" {LATE}" if column in cell.late else ""
            row += [number(cell.value(column), 1.0, 2) + mark, "–" if ours is None else interval(ours)]
        rows.append(row + [percent(cell.deviation(of, base)) for of, base in comparison.pairs])
    return rows


def _group_columns(comparison: WorldComparison) -> list[Column]:
    columns = [Column("group", words=True), Column("values")]
    for of, base in comparison.pairs:
        pair = f"{_SHORT_WORLDS[of]} − {_SHORT_WORLDS[base]}"
        columns += [Column(f"{pair}\nmedian"), Column(f"{pair}\n90 %")]
    for of, base in comparison.pairs:
        columns.append(
            Column(
                f"sums {_SHORT_WORLDS[of]} − {_SHORT_WORLDS[base]}\n± {100 * comparison.sum_tolerance:.0f} %",
                spare=1,
            )
        )
    return columns


def _group_rows(comparison: WorldComparison) -> list[list[str]]:
    rows = []
    for name, cells in comparison.groups.items():
        distances = [comparison.distance(cells, of, base) for of, base in comparison.pairs]
        row = [name, str(len(cells))]
        for found in distances:
            row += ["–", "–"] if found is None else [f"{100 * found.median:.1f} %", f"{100 * found.p90:.1f} %"]
        rows.append(row + ["–" if found is None else share(found.sums_agree) for found in distances])
    return rows


def _forms(comparison: WorldComparison) -> list[str]:
    """One or two sentences on the runs of each world."""
    sentences = []
    for world, analysis in comparison.analyses.items():
        effort = analysis.effort
        total = len(analysis.runs) + analysis.missing
        sets = "".join(f", {key} = {value}" for key, value in effort.sets.items())
        text = (
            f"{LABELS[world].capitalize()}: {effort.name} form, {len(analysis.runs)} runs of {total}{sets}, build "
            f"{', '.join(sorted(analysis.builds))}. {analysis.intervals}"
        )
        if analysis.missing:
            text += f" Run the missing ones: study run {comparison.study.name} --world {world} --resume."
        if left_out := unreadable(analysis):
            text += f" {left_out}"
        sentences.append(text)
    return sentences


def _notes(comparison: WorldComparison) -> list[str]:
    """The cells that the deviations cover, those that they leave out, and the reason."""
    published = comparison.study.published
    divisor = published.relative_to if published is not None else ""
    whole = len(comparison.cells)
    text = (
        f"Deviations are |a − b| / {divisor or 'b'} over the {len(comparison.compared)} of {whole} cells that every "
        "world has from a machine fast enough; sums are over all flows of a point."
    )
    for world in comparison.analyses:
        lacking = sum(world not in cell.worlds for cell in comparison.cells)
        if lacking:
            text += f" {lacking} cells have no value {_WORLD_PHRASES[world]}."
    late = [cell for cell in comparison.cells if cell.late]
    if not late:
        return [text]
    points = {cell.point.key: sum(cell.late.values()) for cell in late}
    return [
        text,
        f"{LATE} marks {len(late)} cells with {sum(points.values())} runs on a machine that did not keep up with its "
        "network: they are not results of that network.",
    ]


def _rows(comparison: WorldComparison) -> list[dict[str, object]]:
    """One row per cell; deviations are shares."""
    rows = []
    for cell in comparison.cells:
        row: dict[str, object] = {"experiment": cell.point.experiment, **cell.point.values, "subject": cell.subject}
        if PUBLISHED in comparison.columns:
            row[PUBLISHED] = cell.published
        for world in comparison.analyses:
            ours = cell.worlds.get(world)
            row[world] = None if ours is None else ours.centre
            for key in ("low", "high", "confidence", "count"):
                row[f"{world}_{'runs' if key == 'count' else key}"] = None if ours is None else getattr(ours, key)
            row[f"{world}_late"] = cell.late.get(world, 0)
        row |= {f"{of}_minus_{base}": cell.deviation(of, base) for of, base in comparison.pairs}
        rows.append(row)
    return rows
