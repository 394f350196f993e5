"""`anabranch bench`: how fast the simulator is, and how a study's store and report grow."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import click

from anabranch.cli.bench_advise import bench_advise
from anabranch.cli.bench_baseline import count_instructions
from anabranch.cli.bench_defaults import defaults
from anabranch.cli.bench_explain import bench_explain
from anabranch.cli.bench_htsim import bench_htsim
from anabranch.cli.bench_tables import plain, print_ratio, print_speeds
from anabranch.errors import InputError
from anabranch.study.limits import MAX_REPETITIONS


@click.group(invoke_without_command=True, short_help="Measure the speed and memory of the simulator")
@click.option(
    "--against", type=click.Choice(["ns3", "htsim"]),
    help="Run S1, with ns-3 also S2, in that simulator too and print the ratio.",
)  # fmt: skip
@click.option(
    "--htsim", "copy", type=click.Path(path_type=Path), metavar="DIR",
    help="Set the copy of htsim for --against htsim, with its library built.",
)  # fmt: skip
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
    copy: Path | None,
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
    if (against == "htsim") != (copy is not None):
        raise InputError("--against htsim and --htsim DIR belong together; give both")
    if copy is not None:
        bench_htsim(copy, reps, as_json)
    elif rows is not None:
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
        click.echo(json.dumps(plain({"anabranch": ours, "flows": scale, "ns3": list(theirs.values())}), indent=2))
        return
    console = Console()
    print_speeds(console, "Anabranch, one core", ours)
    if scale:
        print_speeds(console, "Flows over one bottleneck, whose rate is proportional to their number", scale)
        console.print(f"The largest cost per packet is {100 * measure.spread(scale):.0f} % above the smallest.")
    if theirs:
        print_speeds(console, "ns-3, one core", list(theirs.values()))
        for speed in ours:
            print_ratio(console, "ns-3", speed, theirs[speed.name])


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
