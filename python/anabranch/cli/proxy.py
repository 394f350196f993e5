"""`anabranch proxy`: Multipath TCP for hosts that have none, by the program that does it."""

from __future__ import annotations

from typing import NoReturn

import click

from anabranch.testbed.proxies import PROXY

_config = click.option(
    "--config", metavar="FILE", type=click.Path(), help="Settings as TOML; see docs/how-to/proxies.md."
)


@click.group(short_help="Run proxies that give hosts Multipath TCP")
def proxy() -> None:
    """Give hosts that have no Multipath TCP the use of all links, by proxies on stock Linux."""


@proxy.command(short_help="Run a SOCKS 5 proxy for Multipath TCP clients")
@_config
def socks(config: str | None) -> NoReturn:
    """Run a SOCKS 5 proxy: clients come by Multipath TCP and name the server that they want.

    Without a file it listens on 127.0.0.1:1080, for this machine alone.
    """
    PROXY.become("socks", *_options(config))


@proxy.command(short_help="Run reverse proxies before servers that have TCP only")
@click.option("--config", metavar="FILE", required=True, type=click.Path(), help="Its servers, as TOML.")
def reverse(config: str) -> NoReturn:
    """Run reverse proxies: clients come by Multipath TCP, the servers behind have TCP alone."""
    PROXY.become("reverse", *_options(config))


@proxy.command(short_help="Run a converter (RFC 8803)")
@click.option(
    "--config", metavar="FILE", required=True, type=click.Path(), help="TOML file that lists the permitted clients."
)
def convert(config: str) -> NoReturn:
    """Run a converter (RFC 8803): Multipath TCP clients send the server's address with their first data."""
    PROXY.become("convert", *_options(config))


@proxy.command(short_help="Run a router that sends TCP through a SOCKS 5 proxy")
@click.option("--config", metavar="FILE", required=True, type=click.Path(), help="Its proxy and interfaces, as TOML.")
@click.option("--print", "as_script", is_flag=True, help="Print what it would install, for a shell, and do nothing.")
def router(config: str, as_script: bool) -> NoReturn:
    """Run a router: TCP of the hosts behind it goes through a SOCKS 5 proxy of ours over Multipath TCP.

    It needs CAP_NET_ADMIN, and the programs nft and ip.
    """
    PROXY.become("router", *_options(config), *(["--print"] if as_script else []))


@proxy.command(short_help="Maintain rules, routes and endpoints of several links")
@click.option("--config", metavar="FILE", required=True, type=click.Path(), help="The links, as TOML.")
@click.option("--print", "as_script", is_flag=True, help="Print what should be there just now, for a shell.")
def uplinks(config: str, as_script: bool) -> NoReturn:
    """Keep rules, routes and endpoints of several links as the links are, until ended.

    It needs CAP_NET_ADMIN.
    """
    PROXY.become("uplinks", *_options(config), *(["--print"] if as_script else []))


@proxy.command(short_help="Show the streams of a running proxy")
@click.argument("address", required=False)
def watch(address: str | None) -> NoReturn:
    """Show the connections of a proxy with [watch] in its file, in this terminal.

    ADDRESS is the address of its status page; the default is 127.0.0.1:9180.
    """
    PROXY.become("watch", *([] if address is None else [address]))


@proxy.command()
@click.option("--to", metavar="HOST:PORT", help="The proxy to connect to from each uplink.")
@click.option(
    "--config", metavar="FILE", type=click.Path(), help="A file that names the proxy in [socks.via] or [router.via]."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def check(to: str | None, config: str | None, as_json: bool) -> NoReturn:
    """Explain why only one link is used, and list the commands to fix it.

    Run it as root on the host that has the links. The exit status is 1 if it finds a problem.
    """
    if to is not None and config is not None:
        raise click.UsageError("--to and --config both name a proxy")
    options = ["--to", to] if to is not None else _options(config)
    PROXY.become("check", *(["--json"] if as_json else []), *options)


def _options(config: str | None) -> list[str]:
    return [] if config is None else ["--config", config]
