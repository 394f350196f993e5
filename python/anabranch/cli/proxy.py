"""`anabranch proxy`: Multipath TCP for hosts that have none, by the program that does it."""

from __future__ import annotations

from typing import NoReturn

import click

from anabranch.program import Program

PROXY = Program(
    name="anabranch-proxy",
    override="ANABRANCH_PROXY",
    task="relays connections",
    elsewhere="the proxies are Linux's",
    crate="proxy",
)

_config = click.option(
    "--config", metavar="FILE", type=click.Path(), help="What it does, as TOML; docs/proxies.md has an example."
)


@click.group()
def proxy() -> None:
    """Give hosts that have no Multipath TCP the use of all links, by proxies on stock Linux."""


@proxy.command()
@_config
def socks(config: str | None) -> NoReturn:
    """Run a SOCKS 5 proxy: clients come by Multipath TCP and name the server that they want.

    Without a file it listens on 127.0.0.1:1080, for this machine alone.
    """
    PROXY.become("socks", *_options(config))


def _options(config: str | None) -> list[str]:
    return [] if config is None else ["--config", config]
