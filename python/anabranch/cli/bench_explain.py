"""`anabranch bench explain`: how often the answers of `anabranch explain` are right, with runs and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED
from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.bench.answers import Tally
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
@click.option(
    "--export", metavar="FILE",
    help="Write labelled runs with results and captures there as Parquet, and score nothing.",
)  # fmt: skip
@click.option(
    "--no-run", "files", metavar="FILE", multiple=True,
    help="Score answers without runs, and two baselines, on these labelled runs. May be repeated.",
)  # fmt: skip
@click.option(
    "--split", type=click.Choice(["build", "validation", "test"]),
    help="Draw the cases of --export from this split, or score only this one with --no-run.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all cases as JSON instead of a table.")
def bench_explain(
    count: int,
    seed: int,
    place: str | None,
    export: str | None,
    files: tuple[str, ...],
    split: str | None,
    as_json: bool,
) -> None:
    """Count how often the first remedy gains within 10 % of the best one, on faults planted at random links.

    The best remedy is found by running all remedies again with another seed. Labelled runs keep the gains with the seed
    of the run, so that answers without runs can be scored repeatedly.
    """
    from anabranch.bench.explain import cases, score

    _check_options(place, export, files, split, as_json=as_json)
    if export is not None:
        _export(export, str(split), count, seed)
    elif files:
        _score_labelled(files, split, as_json=as_json)
    elif place is not None:
        _captures(count, seed, place, as_json)
    else:
        scores = [score(case) for case in cases(count, seed)]
        if as_json:
            click.echo(json.dumps({"seed": seed, "cases": [each.document() for each in scores]}, indent=2))
        else:
            _print(scores)


def _check_options(
    place: str | None, export: str | None, files: tuple[str, ...], split: str | None, *, as_json: bool
) -> None:
    """Refuse options that do not go together."""
    given = {"--captures": place, "--export": export, "--no-run": files or None}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InputError(f"{names[0]} and {names[1]} are different measurements; give one of them")
    if split is not None and names not in (["--export"], ["--no-run"]):
        raise InputError("--split needs --export FILE or --no-run FILE")
    if export is None:
        return
    if split is None:
        raise InputError("--export needs --split build, --split validation or --split test")
    if as_json:
        raise InputError("--export writes Parquet; omit --json")
    if not Path(export).absolute().parent.is_dir():
        raise InputError("cannot be written: its folder does not exist", export)


def _export(file: str, split: str, count: int, seed: int) -> None:
    from anabranch.bench.labelled import labelled, write

    written = write(labelled(split, count, seed), file)
    click.echo(f"{file}: {written:,} labelled runs of the split {split}, seed {seed}")


def _score_labelled(files: Sequence[str], split: str | None, *, as_json: bool) -> None:
    from rich.console import Console

    from anabranch.bench.answers import tallies
    from anabranch.bench.labelled import read

    runs = read(files, split)
    found = tallies(runs)
    if as_json:
        splits = sorted({each.split for each in runs})
        click.echo(json.dumps({"splits": splits, "methods": [each.document() for each in found]}, indent=2))
        return
    console = Console()
    _sheet_of_methods(found).print(console)
    _sheet_of_faults(found).print(console)


def _sheet_of_methods(found: Sequence[Tally]) -> Sheet:
    from anabranch.report.table_layout import Column, Sheet

    headings = ("Runs", "First\nright %", "One of three\nright %", "Nothing to mend\nright %", "Mean\nregret %")
    sheet = Sheet([Column("Causes named from", words=True), *map(Column, headings)])
    for each in found:
        count = len(each.answered)
        full, of_full = each.capacity
        sheet.add(
            each.method, f"{count:,}", f"{100 * each.right / count:.1f}", f"{100 * each.among / count:.1f}",
            f"{100 * full / of_full:.1f}" if of_full else "–", f"{100 * each.regret:.1f}",
        )  # fmt: skip
    return sheet


def _sheet_of_faults(found: Sequence[Tally]) -> Sheet:
    from anabranch.report.table_layout import Column, Sheet

    headings = [each.method.replace(" ", "\n") for each in found]
    sheet = Sheet([Column("Planted", words=True), Column("Runs"), *map(Column, headings)], "First right, %")
    counts = [each.by_fault() for each in found]
    for fault, (_, count) in counts[0].items():
        sheet.add(fault, f"{count}", *(f"{100 * each[fault][0] / count:.0f}" for each in counts))
    return sheet


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
