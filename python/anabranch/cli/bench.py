"""`anabranch bench`: how fast the simulator is, and how a study's store and report grow."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch.cli.bench_advise import bench_advise
from anabranch.cli.bench_baseline import count_instructions
from anabranch.cli.bench_defaults import defaults
from anabranch.cli.bench_explain import bench_explain
from anabranch.errors import InputError
from anabranch.study.limits import MAX_REPETITIONS

if TYPE_CHECKING:
    from rich.console import Console

    from anabranch.bench.measure import Speed


@click.group(invoke_without_command=True, short_help="Measure the speed and memory of the simulator")
@click.option("--against", type=click.Choice(["ns3"]), help="Run S1 and S2 in that simulator too and print the ratio.")
@click.option(
    "--reps", type=click.IntRange(1, MAX_REPETITIONS), default=3, show_default=True,
    help="Repetitions; medians are printed.",
)  # fmt: skip
@click.option(
    "--store", "rows", type=click.IntRange(1, 10**7),
    help="Measure the cost of a study with this number of generated runs; a million take 5 GB or more.",
)  # fmt: skip
@click.option(
    "--study", "name", default="matrix", show_default=True, help="Set the study whose full form --store generates."
)
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE",
    help="Count instructions and compare with FILE; exit with 1 above 2 %.",
)  # fmt: skip
@click.option(
    "--write-baseline", type=click.Path(path_type=Path), metavar="FILE",
    help="Count instructions and write them to FILE, as those of this build.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def bench(
    context: click.Context,
    against: str | None,
    reps: int,
    rows: int | None,
    name: str,
    baseline: Path | None,
    write_baseline: Path | None,
    as_json: bool,
) -> None:
    """Measure packets carried by the bottleneck per wall second, events per second, cost per packet and memory."""
    if context.invoked_subcommand is not None:
        return
    kinds = {"--against": against, "--store": rows, "--baseline": baseline, "--write-baseline": write_baseline}
    given = [option for option, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} are different measurements; give one of them")
    if rows is not None:
        _bench_store(name, rows, as_json)
    elif baseline is not None or write_baseline is not None:
        count_instructions(baseline, write_baseline, as_json)
    else:
        _bench_speed(reps, as_json, with_ns3=against == "ns3")


bench.add_command(defaults)
bench.add_command(bench_explain)
bench.add_command(bench_advise)


def _bench_speed(reps: int, as_json: bool, *, with_ns3: bool) -> None:
    """Measure the speed of the fixed scenarios and of many flows; in ns-3 too if `with_ns3`."""
    from rich.console import Console

    from anabranch.bench import measure, ns3

    theirs = ns3.compare() if with_ns3 else {}
    chosen = measure.scenarios()
    if theirs:
        chosen = {name: request for name, request in chosen.items() if name in theirs}
    ours = [measure.measure(name, request, reps) for name, request in chosen.items()]
    scale = []
    if not theirs:
        scale = [measure.measure(f"{n} flows", measure.many_flows(n), reps) for n in measure.SCALE_FLOWS]
    if as_json:
        click.echo(json.dumps(_plain(ours, scale, theirs), indent=2))
        return
    console = Console()
    _print_speeds(console, "Anabranch, one core", ours)
    if scale:
        _print_speeds(console, "Flows over one bottleneck, whose rate is proportional to their number", scale)
        console.print(f"The largest cost per packet is {100 * measure.spread(scale):.0f} % above the smallest.")
    if theirs:
        _print_speeds(console, "ns-3, one core", list(theirs.values()))
        for speed in ours:
            other = theirs[speed.name]
            console.print(
                f"{speed.name}: {speed.packets_per_s / other.packets_per_s:.0f} times the packets per second of ns-3; "
                f"sum of goodputs {sum(speed.goodput_bps) / sum(other.goodput_bps) - 1:+.1%}"
            )


def _bench_store(name: str, count: int, as_json: bool) -> None:
    """Measure a store of generated rows in a temporary folder."""
    from rich.console import Console

    from anabranch.bench import rows
    from anabranch.report.table_layout import Column, Sheet

    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        found = rows.measure(name, count, Path(folder))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), indent=2))
        return
    title = f"{found.rows:,} generated runs of {found.study}, {found.file_bytes / 1e9:.2f} GB"
    sheet = Sheet([Column("Step", words=True), *map(Column, ("Wall s", "CPU s", "µs/run", "Memory\nMiB"))], title)
    for cost in found.costs:
        sheet.add(
            cost.step, f"{cost.wall_s:.1f}", f"{cost.cpu_s:.1f}", f"{1e6 * cost.cpu_s / found.rows:.0f}",
            f"{cost.peak_bytes / 2**20:,.0f}",
        )  # fmt: skip
    sheet.print(Console())


def _print_speeds(console: Console, title: str, speeds: list[Speed]) -> None:
    from anabranch.report.table_layout import Column, Sheet

    headings = ("Packets", "Wall s", "Packets/s", "Events/s", "ns/packet", "Memory\nMiB", "Goodput\nMbit/s")
    sheet = Sheet([Column("Scenario", words=True), *map(Column, headings)], title)
    for s in speeds:
        goodputs = " + ".join(f"{g / 1e6:.1f}" for g in s.goodput_bps)
        if len(s.goodput_bps) > 4:  # noqa: PLR2004  a row has to fit a terminal
            goodputs = f"Σ {sum(s.goodput_bps) / 1e6:,.0f}"
        sheet.add(
            s.name, f"{s.packets:,}", f"{s.wall_s:.2f}", f"{s.packets_per_s:,.0f}", f"{s.events_per_s:,.0f}",
            f"{s.cost_ns:.0f}", f"{s.peak_bytes / 2**20:.0f}" if s.peak_bytes else "–", goodputs,
        )  # fmt: skip
    sheet.print(console)


def _plain(ours: list[Speed], scale: list[Speed], theirs: dict[str, Speed]) -> dict[str, object]:
    def row(s: Speed) -> dict[str, object]:
        return {
            "name": s.name, "packets": s.packets, "events": s.events, "wall_s": s.wall_s,
            "packets_per_s": s.packets_per_s, "events_per_s": s.events_per_s, "peak_bytes": s.peak_bytes,
            "goodput_bps": list(s.goodput_bps),
        }  # fmt: skip

    return {
        "anabranch": [row(s) for s in ours],
        "flows": [row(s) for s in scale],
        "ns3": [row(s) for s in theirs.values()],
    }
