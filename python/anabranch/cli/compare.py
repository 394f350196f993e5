"""`anabranch compare`: differences of all metrics between two sides, with intervals."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED
from anabranch._core.worlds import WORLDS
from anabranch.cli import paths
from anabranch.cli.grouped import GroupedCommand
from anabranch.cli.run import read_scenario
from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.comparison.compare import Source
    from anabranch.comparison.conditions import Check
    from anabranch.comparison.runs import Variant

REPS = 10
"""Runs of each scenario by default."""
MAX_REPS = 100_000


@click.command(
    cls=GroupedCommand,
    headings={
        "Sides": ["--set", "--with", "--build"],
        "Runs": ["--reps", "--seed", "--jobs", "--world"],
        "Checks": ["--fail-if", "--junit"],
    },
    short_help="Compare scenarios, settings, results or builds",
)
@click.argument("sides", nargs=-1, required=True, metavar="SIDE…", type=click.Path(allow_dash=True))
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help="Change a setting of every scenario. May be repeated.",
)  # fmt: skip
@click.option(
    "--with", "variants", metavar="'KEY=VALUE …'", multiple=True,
    help="Add a side: the scenario with these settings, separated by spaces and quoted as in a shell. May be repeated.",
)  # fmt: skip
@click.option(
    "--build", "builds", metavar="PROGRAM", multiple=True,
    help="Take the program anabranch of another build as the baseline. May be repeated.",
)  # fmt: skip
@click.option("--reps", type=click.IntRange(1, MAX_REPS), help=f"Runs of each scenario.  [default: {REPS}]")
@click.option(
    "--seed", type=click.IntRange(0, LARGEST_SEED), help="Seed of the first run; the others follow.  [default: 1]"
)
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1, show_default="number of cores",
    help="Worker processes; runs on the kernel take place one at a time.",
)  # fmt: skip
@click.option("--world", type=click.Choice(WORLDS), help="Where to run: simulated, or on the kernel.  [default: sim]")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="Compare only this metric. May be repeated.")
@click.option("--all", "every", is_flag=True, help="Print all rows, also those without a difference.")
@click.option("--json", "as_json", is_flag=True, help="Print all differences as JSON instead of tables.")
@click.option(
    "--fail-if", "conditions", metavar="CONDITION", multiple=True,
    help="Exit with status 1 if the whole interval lies beyond, e.g. 'goodput<-2%' or 'drops@core/forward>100'.",
)  # fmt: skip
@click.option("--junit", "junit_file", metavar="FILE", help="Write the outcome of --fail-if there, as JUnit XML.")
@paths.option
def compare(
    sides: tuple[str, ...],
    settings: tuple[str, ...],
    variants: tuple[str, ...],
    builds: tuple[str, ...],
    reps: int | None,
    seed: int | None,
    jobs: int,
    world: str | None,
    metrics: tuple[str, ...],
    every: bool,
    as_json: bool,
    conditions: tuple[str, ...],
    junit_file: str | None,
    allow_paths: bool,
) -> None:
    """Compare every metric of the first SIDE, the baseline, with each other SIDE.

    A SIDE is a scenario (a TOML file, or "-" for standard input), a file with results of `anabranch run --json`, a
    folder of such files, or the folder of a study's results. Scenarios run with the same seeds, and runs are paired by
    seed.

    "better" and "worse" appear only where the interval of the difference excludes 0.
    """
    from rich.console import Console

    from anabranch.cli.progress import Bar
    from anabranch.comparison.compare import compare_sources
    from anabranch.comparison.conditions import Condition
    from anabranch.comparison.runs import Plan, Variant
    from anabranch.report.comparison import print_checks, print_comparison

    parsed = [Condition.parse(text) for text in conditions]
    if junit_file is not None and not parsed:
        raise InputError("--junit writes the outcome of conditions; add --fail-if CONDITION")
    if world == "kernel":
        from anabranch.testbed import rootless

        rootless.restart_in_user_namespace()
    sources = _sources([_source(side, allow_paths) for side in sides], settings, variants, builds)
    if not any(isinstance(source, Variant) for source in sources):
        _refuse_run_options({"--reps": reps, "--seed": seed, "--world": world})
    plan = Plan(REPS if reps is None else reps, 1 if seed is None else seed, jobs, world or "sim")
    wanted = {*metrics, *(condition.metric for condition in parsed)} if metrics else set()
    with Bar("compare") as bar:
        comparison = compare_sources(sources, [_name(source) for source in sources], plan, wanted, bar)
    checks = comparison.check(*conditions)
    if as_json:
        outcome = {"conditions": [check.document() for check in checks]} if checks else {}
        click.echo(json.dumps({**comparison.document(), **outcome}, indent=2))
    else:
        chosen = {*metrics, *(condition.metric for condition in parsed)}
        print_comparison(comparison, Console(), every=every, chosen=chosen)
        print_checks(checks, Console())
    if junit_file is not None:
        _write_junit(checks, Path(junit_file))
    _finish(checks)


def _sources(
    sides: Sequence[Source], settings: tuple[str, ...], variants: Sequence[str], builds: Sequence[str]
) -> list[Source]:
    """All compared variants, in this order: other builds, arguments, `--variant`s."""
    from anabranch.comparison.runs import Variant, find_program

    sources: list[Source] = []
    for source in sides:
        if isinstance(source, Variant):
            sources.append(Variant(source.name, source.scenario.with_settings(settings)))
            continue
        if settings:
            message = "--set changes scenarios, but this side has results already; omit --set"
            raise InputError(message, _name(source))
        sources.append(source)
    if not variants and not builds:
        return sources
    option = "--with" if variants else "--build"
    if variants and builds:
        raise InputError("--with and --build were both given; a comparison varies either the settings or the build")
    if len(sources) != 1 or not isinstance(sources[0], Variant):
        raise InputError(f"{option} needs exactly one SIDE, which must be a scenario")
    base = sources[0]
    if builds:
        this = Variant("this build", base.scenario)
        return [*(Variant(program, base.scenario, find_program(program)) for program in builds), this]
    return [base, *(_varied(base, text) for text in variants)]


def _source(side: str, allow_paths: bool) -> Source:
    """The scenario or the results that an argument names."""
    from anabranch.comparison.compare import source_of
    from anabranch.comparison.runs import Variant

    if side == "-":
        return Variant("standard input", read_scenario("-", allow_paths=allow_paths))
    return source_of(Path(side), allow_paths=allow_paths)


def _varied(base: Variant, text: str) -> Variant:
    """The scenario with the settings of one `--with`."""
    from anabranch.comparison.runs import Variant

    try:
        words = shlex.split(text)
    except ValueError:
        raise InputError(f"--with {text}: a quotation mark is not closed") from None
    if not words:
        raise InputError("--with needs at least one setting KEY=VALUE")
    return Variant(text.strip(), base.scenario.with_settings(tuple(words)))


def _name(source: Source) -> str:
    if isinstance(source, Path):
        return str(source)
    return source[0] if isinstance(source, tuple) else source.name


def _refuse_run_options(options: Mapping[str, object]) -> None:
    """Refuse options for runs if no side is run."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} needs a scenario, but all sides have results already; omit {name}")


def _write_junit(checks: Sequence[Check], file: Path) -> None:
    from anabranch.files import write_output
    from anabranch.report.comparison import junit

    write_output(file, junit(checks))


def _finish(checks: Sequence[Check]) -> None:
    """Exit with status 1 if a condition is met, with 2 if one cannot be decided."""
    met = [check for check in checks if check.met]
    for check in met:
        click.echo(f"anabranch: {check.sentence}", err=True)
    if met:
        raise click.exceptions.Exit(1)
    undecided = [check for check in checks if check.met is None]
    if undecided:
        raise InputError(f"cannot decide {undecided[0].sentence}")
