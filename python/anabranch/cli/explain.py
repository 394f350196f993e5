"""`anabranch explain`: causes of a slow flow, remedies, and their measured gains."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED
from anabranch.cli import paths
from anabranch.cli.run import read_scenario
from anabranch.errors import InputError
from anabranch.explain.explanation import REPS, TIME_LIMIT_S
from anabranch.explain.objective import AIMS

if TYPE_CHECKING:
    from anabranch.explain.explanation import Explanation, Options

_MAX_TIME_S = 86_400.0


@click.command(short_help="Explain why a flow is slow, with remedies")
@click.argument("source", metavar="SCENARIO|RESULT", type=click.Path(allow_dash=True))
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a setting of the scenario. May be repeated."
)
@click.option("--flow", metavar="NAME", help="Explain this flow; by default the first with several paths.")
@click.option(
    "--aim", type=click.Choice(AIMS), default="goodput", show_default=True,
    help="Improve the goodput, or the 95 % quantile of delays.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), help="Seed of the first run; the others follow.")
@click.option(
    "--reps", type=click.IntRange(1, 1000), default=REPS, show_default=True,
    help="Seeds for the interval of the best remedies.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1, show_default="number of cores",
    help="Worker processes.",
)  # fmt: skip
@click.option(
    "--time-limit", metavar="SECONDS", type=click.FloatRange(0.001, _MAX_TIME_S), default=TIME_LIMIT_S,
    show_default=True, help="Begin no run after this time; likely remedies run first.",
)  # fmt: skip
@click.option("--no-run", is_flag=True, help="Name likely causes by rules, without running remedies.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
@click.option("--plot", metavar="FILE", help="Draw the gains there, as PNG, SVG or PDF by the name's ending.")
@paths.option
def explain(
    source: str,
    settings: tuple[str, ...],
    flow: str | None,
    aim: str,
    seed: int | None,
    reps: int,
    jobs: int,
    time_limit: float,
    no_run: bool,
    as_json: bool,
    plot: str | None,
    allow_paths: bool,
) -> None:
    """Explain why a flow is slow: name causes and run a remedy for each in the simulator.

    The input is a scenario (a TOML file, or "-" for standard input) or a result of `anabranch run --json`, which
    contains its scenario. Findings are ranked by the gain of their remedies. A remedy counts from a gain of 10 %, after
    the loss of other flows.
    """
    from rich.console import Console

    from anabranch.explain.explanation import Options
    from anabranch.report.explanation import print_explanation

    if plot is not None:
        from anabranch.plot.style import format_of_suffix

        if no_run:
            raise InputError("--plot draws measured gains, but --no-run measures none; leave one of them away")
        format_of_suffix(Path(plot))
    options = Options(flow, aim, seed, reps, jobs, time_limit, not no_run)
    explanation = _explained(source, settings, options, allow_paths=allow_paths)
    if as_json:
        click.echo(json.dumps(explanation.document(), indent=2))
    else:
        print_explanation(explanation, Console())
    if plot is not None:
        from anabranch.plot import gains, style

        style.save_as(gains.draw(explanation), Path(plot))


def _explained(source: str, settings: tuple[str, ...], options: Options, *, allow_paths: bool) -> Explanation:
    """Explain a scenario, or the scenario in a result."""
    from anabranch.explain.explanation import explain as explain_scenario
    from anabranch.explain.explanation import explain_document

    if source != "-" and _is_result(Path(source)):
        from anabranch.documents import read_documents

        if settings:
            raise InputError("--set changes scenarios, but this is a result; leave --set away", source)
        first, *others = read_documents(Path(source))
        if others:
            raise InputError(f"contains {len(others) + 1} results; explain needs exactly one", source)
        return explain_document(first, options, source, allow_paths=allow_paths)
    return explain_scenario(read_scenario(source, allow_paths=allow_paths).with_settings(settings), options)


def _is_result(path: Path) -> bool:
    """Whether a file is JSON by its name or its first character; no scenario begins with a brace."""
    if path.suffix.lower() == ".json":
        return True
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False
