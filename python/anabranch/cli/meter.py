"""`anabranch meter serve` and `meter run`: measuring between real machines."""

from __future__ import annotations

import json
import math
import platform
import sys
from typing import Any

import click

from anabranch._core.simulator import translated
from anabranch.errors import InputError, RunFailed
from anabranch.printable import printable


class _Amount(click.ParamType[Any]):
    """A number with a unit prefix, such as 20M; of bytes the prefixes are powers of 1,024, as iperf3 has them."""

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
            self.fail(f"{value} is no amount; write a number from 1 on, such as 20M", param, ctx)
        return amount


BYTES, BITS = _Amount(1024.0), _Amount(1000.0)

_MAX_MESSAGE_BYTES = 1 << 30
"""The longest message: an end holds one in memory."""
_MAX_BUFFER_BYTES = (1 << 31) - 1
"""The largest buffer that can be asked of a socket."""


def _protocol(context: click.Context, parameter: click.Parameter, chosen: bool) -> bool:
    """Keep the protocol that an option stands for.

    Raises:
        InputError: If another option stands for another one.

    """
    if chosen:
        name = str(parameter.name)
        before = context.meta.setdefault("protocol", name)
        if before != name:
            raise InputError(f"--{before} and --{name} are two protocols, and a test has one; leave one of them away")
    return chosen


_DURATION_S = 10.0
_LONGEST_S = 7 * 24 * 3600.0
"""The longest test, a week."""


class Seconds(click.FloatRange):
    """A time in seconds, by default of at most a week."""

    def __init__(self, least: float, most: float = _LONGEST_S) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the number; rejects anything else, nan included."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no time; write a number of seconds", param, ctx)
        return seconds


@click.group(short_help="Measure throughput and delay between machines")
def meter() -> None:
    """Measure between machines: one serves, the other runs tests with it."""
    if platform.system() != "Linux":
        raise InputError("the meter is there on Linux only")


@meter.command()
@click.option(
    "--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True,
    help="Address to listen on. Any host that reaches it can start a test; 0.0.0.0 and :: are all addresses.",
)  # fmt: skip
@click.option("-p", "--port", type=click.IntRange(0, 65535), help="Port of the control connections.  [default: 5210]")
@click.option("-1", "--one-off", is_flag=True, help="End after one test.")
def serve(bind: str, port: int | None, one_off: bool) -> None:
    """Wait for tests, one at a time, until Ctrl-C.

    The ports of flows are any, at the address that the client came to.
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
@click.option("-p", "--port", type=click.IntRange(1, 65535), help="The server's port.  [default: 5210]")
@click.option(
    "-t", "--time", "seconds", type=Seconds(0.1), help="Seconds.  [default: 10, or with --bytes until all has arrived]"
)
@click.option("-O", "--omit", type=Seconds(0.0), default=0.0, help="Seconds at the start that do not count.")
@click.option("-i", "--interval", type=Seconds(0.01), default=1.0, show_default=True, help="Seconds per line.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print the result as JSON instead of lines.")
@click.option("-R", "--reverse", is_flag=True, help="The server writes.")
@click.option("--bidir", is_flag=True, help="Both write.")
@click.option("-P", "--parallel", type=click.IntRange(1, 128), default=1, help="So many flows alike.")
@click.option("-c", "-C", "--congestion", metavar="NAME", help="Congestion control of both kernels' connections.")
@click.option("-b", "--bitrate", type=BITS, help="Bit/s instead of all there is; udp: 1M unless given.")
@click.option("-n", "--bytes", "size", type=BYTES, help="Send this number of bytes, then end.")
@click.option("-l", "--length", type=BYTES, help="Bytes of a message.")
@click.option("-w", "--window", type=BYTES, help="Bytes of the sockets' buffers.")
@click.option("--nagle", is_flag=True, help="Collect small segments.")
@click.option("-u", "--udp", is_flag=True, expose_value=False, callback=_protocol, help="UDP.")
@click.option("-m", "--mptcp", is_flag=True, expose_value=False, callback=_protocol, help="Multipath TCP.")
@click.option("--sctp", is_flag=True, expose_value=False, callback=_protocol, help="SCTP, where the kernels have it.")
@click.option(
    "--workload", metavar="TOML",
    help='Workload, as in a scenario: { kind = "request-response", response = "10 kB" }.',
)  # fmt: skip
@click.option(
    "--flow", "flows", metavar="SPEC", multiple=True,
    help="A flow as NetPerfMeter specifies it, tcp:const0:const1400:const0:const0:description=T1: messages a second "
    "and their sizes, forward and back. May be repeated; replaces the options for the workload.",
)  # fmt: skip
@click.option(
    "--omnet", metavar="PREFIX", help="Write PREFIX.sca and PREFIX.vec for OMNeT++, with every message's delay."
)
def run(host: str, port: int | None, as_json: bool, omnet: str | None, **options: Any) -> None:
    """Test with the meter that serves at HOST.

    The usual options are those of iperf3. A test is the flows of a scenario between this machine and the other: every
    message contains the time of its creation, so that its delay is known where both ends are on one machine. All data
    that arrive are compared with the data sent.
    """
    from anabranch import _native
    from anabranch.meter import omnet as files
    from anabranch.meter.lines import HEADING, interval_lines, summary_lines

    protocol = click.get_current_context().meta.get("protocol")
    plan = _plan(keep_delays=omnet is not None, protocol=protocol, **options)
    names = [flow.name for flow in plan.flows]
    before: dict[str, int] = {}
    headed = as_json

    def look(text: str) -> None:
        nonlocal headed
        if not headed:
            click.echo(HEADING)
            headed = True
        if not as_json:
            for line in interval_lines(names, json.loads(text), before):
                click.echo(printable(line))
            sys.stdout.flush()

    try:
        text = _native.meter_run(host, _native.meter_port() if port is None else port, plan.json(), look)
    except _native.InputError as error:
        raise translated(error) from None
    except OSError as error:
        raise RunFailed(str(error)) from None
    document = json.loads(text)
    if omnet is not None:
        files.write(omnet, document)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo()
        for line in summary_lines(document, options["size"]):
            click.echo(printable(line))


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
) -> Any:
    """The test that the options ask for."""
    from anabranch.meter.plan import FlowPlan, TestPlan, specified, usual

    if reverse and bidir:
        raise InputError("either the server writes or both do; leave --reverse or --bidir away")
    if workload is not None and (bitrate, size, length) != (None, None, None):
        raise InputError("a workload says all that is written; leave --bitrate, --bytes and --length away")
    _check_amounts(length, window)
    chosen = protocol or "tcp"
    if seconds is None:
        seconds = _DURATION_S if size is None else _LONGEST_S - omit
    if flows:
        if workload is not None or protocol is not None:
            raise InputError("--flow says protocol and workload; leave --workload and the protocol away")
        wanted = [specified(spec, number) for number, spec in enumerate(flows, 1)]
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
    return TestPlan(
        wanted, seconds, omit, interval, congestion, None if window is None else int(window), nagle, keep_delays
    )


def _check_amounts(length: float | None, window: float | None) -> None:
    """Check the sizes of messages and of socket buffers.

    Raises:
        InputError: If one is too large, with the option and its maximum.

    """
    if length is not None and length > _MAX_MESSAGE_BYTES:
        raise InputError(f"--length {length:.0f} is longer than a message can be; write at most {_MAX_MESSAGE_BYTES}")
    if window is not None and window > _MAX_BUFFER_BYTES:
        raise InputError(f"--window {window:.0f} is more than a socket's buffer; write at most {_MAX_BUFFER_BYTES}")
