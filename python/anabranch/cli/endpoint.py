"""`anabranch endpoint`: the protocols of this project on any network, by the program `anabranch-endpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from anabranch._core.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENDPOINT = Program(
    name="anabranch-endpoint",
    override="ANABRANCH_ENDPOINT",
    task="runs this stack on real networks",
    elsewhere="the endpoint runs on Linux only",
    folder="endpoint-app",
)

_OPTIONS = (
    click.option(
        "--tun",
        metavar="NAME,ADDRESS/PREFIX,OWN[,backup]",
        multiple=True,
        help="Create a TUN interface with the kernel's address; OWN is this stack's address. Repeat it for several "
        "paths.",
    ),
    click.option(
        "--udp",
        metavar="ADDRESS",
        multiple=True,
        help="Carry SCTP in UDP from this address of the machine. Repeat it for several paths.",
    ),
    click.option(
        "--protocol",
        metavar="NAME",
        help="tcp, mptcp, sctp or cmt-sctp. The default is mptcp with --tun, and cmt-sctp with --udp.",
    ),
    click.option(
        "--set", metavar="KEY=VALUE", multiple=True, help="Set a key of the protocol, as of a scenario's flow."
    ),
    click.option("--udp-port", metavar="PORT", help="Own UDP port.  [default: 9899]"),
    click.option("--peer-udp-port", metavar="PORT", help="UDP port of a peer to connect to.  [default: 9899]"),
    click.option("--mtu", metavar="BYTES", help="Largest IP packet.  [default: 1500]"),
    click.option("--pcap", metavar="FILE", help="Write all packets to a capture."),
    click.option("--record", metavar="FILE", help="Write a recording for anabranch replay."),
    click.option("--record-data", is_flag=True, help="With --record, also write the transferred bytes."),
    click.option("--json", is_flag=True, help="Print events and counters as JSON lines."),
    click.option("--quiet", is_flag=True, help="Print no table and no progress."),
)


def _network(command: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    """Add the options that all commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(short_help="Run our own stack on real networks")
def endpoint() -> None:
    """Send, receive, relay and serve files by our own Multipath TCP or CMT-SCTP.

    Multipath TCP needs TUN interfaces and CAP_NET_ADMIN, SCTP in UDP needs no rights. The exit status is 0 if
    everything was delivered, 1 if not, and 130 if a signal interrupted it.
    """


@endpoint.command(short_help="Send a file")
@click.argument("file")
@click.argument("target")
@_network
def send(file: str, target: str, **options: Any) -> NoReturn:
    """Send FILE to TARGET, an ADDRESS:PORT; several addresses of an SCTP peer are separated by commas."""
    _become(options, "send", file, target)


@endpoint.command(short_help="Accept one connection and write its data")
@click.argument("port")
@click.option("--output", metavar="FILE", help="Write to this file instead of the standard output.")
@_network
def receive(port: str, **options: Any) -> NoReturn:
    """Accept one connection on PORT and write its data."""
    _become(options, "receive", port)


@endpoint.command(short_help="Connect the terminal to a peer")
@click.argument("target")
@_network
def connect(target: str, **options: Any) -> NoReturn:
    """Connect to TARGET; the standard input is sent, and received data is written to the standard output."""
    _become(options, "connect", target)


@endpoint.command(short_help="Accept one connection for the terminal")
@click.argument("port")
@_network
def listen(port: str, **options: Any) -> NoReturn:
    """Accept one connection on PORT; the standard input is sent, received data goes to the standard output."""
    _become(options, "listen", port)


@endpoint.command(short_help="Relay connections between the kernel and this stack")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_network
def forward(source: str, target: str, **options: Any) -> NoReturn:
    """Relay connections, until a signal.

    FROM and TO are kernel:ADDRESS:PORT and stack:ADDRESS:PORT for clients on this machine, or stack:PORT and
    kernel:ADDRESS:PORT for a server.
    """
    _become(options, "forward", source, target)


@endpoint.command(short_help="Serve the files of a folder")
@click.argument("folder")
@click.argument("port")
@_network
def http(folder: str, port: str, **options: Any) -> NoReturn:
    """Serve the files of FOLDER by HTTP on PORT, until a signal."""
    _become(options, "http", folder, port)


def _become(options: Mapping[str, object], command: str, *arguments: str) -> NoReturn:
    """Replace this process by the program with these options."""
    words = [command, *arguments]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, tuple):
            words += [f"{option}={single}" for single in value]
        elif value not in (None, False):
            words.append(f"{option}={value}")
    ENDPOINT.become(*words)
