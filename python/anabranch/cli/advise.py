"""`anabranch advise`: settings for given links, with measured gains and commands."""

from __future__ import annotations

import json
import os

import click

from anabranch.advise.limits import MAY, REPS, TIME_LIMIT_S, WORKLOADS
from anabranch.cli import paths
from anabranch.cli.run import read_scenario
from anabranch.errors import InputError

_MAX_TIME_S = 86_400.0


@click.command(short_help="Choose settings for given links")
@click.argument("scenario", required=False, type=click.Path(allow_dash=True))
@click.option(
    "--link", "links", metavar="NAME:DOWN/UPMbit,RTTms[,queue=SIZE][,loss=1%]", multiple=True,
    help="Add a link, such as dsl:16/1Mbit,20ms. Must be repeated for each link.",
)  # fmt: skip
@click.option(
    "--aim", metavar="AIM", default="goodput", show_default=True,
    help="Improve goodput; delay (95 % quantile); fair: goodput with coupled controls; cheap:LINK: LINK as a backup.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice(list(WORKLOADS)), help="Application of the flow over --link.  [default: bulk]"
)
@click.option(
    "--may", type=click.Choice(MAY), default="linux", show_default=True,
    help="Change settings that Linux has, or all of our stack.",
)  # fmt: skip
@click.option("--upload", is_flag=True, help="Send from the host with the links; by default it receives.")
@click.option(
    "--reps", type=click.IntRange(2, 1000), default=REPS, show_default=True, help="Seeds for the intervals."
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1, show_default="number of cores",
    help="Worker processes.",
)  # fmt: skip
@click.option(
    "--time-limit", metavar="SECONDS", type=click.FloatRange(0.001, _MAX_TIME_S), default=TIME_LIMIT_S,
    show_default=True, help="Begin no run after this time.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@paths.option
def advise(
    scenario: str | None,
    links: tuple[str, ...],
    aim: str,
    workload: str | None,
    may: str,
    upload: bool,
    reps: int,
    jobs: int,
    time_limit: float,
    as_json: bool,
    allow_paths: bool,
) -> None:
    """Choose settings for a flow over given links.

    The input is a SCENARIO with a Multipath TCP flow, or a --link for each link. All settings run in the simulator with
    the same seeds. Of settings whose gains tie, the one with the fewest changes from today's is named.
    """
    from rich.console import Console

    from anabranch.advise.links import scenario_of
    from anabranch.advise.search import Options
    from anabranch.advise.search import advise as search
    from anabranch.report.advice import print_advice

    if scenario is None and not links:
        raise InputError("there are no links; give a scenario file or --link for each link")
    if scenario is not None and (links or upload or workload):
        raise InputError("a scenario file has its own links and flows; omit --link, --workload and --upload")
    if scenario is None:
        chosen = scenario_of(links, is_upload=upload, on_linux=may == "linux", workload=workload or "bulk")
    else:
        chosen = read_scenario(scenario, allow_paths=allow_paths)
    advice = search(chosen, Options(aim, may, reps, jobs, time_limit))
    if as_json:
        click.echo(json.dumps(advice.document(), indent=2))
    else:
        print_advice(advice, Console())
