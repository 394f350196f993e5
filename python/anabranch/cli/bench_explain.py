"""`anabranch bench explain`: how often the first remedy of `anabranch explain` is right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.bench.captures import CaptureScore
    from anabranch.bench.explain import Score
    from anabranch.report.table_layout import Sheet


@click.command("explain", short_help="Count right answers of explain on planted faults")
@click.option(
    "--cases", "count", type=click.IntRange(1, 100_000), default=52, show_default=True,
    help="Scenarios with planted faults; each takes about 50 runs.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), default=1, show_default=True, help="Seed of the cases.")
@click.option(
    "--captures", "place", type=click.Choice(["sender", "middle", "receiver"]),
    help="Name causes from a capture at this position instead of runs.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all cases as JSON instead of a table.")
def bench_explain(count: int, seed: int, place: str | None, as_json: bool) -> None:
    """Count how often the first remedy gains within 10 % of the best one, on faults planted at random links.

    The best remedy is found by running all remedies again with another seed.
    """
    from anabranch.bench.explain import cases, score

    if place is not None:
        _captures(count, seed, place, as_json)
        return
    scores = [score(case) for case in cases(count, seed)]
    if as_json:
        click.echo(json.dumps({"seed": seed, "cases": [each.document() for each in scores]}, indent=2))
    else:
        _print(scores)


def _captures(count: int, seed: int, place: str, as_json: bool) -> None:
    from rich.console import Console

    from anabranch.bench import captures
    from anabranch.bench.explain import cases
    from anabranch.report.terminal import say

    scores = [captures.score(case, place) for case in cases(count, seed, with_middle=place == "middle")]
    if as_json:
        document = {"seed": seed, "place": place, "cases": [each.document() for each in scores]}
        click.echo(json.dumps(document, indent=2))
        return
    console = Console()
    _sheet(scores).print(console)
    full = [each for each in scores if each.is_capacity]
    say(
        console,
        f"Right at first: {sum(each.is_right for each in scores)} of {len(scores)}, among three: "
        f"{sum(each.is_among for each in scores)}; of {len(full)} cases without a remedy "
        f"{sum(each.is_right for each in full)}.",
    )


def _sheet(scores: Sequence[Score] | Sequence[CaptureScore]) -> Sheet:
    from anabranch.report.table_layout import Column, Sheet

    sheet = Sheet([Column("Planted", words=True), *map(Column, ("Cases", "Right"))])
    for fault in dict.fromkeys(each.fault for each in scores):
        chosen = [each for each in scores if each.fault == fault]
        sheet.add(fault, str(len(chosen)), str(sum(each.is_right for each in chosen)))
    return sheet


def _print(scores: Sequence[Score]) -> None:
    from rich.console import Console

    from anabranch.report.terminal import say

    console = Console()
    _sheet(scores).print(console)
    full = [each for each in scores if each.is_capacity]
    say(
        console,
        f"Right: {sum(each.is_right for each in scores)} of {len(scores)}; of {len(full)} cases without a remedy "
        f"{sum(each.is_right for each in full)}. {sum(each.runs for each in scores):,} runs.",
    )
