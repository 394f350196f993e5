"""The command line: `anabranch run`, `explain`, `advise`, `compare`, `study`, `testbed`, `meter`, `observe` and so on.

Exit status 0 means success, 2 a mistake in the input, 1 a failed run, a full disk or a met condition of `compare`, and
130 an interrupt.
"""

from __future__ import annotations

import os
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import version
from anabranch.errors import InputError, RunFailed, is_full
from anabranch.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = 130

# Click's message for a text such as "1e3" is "'1e3' is not a valid integer range".
click.IntRange.name, click.FloatRange.name = "whole number", "number"

_PLACES = {
    "run": ("run", "run"),
    "replay": ("replay", "replay"),
    "lab": ("lab", "lab"),
    "explain": ("explain", "explain"),
    "advise": ("advise", "advise"),
    "compare": ("compare", "compare"),
    "fair": ("fair", "fair"),
    "buffers": ("buffers", "buffers"),
    "study": ("study", "study"),
    "emulate": ("testbed", "emulate"),
    "testbed": ("testbed", "testbed"),
    "meter": ("meter", "meter"),
    "observe": ("observe", "observe"),
    "cc": ("cc", "cc"),
    "proxy": ("proxy", "proxy"),
    "endpoint": ("endpoint", "endpoint"),
    "doctor": ("testbed", "doctor"),
    "list": ("inspect", "list_command"),
    "schema": ("inspect", "schema"),
    "bench": ("bench", "bench"),
    "examples": ("examples", "examples"),
    "man": ("man", "man"),
}
"""Module and function of each command."""


class _Commands(UserDict[str, click.Command]):
    """Imports a command when it is read: a call needs one of them, and importing all takes longer than most calls."""

    def __getitem__(self, key: str) -> click.Command:
        if key not in self.data:
            module, function = _PLACES[key]
            self.data[key] = getattr(import_module(f"{__name__}.{module}"), function)
        return self.data[key]

    def __contains__(self, key: object) -> bool:
        return key in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


@click.group(commands=_Commands(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), "-V", "--version", prog_name="anabranch", message="%(prog)s %(version)s")
def cli() -> None:
    """A laboratory for multipath transport: run scenarios, sweep them, and compare them with published numbers."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; every mistake is one sentence on stderr."""
    sys.exit(_status(arguments))


def _status(arguments: list[str] | None) -> int:
    status = 0
    try:
        returned = cli.main(args=arguments, prog_name="anabranch", standalone_mode=False)
        status = returned if isinstance(returned, int) else 0
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = 2
    except click.ClickException as error:
        status = _complain(_with_remedy(error), 2)
    except InputError as error:
        status = _complain(str(error), 2)
    except RunFailed as error:
        status = _complain(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        status = _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the standard output has closed the pipe: further output would fail, too.
        _drop_output()
        status = 1
    except OSError as error:
        # Errors with a file name are handled where the file is opened; the only one left is a full disk.
        if error.filename is not None or not is_full(error):
            raise
        _drop_output()
        status = _complain(f"the output cannot be written: {error.strerror}", 1)
    return status


def _with_remedy(error: click.ClickException) -> str:
    """Click's message, with the valid commands or the form of the command where Click names no remedy."""
    message = _plain(error.format_message().replace("\n", " "))
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or "Did you mean" in message:
        return message
    if isinstance(error, click.NoSuchOption):
        return f"{message.rstrip('.')}; see {context.command_path} --help"
    if isinstance(context.command, click.Group) and not isinstance(error, click.BadParameter):
        return f"{message.rstrip('.')}; choose from {', '.join(context.command.list_commands(context))}"
    if type(error) is click.UsageError or isinstance(error, click.MissingParameter):
        form = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        return f"{message.rstrip('.')}; write {form}"
    return message


def _plain(message: str) -> str:
    """Replaces Click's names of types in a message by plain words."""
    for kind, thing in (("integer range", "whole number"), ("integer", "whole number"), ("float range", "number")):
        message = message.replace(f"is not a valid {kind}.", f"is not a {thing}.")
    return message.replace("is not a valid float.", "is not a number.")


def _drop_output() -> None:
    """Redirect the remaining output to /dev/null; otherwise Python would fail again when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _complain(message: str, status: int) -> int:
    click.echo(f"anabranch: {printable(message)}", err=True)
    return status
