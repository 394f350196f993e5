"""The command line: `anabranch run`, `explain`, `advise`, `compare`, `study`, `testbed`, `meter`, `observe` and so on.

Exit status 0 means success, 2 a mistake in the input, 1 a failed run, a full disk or a met condition of `compare`, and
130 an interrupt.
"""

from __future__ import annotations

import os
import sys

import click

from anabranch._core.simulator import version
from anabranch.cli.advise import advise
from anabranch.cli.bench import bench
from anabranch.cli.buffers import buffers
from anabranch.cli.cc import cc
from anabranch.cli.compare import compare
from anabranch.cli.endpoint import endpoint
from anabranch.cli.examples import examples
from anabranch.cli.explain import explain
from anabranch.cli.fair import fair
from anabranch.cli.inspect import list_command, schema
from anabranch.cli.lab import lab
from anabranch.cli.man import man
from anabranch.cli.meter import meter
from anabranch.cli.observe import observe
from anabranch.cli.proxy import proxy
from anabranch.cli.replay import replay
from anabranch.cli.run import run
from anabranch.cli.study import study
from anabranch.cli.testbed import doctor, emulate, testbed
from anabranch.errors import InputError, RunFailed, is_full
from anabranch.printable import printable

INTERRUPTED = 130

# Click's message for a text such as "1e3" is "'1e3' is not a valid integer range".
click.IntRange.name, click.FloatRange.name = "whole number", "number"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), "-V", "--version", prog_name="anabranch", message="%(prog)s %(version)s")
def cli() -> None:
    """A laboratory for multipath transport: run scenarios, sweep them, and compare them with published numbers."""


cli.add_command(run)
cli.add_command(replay)
cli.add_command(lab)
cli.add_command(explain)
cli.add_command(advise)
cli.add_command(compare)
cli.add_command(fair)
cli.add_command(buffers)
cli.add_command(study)
cli.add_command(emulate)
cli.add_command(testbed)
cli.add_command(meter)
cli.add_command(observe)
cli.add_command(cc)
cli.add_command(proxy)
cli.add_command(endpoint)
cli.add_command(doctor)
cli.add_command(list_command)
cli.add_command(schema)
cli.add_command(bench)
cli.add_command(examples)
cli.add_command(man)


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
        status = _complain(_plain(error.format_message().replace("\n", " ")), 2)
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
