"""Finds the line in study.toml that sets a scenario key, for messages on mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.study.document import line_of
from anabranch.sweep import plain

if TYPE_CHECKING:
    from anabranch.study.model import Effort, Study
    from anabranch.sweep import Point

_SETTING = "--set "
"""The beginning of the simulator's messages on a setting."""


def placed(error: InputError, study: Study, effort: Effort, point: Point, file: str) -> InputError:
    """A mistake in a setting of a point, at the key of the study's file that holds it; any other mistake as it is."""
    for override in point.overrides:
        if error.message.startswith(f"{_SETTING}{override}: "):
            key, _, value = override.partition("=")
            try:
                text = (study.folder / file).read_text(encoding="utf-8")
            except OSError:
                return error
            message = error.message.removeprefix(f"{_SETTING}{override}: ")
            line = line_of(text, _where(study, effort, point, key))
            return InputError(f'"{key}" = {value} for {point.scenario}: {message}', str(study.folder / file), line)
    return error


def _where(study: Study, effort: Effort, point: Point, key: str) -> tuple[str, ...]:
    """The tables down to a scenario key: of several that set it the one that wins."""
    if key in effort.sets:
        form = "quick" if effort.quick else "full"
        return (form, "real_time", "set", key) if effort.real_time else (form, "set", key)
    experiment = study.experiments[point.experiment]
    for name in reversed(experiment.over):
        parameter, value = study.parameters[name], plain(point.values[name])
        if key in parameter.choices.get(value, {}):
            return ("parameter", name, "choice", value, key)
        if key in parameter.sets:
            return ("parameter", name, "set", key)
    return ("experiment", point.experiment, "set", key)
