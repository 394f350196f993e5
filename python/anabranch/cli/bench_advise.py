"""`anabranch bench advise`: the regret of the advice against an exhaustive search."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED
from anabranch.advise.limits import REPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.bench.advise import Verdict
    from anabranch.report.table_layout import Sheet

_MAX_PAIRS = 100_000
_MAX_TIME_S = 86_400.0
_AIMS = ("goodput", "delay", "fair")


@click.command("advise", short_help="Compare advice with an exhaustive search")
@click.option(
    "--pairs", type=click.IntRange(1, _MAX_PAIRS), default=10, show_default=True,
    help="Random pairs of links; each takes about 700 runs.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=1, show_default=True, help="Seed of the pairs.")
@click.option(
    "--aim", "aims", type=click.Choice(_AIMS), multiple=True, default=_AIMS, show_default=True,
    help="Advise with this aim. May be repeated.",
)  # fmt: skip
@click.option(
    "--reps", type=click.IntRange(2, 1000), default=REPS, show_default=True, help="Seeds of the advice."
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1, show_default="number of cores",
    help="Worker processes.",
)  # fmt: skip
@click.option(
    "--time-limit", metavar="SECONDS", type=click.FloatRange(0.001, _MAX_TIME_S), default=10.0, show_default=True,
    help="Time limit of each advice.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all pairs as JSON instead of a table.")
def bench_advise(
    pairs: int, seed: int, aims: tuple[str, ...], reps: int, jobs: int, time_limit: float, as_json: bool
) -> None:
    """Measure the regret of advice for random pairs of links: its loss against the best of all combinations.

    Beside it are the losses of today's defaults and of the combination that is best on average over the other pairs.
    """
    from anabranch.advise.search import Options
    from anabranch.bench import advise as bench

    drawn = [bench.draw(seed, number) for number in range(1, pairs + 1)]
    chosen = tuple(dict.fromkeys(aims))
    options = Options(reps=reps, jobs=jobs, time_limit_s=time_limit)
    verdicts = bench.compare(drawn, chosen, options)
    if as_json:
        document = {"seed": seed, "time_limit_s": time_limit, "aims": [each.document() for each in verdicts]}
        click.echo(json.dumps(document, indent=2))
        return
    from rich.console import Console

    from anabranch.report.terminal import say

    console = Console()
    _sheet(verdicts).print(console)
    for each in verdicts:
        median, tail = bench.MAX_REGRETS[each.aim]
        is_met = "met" if each.is_met else "missed"
        say(console, f"{each.aim}: at most {median:.0%} in the median and {tail:.0%} in 95 % of the pairs: {is_met}.")


def _sheet(verdicts: Sequence[Verdict]) -> Sheet:
    from anabranch.bench.advise import quantiles
    from anabranch.report.table_layout import Column, Sheet

    headings = ("Pairs", "Median\nregret %", "95 %\nquantile %", "Largest\n%", "Longest\nanswer s")
    sheet = Sheet([Column("Aim"), Column("Choice", words=True), *map(Column, headings)])
    for verdict in verdicts:
        longest = max(each.elapsed_s for each in verdict.outcomes)
        for name, regrets in verdict.regrets().items():
            figures = [f"{100 * each:.1f}" for each in (*quantiles(regrets), max(regrets))]
            took = f"{longest:.1f}" if name == "advise" else "–"
            sheet.add(verdict.aim, name, str(len(regrets)), *figures, took)
    return sheet
