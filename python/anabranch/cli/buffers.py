"""`anabranch buffers`: computes the sizes of buffers that a scenario's flows need."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click

from anabranch.cli import paths
from anabranch.cli.run import read_scenario
from anabranch.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from anabranch.buffers import Sizes


@click.command(short_help="Compute the buffers that keep all paths busy")
@click.argument("scenario", type=click.Path(allow_dash=True))
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help='Change a setting, e.g. link.beta.rate="20 Mbit/s". May be repeated.',
)  # fmt: skip
@click.option("--rto", metavar="TIME", help="Set the largest timeout; default: that of paths without queues.")
@click.option("--prove", "proven", is_flag=True, help="Run the scenario with each size and show the goodputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables; sizes are in bytes.")
@paths.option
def buffers(
    scenario: str, settings: tuple[str, ...], rto: str | None, proven: bool, as_json: bool, allow_paths: bool
) -> None:
    """Compute the send and receive buffers that keep all paths of each flow of SCENARIO busy.

    SCENARIO is a TOML file or "-" for standard input. The formulas are: 2 × largest round-trip time × total rate;
    (3 × largest round-trip time + largest timeout) × sum of rates; 2 × largest one-way delay × total rate. Paths are
    counted by pair of addresses and by destination.
    """
    from rich.console import Console

    from anabranch.buffers import buffers as compute
    from anabranch.buffers import prove

    chosen = read_scenario(scenario, allow_paths=allow_paths).with_settings(settings)
    found = compute(chosen, None if rto is None else _seconds(rto))
    goodputs = prove(chosen, found) if proven else {}
    if as_json:
        document = {"flows": [sizes.document() for sizes in found], **({"goodput_bps": goodputs} if proven else {})}
        click.echo(json.dumps(document, indent=2))
        return
    console = Console()
    _print_sizes(found, console)
    if proven:
        _print_goodputs(goodputs, [sizes.flow for sizes in found], console)


def _seconds(text: str) -> float:
    """A time such as "1 s" or "200ms", seconds."""
    from anabranch.fairness.capacity import seconds

    number = text.rstrip("abcdefghijklmnopqrstuvwxyzµ ")
    try:
        found = seconds(f"{number} {text[len(number) :].strip()}")
    except (KeyError, ValueError):
        found = math.nan
    if not 0.0 < found < math.inf:
        raise InputError(f'--rto must be a time above 0 such as "1 s" or "200 ms", not "{text}"')
    return found


def _print_sizes(found: list[Sizes], console: Console) -> None:
    from anabranch.buffers import FORMULAS
    from anabranch.report.run_tables import number
    from anabranch.report.table_layout import Column, Sheet

    columns = [
        Column(f"{formula.capitalize()}\nkB".replace("Retransmission", "Retrans-\nmission")) for formula in FORMULAS
    ]
    files = [Column("Send buffer\nof the file", words=True, spare=1), Column("Receive buffer\nof the file", words=True)]
    sheet = Sheet([Column("Flow", words=True), Column("Count", words=True), Column("Paths"), *columns, *files])
    for sizes in found:
        for count, by_formula in sizes.sizes_bytes.items():
            cells = [number(by_formula[formula], 1e-3, 1) for formula in FORMULAS]
            row = (sizes.flow, f"by {count}", str(sizes.paths[count]))
            sheet.add(*row, *cells, sizes.send_buffer, sizes.receive_buffer)
    sheet.print(console)


def _print_goodputs(goodputs: dict[str, dict[str, float]], flows: list[str], console: Console) -> None:
    from anabranch.report.run_tables import number
    from anabranch.report.table_layout import Column, Sheet

    columns = [Column(f"{flow}\nMbit/s") for flow in flows]
    sheet = Sheet([Column("Goodput with the buffers of", words=True), *columns])
    for name, by_flow in goodputs.items():
        sheet.add(name if name != "file" else "the file", *(number(by_flow[flow], 1e-6, 3) for flow in flows))
    sheet.print(console)
