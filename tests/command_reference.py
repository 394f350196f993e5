"""Writes the list of all commands and options in docs/reference/command-line.md from the help of the commands.

`make generate` runs this file as a program. A test compares the document with the help.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    Found = tuple[str, click.Command, click.Context]
    """Full name of a command, the command, and its context."""

DOCUMENT = Path(__file__).parent.parent / "docs/reference/command-line.md"
BEGIN = "<!-- The rest of this page is written by `make generate`. -->\n"


def section() -> str:
    """The list of all commands: for each its usage, its help, and a table of its options."""
    parts = ["## All commands and options", "Every command has `--help`, too."]
    for name, command, context in commands():
        parts.append(f"### {name}")
        usage = f"{name} {' '.join(command.collect_usage_pieces(context))}"
        parts.append(f"`{usage}`: {escaped(' '.join((command.help or '').split()))}")
        rows = [record for option in options(command) if (record := option.get_help_record(context))]
        if rows:
            cells = [(option.replace("|", "\\|"), escaped(" ".join(text.split()))) for option, text in rows]
            lines = [f"| `{option}` | {text} |" for option, text in cells]
            parts.append("\n".join(["| option | meaning |", "|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[Found]:
    """Full name, command and context of each command that does something."""
    top = click.Context(cli, info_name="anabranch")
    yield from _below("anabranch", cli, top)


def _below(name: str, command: click.Command, context: click.Context) -> Iterator[Found]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield name, command, context
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            if found is not None and not found.hidden:
                yield from _below(f"{name} {part}", found, click.Context(found, info_name=part, parent=context))


def options(command: click.Command) -> list[click.Option]:
    """The options of a command that its help lists."""
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden]


def escaped(text: str) -> str:
    """A text that is safe in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def with_section(document: str) -> str:
    """The document with the present list in place of the earlier one."""
    return document.partition(BEGIN)[0] + BEGIN + "\n" + section()


if __name__ == "__main__":
    DOCUMENT.write_text(with_section(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
