"""`anabranch observe`: the paths between this machine and another, over time and as a scenario."""

from __future__ import annotations

import os
import platform
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.meter import BITS, Seconds
from anabranch.errors import InputError
from anabranch.quantities import counted

if TYPE_CHECKING:
    from anabranch.observe.record import Observation
    from anabranch.observe.summary import PairSummary, Spread


_MAX_DURATION_S = 1000 * 24 * 3600.0
"""Largest value of --time: some years."""


class _Group(click.Group):
    """Takes any argument that is not a command as an address to watch."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["watch", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Group, short_help="Watch, report and model the paths to other addresses")
def observe() -> None:
    """Observe the paths to other addresses: anabranch observe REMOTE. Then print a report or a scenario of them.

    `observe REMOTE` is short for `observe watch REMOTE`, whose help has the options.
    """


def _parts(_: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Splits a list of addresses at its commas."""
    parts = tuple(part.strip() for part in (value or "").split(","))
    if value is not None and not all(parts):
        raise click.BadParameter("write addresses separated by commas", param=option)
    return parts if value is not None else ()


@observe.command(short_help="Probe the paths to remote addresses periodically")
@click.argument("remotes", metavar="REMOTE[,REMOTE...]", callback=_parts)
@click.option(
    "--from", "sources", metavar="ADDRESS[,ADDRESS...]", callback=_parts,
    help="Addresses of this machine; by default all global ones of interfaces that are up.",
)  # fmt: skip
@click.option(
    "--interval", type=Seconds(0.0, _MAX_DURATION_S), default=180.0, show_default=True,
    help="Set the seconds between the starts of two rounds.",
)  # fmt: skip
@click.option("--count", type=click.IntRange(1), help="End after this number of rounds, including those in the file.")
@click.option(
    "--time", "seconds", type=Seconds(0.0, _MAX_DURATION_S), help="Begin no round after this number of seconds."
)
@click.option("-o", "--output", metavar="FILE", help="Append the observations to this file.")
@click.option(
    "--throughput/--no-throughput", default=True, show_default=True,
    help="Measure a TCP flow in each direction with the meter at the remote address.",
)  # fmt: skip
@click.option(
    "--flow-time", type=Seconds(0.1), default=5.0, show_default=True,
    help="Measure each flow for this number of seconds, after one unmeasured second.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the remote meter and of TCP probes.  [default: 5210]"
)
def watch(
    remotes: tuple[str, ...],
    sources: tuple[str, ...],
    interval: float,
    count: int | None,
    seconds: float | None,
    output: str | None,
    throughput: bool,
    flow_time: float,
    port: int | None,
) -> None:
    """Measure each pair of a local and a REMOTE address at intervals.

    Observations are written as JSON lines: the route, the round-trip time and the path MTU. If
    `anabranch meter serve` runs at the remote address, the goodput of one TCP flow in each direction is added. Ctrl-C
    ends the command after the current pair.
    """
    if platform.system() != "Linux":
        raise InputError("paths are observed on Linux only")
    from anabranch import _native
    from anabranch.observe import pairs
    from anabranch.observe import watch as watching
    from anabranch.observe.record import Journal

    found = pairs.between(remotes, sources, pairs.locals_here())
    plan = watching.Plan(
        found, _native.meter_port() if port is None else port, interval, count, seconds, throughput, flow_time
    )
    journal = Journal(output, sys.stdout, watching.utc_now())
    if journal.cut:
        click.echo(f"{output}: removed an incomplete last line", err=True)
    stop = _Stop()
    said: set[str] = set()
    try:
        for observation in watching.watch(plan, journal.seen, stop):
            journal.add(observation)
            click.echo(_line(observation), err=True)
            lacking = observation.throughput_reason
            if lacking is not None and lacking not in said:
                said.add(lacking)
                click.echo(f"throughput was not measured: {lacking}", err=True)
    finally:
        stop.restore()
        journal.close()


class _Stop:
    """Handles Ctrl-C: the first ends the command after the current pair, the second at once."""

    def __init__(self) -> None:
        self._asked = False
        self._before = signal.signal(signal.SIGINT, self._request)
        # System calls that wait for the network are restarted after the signal.
        signal.siginterrupt(signal.SIGINT, False)

    def __call__(self) -> bool:
        return self._asked

    def restore(self) -> None:
        """Restore the earlier handler of interrupts."""
        signal.signal(signal.SIGINT, self._before)

    def _request(self, *_: object) -> None:
        self._asked = True
        self.restore()
        # Past all buffers: the signal may come while a line is being written, and a buffer refuses a second write then.
        os.write(2, b"the observation ends after this pair; press Ctrl-C again to end it at once\n")


def _line(observation: Observation) -> str:
    """Formats an observation of a pair as a line of progress."""
    begin = f"{observation.at} round {observation.round}: {observation.local} - {observation.remote}"
    if observation.rtt is None:
        return f"{begin} not reachable: {observation.reason}"
    times, way, rates = observation.rtt, observation.route, observation.throughput
    parts = [f"rtt {times.min_s * 1e3:.1f}/{times.median_s * 1e3:.1f}/{times.max_s * 1e3:.1f} ms by {times.by}"]
    if times.lost:
        parts.append(f"{times.lost} of {times.probes} lost")
    if way is not None:
        hops = counted(len(way.hops), "hop")
        parts.append(hops if way.reached else f"first {hops} of the route known")
    if rates is not None:
        parts.append(f"{rates.forward_bps / 1e6:.2f} Mbit/s there, {rates.reverse_bps / 1e6:.2f} back")
    if observation.route_changed:
        parts.append("the route changed during the measurement")
    return f"{begin} {', '.join(parts)}"


@observe.command(short_help="Print a summary of each observed path")
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table; times in s, rates in bit/s.")
@click.option("--routes", "with_routes", is_flag=True, help="Print all routes with their shares of the time.")
@click.option("--plot", type=click.Path(), help="Draw round-trip times as boxes; .png, .svg or .pdf.")
def report(file: str, as_json: bool, with_routes: bool, plot: str | None) -> None:
    """Summarise all observations of each pair in FILE.

    Observations during which the route changed count only for reachability and for changes.
    """
    import json
    from dataclasses import asdict

    from anabranch.observe.record import read
    from anabranch.observe.summary import span, summarise

    if plot is not None:
        from anabranch.plot.style import check_figure

        check_figure(plot)
    observations = read(file)
    summaries = summarise(observations)
    if with_routes and not any(one.routes for one in summaries):
        raise InputError("no observation has a route to its end; omit --routes", file)
    if plot is not None:
        _draw(observations, file, plot)
    if as_json:
        click.echo(json.dumps({"span": span(observations), "pairs": [asdict(one) for one in summaries]}, indent=2))
        return
    _print(summaries, f"Observed {span(observations)}")
    if with_routes:
        _print_routes(summaries)


def _draw(observations: list[Observation], file: str, plot: str) -> None:
    """Draw the medians of the round-trip times of all observations with a stable route."""
    from pathlib import Path

    from anabranch.observe.record import with_stable_route
    from anabranch.observe.summary import by_pair, span
    from anabranch.plot.round_trips import draw
    from anabranch.plot.style import save_as

    found = {
        f"{seen[0].interface}\n{remote}": [one.rtt.median_s for one in with_stable_route(seen) if one.rtt is not None]
        for (_, remote), seen in by_pair(observations).items()
    }
    measured = {label: values for label, values in found.items() if values}
    if not measured:
        raise InputError("no observation has a round-trip time; omit --plot", file)
    save_as(draw(measured, f"Observed {span(observations)}"), Path(plot))


def _print_routes(summaries: list[PairSummary]) -> None:
    from rich.console import Console

    from anabranch.report.table_layout import Column, Sheet

    sheet = Sheet(
        [
            Column("From", words=True), Column("To", words=True), Column("Share of\nthe time"), Column("Seen", spare=1),
            Column("Routers", words=True),
        ],
        "Routes; * for more than 99 % of the time",
    )  # fmt: skip
    for one in summaries:
        for route in one.routes:
            names = " ".join("?" if hop is None else hop for hop in route.hops[:-1])
            mark = " *" if route.dominant else ""
            sheet.add(
                f"{one.local} ({one.interface})", one.remote, f"{100 * route.share:.1f} %{mark}",
                str(route.observations), names or "none",
            )  # fmt: skip
    sheet.print(Console())


def _print(summaries: list[PairSummary], title: str) -> None:
    from rich.console import Console

    from anabranch.report.table_layout import Column, Sheet
    from anabranch.report.terminal import share

    sheet = Sheet(
        [
            Column("From", words=True), Column("To", words=True), Column("Seen", spare=4), Column("Reach-\nable"),
            Column("Hops min /\nmean / max", spare=2), Column("Routers", spare=3), Column("Route\nchanges", spare=3),
            Column("RTT ms\nmin / median / max"), Column("RTT ms\nquartiles", spare=4),
            Column("Probes\nlost", spare=5), Column("Mbit/s there\nmin / mean / max"),
            Column("Mbit/s back\nmin / mean / max"),
        ],
        title,
    )  # fmt: skip
    for one in summaries:
        hops, quartiles = "–", "–"
        if one.hops is not None and one.hops_mean is not None:
            hops = f"{one.hops[0]} / {one.hops_mean:.1f} / {one.hops[1]}"
        if one.rtt_quartiles_s is not None:
            quartiles = f"{one.rtt_quartiles_s[0] * 1e3:.1f} / {one.rtt_quartiles_s[2] * 1e3:.1f}"
        sheet.add(
            f"{one.local} ({one.interface})", one.remote, str(one.observations), share(one.reachable), hops,
            str(one.routers), str(one.changes), _spread(one.rtt_s, 1e3, 1), quartiles,
            "–" if one.lost is None else share(one.lost), _spread(one.forward_bps, 1e-6, 2),
            _spread(one.reverse_bps, 1e-6, 2),
        )  # fmt: skip
    sheet.print(Console())


def _spread(spread: Spread | None, scale: float, digits: int) -> str:
    if spread is None:
        return "–"
    return " / ".join(f"{value * scale:.{digits}f}" for value in (spread.least, spread.middle, spread.greatest))


@observe.command(short_help="Print a scenario of the observed paths")
@click.argument("file", type=click.Path())
@click.option("--rate", type=BITS, help="Bit/s of pairs whose throughput was not measured, such as 10M.")
def scenario(file: str, rate: Any) -> None:
    """Print a scenario of the paths in FILE; its comments list the assumptions.

    Its hosts are `here` and `there`: anabranch observe scenario FILE > S.toml, then anabranch run S.toml.
    """
    from anabranch.observe.record import read
    from anabranch.observe.scenario import scenario as made

    click.echo(made(read(file), file, rate), nl=False)
