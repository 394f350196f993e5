"""`anabranch proxy`: Multipath TCP for hosts that have none, by the program `anabranch-proxy`."""

from __future__ import annotations

from typing import NoReturn

import click

from anabranch.errors import InputError
from anabranch.testbed.proxies import PROXY

_config = click.option(
    "--config", metavar="FILE", type=click.Path(), help="Settings as TOML; see docs/how-to/proxies.md."
)


@click.group(short_help="Run proxies that give hosts Multipath TCP")
def proxy() -> None:
    """Run proxies on stock Linux, so that hosts without Multipath TCP use all links."""


@proxy.command(short_help="Run a SOCKS 5 proxy for Multipath TCP clients")
@_config
def socks(config: str | None) -> NoReturn:
    """Run a SOCKS 5 proxy: clients connect by Multipath TCP and name the server.

    Without a file it listens on 127.0.0.1:1080, which only this machine can reach.
    """
    PROXY.become("socks", *_options(config))


@proxy.command(short_help="Run reverse proxies for servers that have TCP only")
@click.option("--config", metavar="FILE", required=True, type=click.Path(), help="TOML file that lists the servers.")
def reverse(config: str) -> NoReturn:
    """Run reverse proxies: clients connect by Multipath TCP, and the proxy connects to the servers by TCP."""
    PROXY.become("reverse", *_options(config))


@proxy.command(short_help="Run a converter (RFC 8803)")
@click.option(
    "--config", metavar="FILE", required=True, type=click.Path(), help="TOML file that lists the permitted clients."
)
def convert(config: str) -> NoReturn:
    """Run a converter (RFC 8803): Multipath TCP clients send the server's address with their first data."""
    PROXY.become("convert", *_options(config))


@proxy.command(short_help="Run a router that sends TCP through a SOCKS 5 proxy")
@click.option(
    "--config", metavar="FILE", required=True, type=click.Path(), help="TOML file with the proxy and interfaces."
)
@click.option("--print", "as_script", is_flag=True, help="Print the commands as a shell script, without running them.")
def router(config: str, as_script: bool) -> NoReturn:
    """Run a router: it sends TCP of the hosts behind it over Multipath TCP through an Anabranch SOCKS 5 proxy.

    It needs CAP_NET_ADMIN, and the programs nft and ip.
    """
    PROXY.become("router", *_options(config), *(["--print"] if as_script else []))


@proxy.command(short_help="Maintain rules, routes and endpoints of several links")
@click.option("--config", metavar="FILE", required=True, type=click.Path(), help="TOML file that lists the links.")
@click.option("--print", "as_script", is_flag=True, help="Print the commands for the present links as a shell script.")
def uplinks(config: str, as_script: bool) -> NoReturn:
    """Adapt rules, routes and endpoints to the state of several links, until this process is stopped.

    It needs CAP_NET_ADMIN.
    """
    PROXY.become("uplinks", *_options(config), *(["--print"] if as_script else []))


@proxy.command(short_help="Show the streams of a running proxy")
@click.argument("address", required=False)
def watch(address: str | None) -> NoReturn:
    """Show the connections of a proxy in this terminal. The proxy's file must have the table [watch].

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
        raise InputError("--to and --config exclude each other; omit one of them")
    options = ["--to", to] if to is not None else _options(config)
    PROXY.become("check", *(["--json"] if as_json else []), *options)


def _options(config: str | None) -> list[str]:
    return [] if config is None else ["--config", config]
