"""`anabranch man`: the manual page, made from the help of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABOUT = "laboratory for multipath transport"


@click.command(short_help="Print the manual page, for man -l")
@click.pass_context
def man(context: click.Context) -> None:
    """Print the manual page; read it with "anabranch man | man -l -"."""
    top = context.find_root()
    click.echo("\n".join(_page(top.command, top)))


def _page(command: click.Command, context: click.Context) -> Iterator[str]:
    from anabranch._core.simulator import version

    yield f'.TH ANABRANCH 1 "" "anabranch {version()}"'
    yield from (
        ".SH NAME",
        rf"anabranch \- {_ABOUT}",
        ".SH SYNOPSIS",
        ".B anabranch",
        r"\fICOMMAND\fR [\fIARGUMENTS\fR]",
    )
    yield from (".SH DESCRIPTION", _roff(command.help or ""), ".SH COMMANDS")
    yield from _commands(command, context)
    yield from (".SH EXIT STATUS", "0 if the work was done, 2 if the input has a mistake, 1 if a run failed,")
    yield "130 after an interrupt."


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    """A section for each command that does something. A group has one if it can be called without a command."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield from _section(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, click.Context(found, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (".SS " + _roff(f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"),)
    yield _roff(" ".join((command.help or "").split()))
    for parameter in command.get_params(context):
        record: Any = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            yield from (".TP", ".B " + _roff(record[0]), _roff(record[1]))


def _roff(text: str) -> str:
    """Escapes text for troff: backslashes, hyphens, and dots or quotation marks at the start of a line."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))
