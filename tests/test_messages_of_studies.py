"""Errors in studies are reported with the file and line of the user's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

import small_study
from anabranch.cli import _plain, cli
from anabranch.errors import InputError
from anabranch.study.definition import load
from anabranch.study.engine import Plan, Silent, execute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request

LOSS = "[parameter.loss]\nvalues = [0.25, 1]\n"


def never(_: Request) -> Document:
    raise AssertionError("nothing runs before all points are checked")


def begin(folder: Path, *, quick: bool) -> None:
    study = load(folder / "study")
    plan = Plan(study, study.effort(quick), folder / "results", never, "b1", 1)
    execute(plan, Silent(), resume=False)


def message_of(folder: Path, right: str, wrong: str, *, quick: bool = True) -> str:
    assert right in small_study.STUDY
    small_study.write(folder / "study", study=small_study.STUDY.replace(right, wrong, 1))
    with pytest.raises(InputError) as caught:
        begin(folder, quick=quick)
    return str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "line_with"),
    [
        ('"flow.F0.congestion" = "{congestion}"', '"flow.F0.congestoin" = "{congestion}"', "congestoin"),
        ('set = { duration = "5 s", warmup = "1 s" }', 'set = { duration = "5 s", warmupp = "1 s" }', "warmupp"),
        ('"{capacity} Mbit/s" }', '"{capacity} Mbps" }', "Mbps"),
        ('labels = { F0 = "{congestion}"', 'set = { warmup = "20 min" }\nlabels = { F0 = "{congestion}"', "20 min"),
        (
            'set = { "flow.F0.congestion" = "{congestion}" }',
            '[parameter.congestion.choice.reno]\n"flow.F0.nagel" = true',
            "nagel",
        ),
    ],
)
def test_wrong_setting_is_named_in_the_study(tmp_path: Path, right: str, wrong: str, line_with: str) -> None:
    message = message_of(tmp_path, right, wrong, quick="20 min" not in wrong)
    lines = (tmp_path / "study" / "study.toml").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, start=1) if line_with in line)
    assert message.startswith(f"{tmp_path}/study/study.toml:{number}: ")
    assert "--set" not in message


def test_number_as_a_choice_has_to_be_quoted(tmp_path: Path) -> None:
    message = message_of(
        tmp_path, "[parameter.congestion]", f'{LOSS}choice.0.25 = {{ duration = "3 s" }}\n\n[parameter.congestion]'
    )
    assert 'write choice."0.25"' in message
    quoted = small_study.STUDY.replace(
        "[parameter.congestion]", f'{LOSS}[parameter.loss.choice."0.25"]\n\n[parameter.congestion]'
    )
    load(small_study.write(tmp_path / "quoted", study=quoted))


def test_reference_before_its_figure_is_explained(tmp_path: Path) -> None:
    message = message_of(tmp_path, "[[figure]]\n", '[[figure.reference]]\nlabel = "x"\noffset = 3\n\n[[figure]]\n')
    assert "[[figure.reference]] in line " in message
    assert "comes before its [[figure]]: put it after that" in message


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("'1e3' is not a valid integer range.", "'1e3' is not a whole number."),
        ("'x' is not a valid integer.", "'x' is not a whole number."),
        ("'abc' is not a valid float range.", "'abc' is not a number."),
    ],
)
def test_types_have_plain_names(said: str, plain: str) -> None:
    assert _plain(said) == plain


def groups(command: click.Command) -> Iterator[click.Group]:
    if isinstance(command, click.Group):
        yield command
        for inner in command.commands.values():
            yield from groups(inner)


def test_descriptions_fit_into_eighty_columns() -> None:
    for group in groups(cli):
        room = 80 - 6 - max(map(len, group.commands))
        for name, command in group.commands.items():
            assert command.hidden or not command.get_short_help_str(room).endswith("..."), (group.name, name)


def test_options_of_a_run_are_grouped() -> None:
    command = cli.commands["run"]
    text = command.get_help(click.Context(command))
    plot, trace, capture = (text.index(f"\n{heading}:\n") for heading in ("Plot", "Trace", "Capture"))
    assert text.index("--world") < plot < text.index("--plot-kind") < trace < text.index("--trace-changes") < capture
