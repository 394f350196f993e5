"""Checks that a study names no file outside its folder, and no trace outside that of its scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import paths
from anabranch.files import read_input
from anabranch.sweep import all_placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.study.document import Table
    from anabranch.study.keys import StudyKeys
    from anabranch.study.model import Effort, Experiment, Study


def check_files(table: Table[StudyKeys], file: str) -> None:
    """Check the files of claims and published values before they are read.

    Raises:
        InputError: Naming the first one outside the folder of the study.

    """
    keys = table.keys
    if keys.claims:
        paths.check_inside("file", keys.claims, file, table.line("claims"))
    if keys.published:
        line = table.inner("published", keys.published).line("file")
        paths.check_inside("file", keys.published.file, file, line)


def check_traces(study: Study, file: str) -> None:
    """Check the traces of all templates and of all settings of points.

    Raises:
        InputError: Naming the first one outside the folder of its scenario.

    """
    for name, text in study.scenarios.items():
        paths.check_traces(text, str(study.folder / name))
    for experiment in study.experiments.values():
        for form in study.forms:
            names = _tracing(study, experiment, form)
            for point in study.slice(form, experiment, names) if names is not None else ():
                for trace in paths.outside(point.overrides, str(study.folder / point.scenario)):
                    text = read_input(Path(file))
                    raise paths.refusal("trace", trace, file, paths.line_of_text(text, trace))


def _tracing(study: Study, experiment: Experiment, form: Effort) -> set[str] | None:
    """The parameters that decide which traces the settings of a form's points name; `None` if they name none."""
    found = [("", item) for item in (*experiment.sets.items(), *form.sets.items()) if _is_trace(item)]
    found += [(name, item) for name in experiment.over for item in _settings(study, name) if _is_trace(item)]
    if not found:
        return None
    return {name for name, _ in found if name} | {p for _, (_, value) in found for p in all_placeholders(value)}


def _settings(study: Study, name: str) -> Iterator[tuple[str, Any]]:
    parameter = study.parameters[name]
    for keys in (parameter.sets, *parameter.choices.values()):
        yield from keys.items()


def _is_trace(item: tuple[str, Any]) -> bool:
    """Whether a setting may name a trace."""
    return any(key in repr(item) for key in paths.KEYS)
