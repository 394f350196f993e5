"""`anabranch explain`: causes of a slow flow, remedies, and their measured gains; and causes that captures show."""

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
from anabranch.explain.limits import AIMS, REPS, TIME_LIMIT_S

if TYPE_CHECKING:
    from anabranch.explain.explanation import Explanation, Options

_MAX_TIME_S = 86_400.0
_ONLY_FOR_SCENARIOS = {
    "settings": "--set", "aim": "--aim", "seed": "--seed", "reps": "--reps", "jobs": "--jobs",
    "time_limit": "--time-limit", "no_run": "--no-run",
}  # fmt: skip


@click.command(short_help="Explain why a flow is slow, with remedies")
@click.argument(
    "sources", metavar="SCENARIO|RESULT|CAPTURE...", nargs=-1, required=True, type=click.Path(allow_dash=True)
)
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a setting of the scenario. May be repeated."
)
@click.option(
    "--flow", metavar="NAME",
    help="Explain this flow, or connection of captures by its number; by default the first with several paths.",
)  # fmt: skip
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
@click.option(
    "--plot", metavar="FILE",
    help="Draw gains, or the data over time of captures, there, as PNG, SVG or PDF by the name's ending.",
)  # fmt: skip
@click.option(
    "--plot-kind", type=click.Choice(["gains", "sequences"]), default=None, show_default="by the input",
    help="Draw the gains of remedies, or for captures data sequence numbers over time.",
)  # fmt: skip
@paths.option
@click.pass_context
def explain(
    context: click.Context,
    sources: tuple[str, ...],
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
    plot_kind: str | None,
    allow_paths: bool,
) -> None:
    """Explain why a flow is slow: name causes and run a remedy for each in the simulator.

    The input is a scenario (a TOML file, or "-" for standard input) or a result of `anabranch run --json`, which
    contains its scenario. Findings are ranked by the gain of their remedies. A remedy counts from a gain of 10 %, after
    the loss of other flows. Captures of Multipath TCP, TCP or SCTP (pcap or pcapng, one for each interface or end) are
    read together; they cannot be run again, so their causes are named by rules, each marked measured or inferred.
    """
    from rich.console import Console

    from anabranch.explain.captured import is_capture
    from anabranch.explain.explanation import Options

    if plot_kind is not None and plot is None:
        raise InputError("--plot-kind needs --plot FILE")
    if any(source != "-" and is_capture(source) for source in sources):
        if plot_kind == "gains":
            raise InputError("--plot-kind gains needs runs, and a capture cannot be run again; choose sequences")
        _check_only_for_scenarios(context)
        _explain_captures(sources, flow, plot, as_json=as_json)
        return
    if plot_kind == "sequences":
        raise InputError('--plot-kind sequences is for captures; "anabranch run --plot" draws those of a scenario')
    source, *others = sources
    if others:
        raise InputError(f"{len(sources)} inputs, but only captures can be read together; give one scenario or result")
    from anabranch.report.explanation import print_explanation

    if plot is not None:
        from anabranch.plot.style import check_figure

        if no_run:
            raise InputError("--plot draws measured gains, but --no-run measures none; omit one of them")
        check_figure(plot)
    options = Options(flow, aim, seed, reps, jobs, time_limit, not no_run)
    explanation = _explained(source, settings, options, allow_paths=allow_paths)
    if as_json:
        click.echo(json.dumps(explanation.document(), indent=2))
    else:
        print_explanation(explanation, Console())
    if plot is not None:
        from anabranch.plot import gains, style

        style.save_as(gains.draw(explanation), Path(plot))


def _check_only_for_scenarios(context: click.Context) -> None:
    """Refuse options that mean runs."""
    for name, option in _ONLY_FOR_SCENARIOS.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise InputError(f"{option} is for scenarios, but a capture cannot be run again; omit {option}")


def _explain_captures(sources: tuple[str, ...], number: str | None, plot: str | None, *, as_json: bool) -> None:
    """Explain a connection of captures."""
    from rich.console import Console

    from anabranch.cli.progress import of_share
    from anabranch.explain.captured import read_captures
    from anabranch.plot.style import check_figure
    from anabranch.report.captures import print_captures

    if number is not None and not number.isdecimal():
        raise InputError(f'connections of captures have numbers: write for example --flow 1, not "{number}"')
    if plot is not None:
        check_figure(plot)
    with of_share("reading") as progress:
        captures = read_captures(sources, progress)
    wanted = None if number is None else int(number)
    chosen, found = captures.connection(wanted), captures.explain(wanted)
    if as_json:
        explained = {"connection": chosen.number, "findings": [each.document() for each in found]}
        click.echo(json.dumps({**explained, **captures.document}, indent=2))
    else:
        print_captures(captures, chosen, found, Console())
    if plot is not None:
        captures.plot(plot, wanted)


def _explained(source: str, settings: tuple[str, ...], options: Options, *, allow_paths: bool) -> Explanation:
    """Explain a scenario, or the scenario in a result."""
    from anabranch.explain.explanation import explain as explain_scenario
    from anabranch.explain.explanation import explain_document

    if source != "-" and _is_result(Path(source)):
        from anabranch.documents import read_documents

        if settings:
            raise InputError("--set changes scenarios, but this is a result; omit --set", source)
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
