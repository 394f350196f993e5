"""`anabranch run`: one scenario, once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anabranch.simulator import LARGEST_SEED

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.argument("scenario", type=click.Path())
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help='Change a setting, e.g. link.beta.rate="20 Mbit/s" or flow.F0.congestion=olia. May be repeated.',
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), help="Seed of all random streams.")
@click.option("--world", type=click.Choice(["sim"]), default="sim", show_default=True, help="Where to run it.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON instead of tables.")
@click.option("--trace", metavar="DIR", help="Write windows, round-trip times and queues over time there, as CSV.")
@click.option("--pcap", metavar="FILE", help="Write a capture of every link end, in pcapng format.")
@click.option("--check-wire", is_flag=True, help="Encode and re-parse every packet on the way.")
def run(
    scenario: str,
    settings: tuple[str, ...],
    seed: int | None,
    world: str,
    as_json: bool,
    trace: str | None,
    pcap: str | None,
    check_wire: bool,
) -> None:
    """Run SCENARIO, a TOML file, and print what came out."""
    from rich.console import Console

    from anabranch.report.terminal import print_result
    from anabranch.scenario import Scenario
    from anabranch.scenario import run as run_scenario

    chosen = Scenario.from_file(scenario).with_settings(settings)
    with _progress() as progress:
        result = run_scenario(chosen, seed=seed, trace=trace, pcap=pcap, check_wire=check_wire, progress=progress)
    if as_json:
        click.echo(json.dumps(result.document, indent=2))
    else:
        print_result(result, Console())


class _progress:  # noqa: N801  used like a function
    """A progress bar on stderr that disappears when the run has ended."""

    def __enter__(self) -> Callable[[float], None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("running"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        task = self._bar.add_task("run", total=1.0)
        self._bar.start()
        return lambda share: self._bar.update(task, completed=share)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
