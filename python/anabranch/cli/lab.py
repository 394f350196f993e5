"""`anabranch lab`: the laboratory in the browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from anabranch.errors import InputError
from anabranch.files import read_input

_LARGEST_SEED = 2**53 - 1
"""Largest seed of the page: the largest integer that JavaScript represents exactly."""


@click.command(short_help="Open the laboratory in a browser")
@click.argument("scenario", required=False, type=click.Path(allow_dash=True))
@click.option("--seed", type=click.IntRange(0, _LARGEST_SEED), help="Seed of all random streams.")
@click.option("--export", "file", metavar="FILE", help="Write the page to FILE instead; it works without a server.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Serve on this port.  [default: any free one]")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
def lab(scenario: str | None, seed: int | None, file: str | None, port: int, no_browser: bool) -> None:
    """Open the laboratory in a browser: a page that simulates SCENARIO, or its first lesson, and shows it live.

    SCENARIO is a TOML file or "-" for standard input. The page is served to this machine only, until Ctrl-C.
    """
    from anabranch.files import write_output
    from anabranch.lab.page import page

    if scenario is None and seed is not None:
        raise InputError("--seed needs a SCENARIO: the lessons of the page have their own seeds")
    if file is not None and (port or no_browser):
        raise InputError("--export starts no server; omit --port and --no-browser")
    html = page(_text(scenario), seed, "standard input" if scenario == "-" else str(scenario))
    if file is not None:
        write_output(Path(file), html)
        return
    _serve(html, port, opens_browser=not no_browser)


def _text(scenario: str | None) -> str | None:
    """The text of the scenario; no file but this one is read."""
    if scenario is None:
        return None
    if scenario != "-":
        return read_input(Path(scenario))
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", "standard input") from None


def _serve(html: str, port: int, *, opens_browser: bool) -> None:
    import webbrowser

    from anabranch.lab.server import PageServer

    with PageServer(html, port) as server:
        click.echo(f"the laboratory is at {server.url}; Ctrl-C ends it")
        sys.stdout.flush()
        if opens_browser:
            webbrowser.open(server.url)
        server.serve_forever()
