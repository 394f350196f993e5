"""`anabranch fair`: computes fair shares of a scenario's flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch.cli import paths
from anabranch.cli.run import read_scenario
from anabranch.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from anabranch.fairness.shares import Fairness


@click.command(short_help="Compute the fair shares of a scenario's flows")
@click.argument("scenario", type=click.Path(allow_dash=True))
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help='Change a setting, e.g. link.beta.rate="20 Mbit/s" or flow.F0.paths=disjoint. May be repeated.',
)  # fmt: skip
@click.option(
    "--weight", "weights", metavar="FLOW=NUMBER", multiple=True,
    help="Set a flow's weight in the sense access; default: its access links. May be repeated.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table; rates are in bit/s.")
@click.option("--plot", metavar="FILE", help="Draw the allocations there, as PNG, SVG or PDF by the name's ending.")
@paths.option
def fair(
    scenario: str, settings: tuple[str, ...], weights: tuple[str, ...], as_json: bool, plot: str | None,
    allow_paths: bool,
) -> None:  # fmt: skip
    """Compute the fair shares of all flows of SCENARIO, a TOML file or "-" for standard input.

    The allocations are: by link and subflow, by link and flow, by network, max-min, proportionally fair, and
    max-min weighted by access links. Rates are in Mbit/s on the wire, as if all flows always had data to send.
    """
    from rich.console import Console

    from anabranch.fairness.shares import fair as allocate

    chosen = read_scenario(scenario, allow_paths=allow_paths).with_settings(settings)
    if plot is not None:
        from anabranch.plot.style import check_figure

        check_figure(plot)
    found = allocate(chosen, _weights(weights))
    if plot is not None:
        from anabranch.plot import allocations, style

        style.save_as(allocations.draw(found), Path(plot))
    if as_json:
        click.echo(json.dumps(found.document(), indent=2))
    else:
        _print(found, Console())


def _weights(given: tuple[str, ...]) -> dict[str, float]:
    """The weights of flows, from texts such as "F0=2"."""
    found: dict[str, float] = {}
    for text in given:
        flow, _, number = text.rpartition("=")
        if flow in found:
            raise InputError(f'--weight was given twice for "{flow}"')
        try:
            found[flow] = float(number)
        except ValueError:
            raise InputError(f'--weight must be FLOW=NUMBER, not "{text}"') from None
    return found


def _print(fairness: Fairness, console: Console) -> None:
    from anabranch.report.run_tables import number
    from anabranch.report.table_layout import Column, Sheet
    from anabranch.report.terminal import say

    names = list(fairness.allocations)
    columns = [Column(f"{name.capitalize()}\nMbit/s".replace("Link-", "Link by\n"), spare=0) for name in names]
    sheet = Sheet(
        [Column("Flow", words=True), Column("Subflows", spare=2), *columns, Column("Alone\nMbit/s", spare=1)],
        fairness.title,
    )
    for flow, subflows in fairness.subflows.items():
        rates = [number(fairness.allocations[name][flow], 1e-6, 3) for name in names]
        sheet.add(flow, str(subflows), *rates, number(fairness.alone_bps[flow], 1e-6, 3))
    totals = [number(sum(fairness.allocations[name].values()), 1e-6, 3) for name in names]
    sheet.add("together", str(sum(fairness.subflows.values())), *totals, number(fairness.possible_bps, 1e-6, 3))
    sheet.print(console)
    for name in names:
        if not fairness.feasible[name]:
            say(console, f"{name}: the network cannot carry these rates for all flows at the same time.")
    for flow, subflows in fairness.subflows.items():
        if not subflows:
            say(console, f"{flow} opens no path, so its share is 0; anabranch run prints the reason.")
    for flow in fairness.left_out:
        say(console, f"{flow} is left out, and its rate is ignored: UDP does not adapt its rate.")
