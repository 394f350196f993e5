"""`anabranch bench defaults`: compares the default mechanisms of a multipath protocol with all other combinations."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from anabranch.bench.defaults import Comparison, Protocol, Verdict

_MAX_PAIRS = 100_000


@click.command("defaults", short_help="Compare a protocol's defaults with all combinations")
@click.option("--protocol", type=click.Choice(["mptcp", "cmt-sctp"]), required=True, help="Choose the protocol.")
@click.option(
    "--pairs",
    type=click.IntRange(1, _MAX_PAIRS),
    default=500,
    show_default=True,
    help="Set the number of random pairs of paths.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    default=1,
    show_default=True,
    help="Set the seed of the random pairs.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1,
    help="Set the number of processes; by default that of cores.",
)  # fmt: skip
@click.option(
    "--worst",
    type=click.IntRange(0, _MAX_PAIRS),
    default=10,
    show_default=True,
    help="Set the number of worst pairs to print.",
)
@click.option("--show", type=click.IntRange(1, _MAX_PAIRS), help="Print this pair as a scenario and run nothing.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON with all pairs instead of a table; rates are in bit/s."
)
def defaults(
    protocol: Protocol, pairs: int, seed: int, jobs: int, worst: int, show: int | None, as_json: bool
) -> None:  # fmt: skip
    """Compare the defaults of a multipath protocol with all combinations of its mechanisms, over random pairs of paths.

    Each combination runs for 30 s, of which 10 s are warm-up, with the same seed. The single-path protocol runs on each
    path alone with all of the buffers.
    """
    from rich.console import Console

    from anabranch.bench import defaults as bench

    if show is not None:
        click.echo(bench.draw(seed, show).scenario(bench.combinations(protocol)[0].flow), nl=False)
        return
    drawn = [bench.draw(seed, number) for number in range(1, pairs + 1)]
    runs = len(drawn) * (len(bench.combinations(protocol)) + len(bench.singles(protocol)))
    with _Progress(runs) as advance:
        verdict = bench.compare(protocol, drawn, jobs, advance)
    if as_json:
        click.echo(json.dumps(document(verdict, seed), indent=2))
        return
    _print(Console(), verdict, worst)


def document(verdict: Verdict, seed: int) -> dict[str, object]:
    """All pairs and the verdict, for JSON."""
    from anabranch.bench import defaults as bench

    return {
        "protocol": verdict.protocol,
        "seed": seed,
        "pairs": len(verdict.comparisons),
        "near_best_share": bench.NEAR_BEST,
        "near_best_pairs": verdict.near_best,
        "near_best_pairs_wanted": bench.NEAR_BEST_PAIRS,
        "below_single_path": verdict.below_single,
        "passed": verdict.is_met,
        "comparisons": [_row(comparison) for comparison in verdict.comparisons],
    }


def _row(comparison: Comparison) -> dict[str, object]:
    pair = comparison.pair
    return {
        "pair": pair.number,
        "links": [
            {
                "rate_bps": link.rate_mbps * 1e6,
                "return_rate_bps": link.return_mbps * 1e6,
                "round_trip_s": link.round_trip_ms / 1e3,
                "queue_bytes": link.queue_bytes,
                "loss": link.loss,
            }
            for link in pair.links
        ],
        "buffer_bytes": pair.buffer_bytes,
        "ordered": pair.ordered,
        "goodput_bps": dict(comparison.combinations),
        "single_path_bps": list(comparison.singles),
        "best": comparison.best[0],
        "share_of_best": comparison.share_of_best,
        "share_of_single_path": comparison.share_of_single,
        "below_single_path": comparison.is_below_single,
    }


class _Progress:
    """Shows on a terminal how many runs have ended."""

    def __init__(self, runs: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("runs · left"), TimeRemainingColumn(),
            console=console, disable=not console.is_terminal, expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=runs)

    def __enter__(self) -> Callable[[], None]:
        self._bar.start()
        return lambda: self._bar.advance(self._task)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _print(console: Console, verdict: Verdict, worst: int) -> None:
    from anabranch.bench import defaults as bench
    from anabranch.report.table_layout import Column, Sheet
    from anabranch.report.terminal import say

    if worst:
        headings = ("Defaults\nMbit/s", "Best\nMbit/s", "Share\n%", "Alone\nMbit/s", "Share\n%")
        sheet = Sheet(
            [
                Column("Pair"), Column("First path", words=True), Column("Second path", words=True),
                Column("Buffer\nkB"), *map(Column, headings), Column("Best combination", words=True),
            ],
            f"{verdict.protocol}: the pairs in which the defaults lose most",
        )  # fmt: skip
        for found in verdict.worst(worst):
            name, best = found.best
            sheet.add(
                str(found.pair.number), *map(str, found.pair.links), f"{found.pair.buffer_bytes / 1000:.0f}",
                f"{found.default / 1e6:.2f}", f"{best / 1e6:.2f}", f"{100 * found.share_of_best:.1f}",
                f"{max(found.singles) / 1e6:.2f}", f"{100 * found.share_of_single:.1f}", name,
            )  # fmt: skip
        sheet.print(console)
    count = len(verdict.comparisons)
    say(
        console,
        f"{verdict.near_best} of {count} pairs ({100 * verdict.near_best / count:.1f} %) reach {bench.NEAR_BEST:.0%} "
        f"of the best combination; at least {bench.NEAR_BEST_PAIRS:.0%} are required.",
    )
    say(
        console,
        f"{verdict.below_single} of {count} pairs are below {bench.NEAR_SINGLE:.0%} of the better single path although "
        "a combination reaches it; the requirement is 0.",
    )
    say(console, "The defaults pass." if verdict.is_met else "The defaults do not pass.")
