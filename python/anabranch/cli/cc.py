"""`anabranch cc`: coupled congestion controls in the kernel, by the program that loads them."""

from __future__ import annotations

from typing import NoReturn

import click

_controls = click.argument("controls", nargs=-1)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")


@click.group(short_help="Load coupled congestion controls into Linux")
def cc() -> None:
    """Load coupled congestion controls into Linux, for Multipath TCP."""


@cc.command()
@_controls
@click.option(
    "--floor",
    type=click.IntRange(1, 2),
    default=2,
    show_default=True,
    help="Smallest slow-start threshold after a loss, packets: 2 as in reno, 1 as in the publications.",
)
@click.option("--coupled-start", is_flag=True, help="lia: couple slow start too (Becke 2014, eq. 6.11).")
def load(controls: tuple[str, ...], floor: int, coupled_start: bool) -> NoReturn:
    """Load CONTROLS, or all. They stay until they are unloaded or the machine shuts down.

    A control that is already loaded is replaced atomically; existing connections keep the earlier version.
    """
    _exec_loader("load", "--floor", str(floor), *(["--coupled-start"] if coupled_start else []), *controls)


@cc.command()
@_controls
def unload(controls: tuple[str, ...]) -> NoReturn:
    """Unload CONTROLS, or all. Existing connections keep their control."""
    _exec_loader("unload", *controls)


@cc.command(name="list", short_help="List loadable controls and their sockets")
@_json
def list_controls(as_json: bool) -> NoReturn:
    """List the loadable and loaded controls, with the version that loaded them and the number of their sockets."""
    _exec_loader("list", *(["--json"] if as_json else []))


@cc.command(short_help="Print the connection counts of each control")
@_json
def status(as_json: bool) -> NoReturn:
    """Print connection counts of each control, and the requirements for loading that this machine does not meet."""
    _exec_loader("status", *(["--json"] if as_json else []))


@cc.command(
    context_settings={"ignore_unknown_options": True}, short_help="Run a command with a control for its connections"
)
@click.argument("control")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(control: str, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND with CONTROL for all its connections: anabranch cc run lia -- COMMAND.

    Its child processes use the control as well, until the last of them ends. The exit status is the command's.
    """
    _exec_loader("run", control, "--", *command)


def _exec_loader(*arguments: str) -> NoReturn:
    from anabranch.testbed.loader import LOADER

    LOADER.become(*arguments)
