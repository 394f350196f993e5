"""`anabranch meter serve` and `meter run`: measuring between real machines."""

from __future__ import annotations

import json
import math
import platform
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from anabranch._core.simulator import translated
from anabranch.errors import InputError, RunFailed
from anabranch.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.meter.plan import FlowPlan

_MAX_PORT = 65_535


class _Amount(click.ParamType[Any]):
    """A number with a unit prefix, such as 20M. As in iperf3, the prefixes of bytes are powers of 1,024."""

    name = "amount"

    def __init__(self, base: float) -> None:
        self._base = base

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().upper()
        number, unit = (text[:-1], text[-1]) if text and text[-1] in "KMGT" else (text, "")
        try:
            amount = float(number) * self._base ** ("KMGT".index(unit) + 1 if unit else 0)
        except ValueError:
            amount = 0.0
        if not 1 <= amount < math.inf:
            self.fail(f"{value} is not a number from 1 on; write for example 20M", param, ctx)
        return amount


BYTES, BITS = _Amount(1024.0), _Amount(1000.0)

_MAX_MESSAGE_BYTES = 1 << 30
"""Length limit of a message: each end keeps a whole message in memory."""
_MAX_BUFFER_BYTES = (1 << 31) - 1
"""Largest size that the options of a socket accept for its buffers."""


def _protocol(context: click.Context, parameter: click.Parameter, chosen: bool) -> bool:
    """Store the protocol that an option selects.

    Raises:
        InputError: If another option selects another protocol.

    """
    if chosen:
        name = str(parameter.name)
        before = context.meta.setdefault("protocol", name)
        if before != name:
            raise InputError(f"--{before} and --{name} select different protocols; omit one of them")
    return chosen


_MAX_BYTE = 255
_DURATION_S = 10.0
_MAX_DURATION_S = 7 * 24 * 3600.0
"""The longest test, a week."""


class Seconds(click.FloatRange):
    """A time in seconds, by default of at most a week."""

    def __init__(self, least: float, most: float = _MAX_DURATION_S) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the number; rejects anything else, nan included."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is not a time; write a number of seconds", param, ctx)
        return seconds


class TypeOfService(click.ParamType[Any]):
    """A byte as a decimal, hexadecimal (0x) or octal (0) number, as in iperf3."""

    name = "byte"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number; rejects anything else."""
        text = str(value).lower()
        is_octal = len(text) > 1 and text.isdigit() and text.startswith("0")
        try:
            byte = int(text, 8 if is_octal else 0)
        except ValueError:
            byte = -1
        if not 0 <= byte <= _MAX_BYTE:
            self.fail(f"{value} is not a byte; write a number from 0 to 255 or 0x0 to 0xff", param, ctx)
        return byte


@click.group(short_help="Measure throughput and delay between machines")
def meter() -> None:
    """Measure between two machines: one runs `meter serve`, the other one `meter run`."""
    if platform.system() != "Linux":
        raise InputError("the meter needs Linux")


@meter.command()
@click.option(
    "--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True,
    help="Address to listen on. Any host that reaches it can start a test; 0.0.0.0 and :: stand for all addresses.",
)  # fmt: skip
@click.option(
    "-p", "--port", type=click.IntRange(0, _MAX_PORT), help="Port of the control connections.  [default: 5210]"
)
@click.option("-1", "--one-off", is_flag=True, help="End after one test.")
def serve(bind: str, port: int | None, one_off: bool) -> None:
    """Wait for tests, one at a time, until Ctrl-C.

    Flows use any free ports of the address to which the client connected, or the control port if the client has
    --single-port.
    """
    from anabranch import _native

    try:
        server = _native.MeterServer(bind, _native.meter_port() if port is None else port)
    except _native.InputError as error:
        raise translated(error) from None
    except OSError as error:
        raise RunFailed(str(error)) from None
    click.echo(f"waiting at {server.address()}")
    while True:
        sys.stdout.flush()
        news = server.poll()
        if news is not None:
            text, ended = news
            click.echo(printable(text))
            if ended and one_off:
                return


@meter.command()
@click.argument("host")
@click.option("-p", "--port", type=click.IntRange(1, _MAX_PORT), help="The server's port.  [default: 5210]")
@click.option(
    "-t",
    "--time",
    "seconds",
    type=Seconds(0.1),
    help="Duration in seconds.  [default: 10; with --bytes until all data arrived]",
)
@click.option("-O", "--omit", type=Seconds(0.0), default=0.0, help="Do not measure the first seconds of the test.")
@click.option(
    "-i",
    "--interval",
    type=Seconds(0.01),
    default=1.0,
    show_default=True,
    help="Print a line at this interval in seconds.",
)
@click.option("-J", "--json", "as_json", is_flag=True, help="Print the result as JSON instead of lines.")
@click.option("-R", "--reverse", is_flag=True, help="Send data from the server to the client.")
@click.option("--bidir", is_flag=True, help="Both write.")
@click.option("-P", "--parallel", type=click.IntRange(1, 128), default=1, help="Run this number of equal flows.")
@click.option("-c", "-C", "--congestion", metavar="NAME", help="Set the congestion control at both ends.")
@click.option("-b", "--bitrate", type=BITS, help="Limit the rate, bit/s.  [default: no limit; with UDP 1M]")
@click.option("-n", "--bytes", "size", type=BYTES, help="Send this number of bytes, then end.")
@click.option("-l", "--length", type=BYTES, help="Set the length of a message, bytes.")
@click.option("-w", "--window", type=BYTES, help="Set the size of the sockets' buffers, bytes.")
@click.option("--nagle", is_flag=True, help="Enable Nagle's algorithm.")
@click.option("-u", "--udp", is_flag=True, expose_value=False, callback=_protocol, help="UDP.")
@click.option("-m", "--mptcp", is_flag=True, expose_value=False, callback=_protocol, help="Multipath TCP.")
@click.option(
    "--sctp", is_flag=True, expose_value=False, callback=_protocol, help="Use Anabranch's SCTP, in UDP datagrams."
)
@click.option(
    "--workload", metavar="TOML",
    help='Workload, as in a scenario: { kind = "request-response", response = "10 kB" }.',
)  # fmt: skip
@click.option(
    "--flow", "flows", metavar="SPEC", multiple=True,
    help="A flow as NetPerfMeter specifies it, tcp:const0:const1400:const0:const0:description=T1: messages a second "
    "and their sizes, forward and back, then options. May be repeated; replaces the options for the workload.",
)  # fmt: skip
@click.option("-4", "--ipv4", "version", flag_value="4", help="Use IPv4 only.")
@click.option("-6", "--ipv6", "version", flag_value="6", help="Use IPv6 only.")
@click.option(
    "-B", "--bind", "sources", metavar="ADDRESS[,ADDRESS]", help="Connect from this address of each IP version."
)
@click.option(
    "--cport", type=click.IntRange(1, _MAX_PORT), help="Connect the first flow from this port, the next from the next."
)
@click.option("-M", "--set-mss", "mss", type=click.IntRange(88, 32767), help="Set the maximum segment size, bytes.")
@click.option(
    "-S", "--tos", type=TypeOfService(), help="Set the type of service or traffic class, 0 to 255 or 0x0 to 0xff."
)
@click.option("--single-port", is_flag=True, help="Connect flows to the control port; wait for the tests of others.")
@click.option("--json-stream", is_flag=True, help="Print start, intervals and end as one JSON object a line.")
@click.option(
    "--omnet", metavar="PREFIX", help="Write PREFIX.sca and a PREFIX-ID.vec per flow for OMNeT++, with all delays."
)
def run(host: str, port: int | None, as_json: bool, json_stream: bool, omnet: str | None, **options: Any) -> None:
    """Test with the meter that serves at HOST.

    The usual options are those of iperf3. A test runs flows of a scenario between the two ends. Every message
    contains the time of its creation; its delay is known if both ends are on the same machine. All received data are
    compared with the data sent.
    """
    from anabranch import _native
    from anabranch.meter import omnet as files
    from anabranch.meter.output import Lines, Objects, Quiet

    _check_host(host)
    if as_json and json_stream:
        raise InputError("--json and --json-stream exclude each other; omit one of them")
    sources = options.pop("sources")
    local = [] if sources is None else [address.strip() for address in sources.split(",")]
    if "" in local:
        raise InputError(f'--bind "{sources}" has an empty address; write for example 192.0.2.1,2001:db8::1')
    source = {
        "local": local,
        "first_port": options.pop("cport"),
        "ipv6": {None: None, "4": False, "6": True}[options.pop("version")],
    }
    protocol = click.get_current_context().meta.get("protocol")
    plan = _plan(keep_delays=omnet is not None, protocol=protocol, **options)
    output = Quiet() if as_json else Objects(plan) if json_stream else Lines(plan.names, options["size"])
    port = _native.meter_port() if port is None else port
    try:
        try:
            text = _native.meter_run(host, port, plan.json(), lambda event: output.event(json.loads(event)), **source)
        except _native.InputError as error:
            raise translated(error) from None
        except OSError as error:
            raise RunFailed(str(error)) from None
    except (InputError, RunFailed) as error:
        output.failed(str(error))
        raise
    document = json.loads(text)
    if omnet is not None:
        files.write(omnet, document)
    output.ended(document)


def _check_host(host: str) -> None:
    """Refuse a port after the host, as other programs have it."""
    name, _, port = host.rpartition(":")
    bare = name.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT
    if bare and is_port and (bare != name or ":" not in name):
        raise InputError(f'"{printable(host)}" is not a host: write {printable(bare)} --port {port}')


def _plan(
    *,
    seconds: float | None,
    omit: float,
    interval: float,
    reverse: bool,
    bidir: bool,
    parallel: int,
    congestion: str | None,
    bitrate: float | None,
    size: float | None,
    length: float | None,
    window: float | None,
    nagle: bool,
    protocol: str | None,
    workload: str | None,
    flows: tuple[str, ...],
    keep_delays: bool,
    mss: int | None = None,
    tos: int | None = None,
    single_port: bool = False,
) -> Any:
    """Makes a test from the options."""
    from anabranch.meter.flows import specified
    from anabranch.meter.plan import FlowPlan, TestPlan, usual

    if reverse and bidir:
        raise InputError("--reverse and --bidir exclude each other; omit one of them")
    if workload is not None and (bitrate, size, length) != (None, None, None):
        raise InputError("--workload includes rates and sizes; omit --bitrate, --bytes and --length")
    _check_amounts(length, window)
    chosen = protocol or "tcp"
    if seconds is None:
        seconds = _DURATION_S if size is None else _MAX_DURATION_S - omit
    if flows:
        if workload is not None or protocol is not None:
            raise InputError("--flow includes protocol and workload; omit --workload and the option of the protocol")
        wanted = [flow for number, spec in enumerate(flows, 1) for flow in specified(spec, number)]
    else:
        text = workload or usual(
            chosen, rate=bitrate, length=None if length is None else int(length),
            size=None if size is None else int(size),
        )  # fmt: skip
        direction = "both" if bidir else "reverse" if reverse else "forward"
        wanted = [
            FlowPlan(f"{chosen}-{number}" if parallel > 1 else chosen, chosen, text, direction)
            for number in range(1, parallel + 1)
        ]
    buffer = None if window is None else int(window)
    common = {
        "congestion": congestion, "mss": mss, "type_of_service": tos, "nagle": nagle or None,
        "send_buffer": buffer, "receive_buffer": buffer,
    }  # fmt: skip
    wanted = [_with_common(flow, common, mixed=bool(flows)) for flow in wanted]
    return TestPlan(wanted, seconds, omit, interval, keep_delays, single_port)


def _with_common(flow: FlowPlan, common: Mapping[str, object], *, mixed: bool) -> FlowPlan:
    """Add the options of all flows, unless the flow has its own; of `mixed` flows, only options of their protocols."""
    foreign = {"tcp": set(), "mptcp": set(), "sctp": {"mss"}}.get(flow.protocol, {"congestion", "mss", "nagle"})
    added = {key: value for key, value in common.items() if value is not None and not (mixed and key in foreign)}
    return replace(flow, options={**added, **flow.options})


def _check_amounts(length: float | None, window: float | None) -> None:
    """Check the sizes of messages and of socket buffers.

    Raises:
        InputError: If a size is too large, with the option and its maximum.

    """
    if length is not None and length > _MAX_MESSAGE_BYTES:
        raise InputError(f"--length {length:.0f} is above the limit of a message; write at most {_MAX_MESSAGE_BYTES}")
    if window is not None and window > _MAX_BUFFER_BYTES:
        raise InputError(
            f"--window {window:.0f} is above the limit of a socket's buffer; write at most {_MAX_BUFFER_BYTES}"
        )
