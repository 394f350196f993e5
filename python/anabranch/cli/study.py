"""`anabranch study`: list, run and report studies."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from anabranch._core.worlds import WORLDS
from anabranch.cli import paths
from anabranch.errors import InputError, RunFailed
from anabranch.quantities import counted
from anabranch.study.limits import MAX_REPETITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from anabranch._core.worlds import World
    from anabranch.study.analysis import Analysis
    from anabranch.study.engine import Plan
    from anabranch.study.engine import Progress as Outcome
    from anabranch.study.local import Limits
    from anabranch.study.model import Effort, Study

_SHOWN_FAILURES = 20
"""Number of runs that broke off and are named."""


def _names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completions for a shell: studies of the package, and folders."""
    from anabranch.study.library import shipped

    return [*map(CompletionItem, (n for n in shipped() if n.startswith(begun))), CompletionItem(begun, type="dir")]


_name = click.argument("name", shell_complete=_names)
_results = click.option(
    "--results",
    metavar="DIR",
    default="results",
    show_default=True,
    help="Folder for results of all studies.",
)
_quick = click.option("--quick", is_flag=True, help="The quick form: fewer points and repetitions, shorter runs.")
_world = click.option(
    "--world", type=click.Choice(WORLDS), default="sim", show_default=True,
    help="Where to run it: simulated, or in real time, one run at a time, in user space or on the kernel.",
)  # fmt: skip
_reps = click.option(
    "--reps", type=click.IntRange(1, MAX_REPETITIONS), help="Repetitions of each point instead of the study's own."
)


_allow_code = click.option(
    "--allow-code", is_flag=True, help="Run the functions in Python that the study names as metrics."
)
_json = click.option(
    "--json", "as_json", is_flag=True, help="Print the verdicts on all published statements as JSON, not tables."
)


@click.group(short_help="List, run and report studies: grids of scenarios")
def study() -> None:
    """Run whole studies: grids of scenarios with repetitions, compared with published numbers."""


@study.command("list")
def list_studies() -> None:
    """List the studies that come with Anabranch."""
    from anabranch.study.definition import outline
    from anabranch.study.library import shipped

    found = [outline(folder) for folder in shipped().values()]
    width = max((len(s.name) for s in found), default=0)
    for s in found:
        quick, full = s.count(s.quick), s.count(s.full)
        click.echo(f"{s.name:<{width}}  {s.title} ({full:,} runs, quick: {quick:,})")


@study.command(short_help="Run a study and write tables, figures and a report")
@_name
@_quick
@_reps
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=lambda: os.cpu_count() or 1,
    show_default="number of cores",
    help="Worker processes; with --on slurm jobs. A scheduler that is joined has its own.",
)  # fmt: skip
@click.option(
    "--on", "place", metavar="WHERE", default="",
    help="Workers elsewhere than in processes of this machine: dask, slurm, or the address of a Dask scheduler.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on where an earlier run of the study ended.")
@click.option(
    "--run-timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
    help="End each run that takes longer, in real time; no limit by default.",
)  # fmt: skip
@click.option(
    "--run-memory", type=click.FloatRange(0, min_open=True), metavar="MB",
    help="End each run that needs more memory; no limit by default.",
)  # fmt: skip
@_world
@_results
@_json
@paths.option
@_allow_code
def run(
    name: str, quick: bool, reps: int | None, jobs: int, place: str, resume: bool, world: World, results: str,
    run_timeout: float | None, run_memory: float | None, as_json: bool, allow_paths: bool, allow_code: bool,
) -> None:  # fmt: skip
    """Run the study NAME (or a folder of your own) and write tables, figures and a report."""
    from rich.console import Console

    from anabranch.cli.progress import Bar
    from anabranch.study.engine import execute

    plan = dataclasses.replace(
        _plan(_find(name, allow_paths, allow_code), (quick, reps), results, world, jobs),
        place=_place(place, world),
        limits=_limits(run_timeout, run_memory, place),
    )
    _announce(plan)
    with Bar(f"{plan.study.name} ({plan.folder.name})") as bar:
        outcome = execute(plan, bar, resume=resume)
    _print_store_notes(outcome)
    if outcome.reused + outcome.finished:
        _report(plan, Console(), build=plan.build, as_json=as_json)
    _check(outcome, plan)


def _announce(plan: Plan) -> None:
    """Print the number of points and runs, and the time that they take, before any point is made."""
    from anabranch.forecast import run_s, spoken
    from anabranch.scenario import Scenario
    from anabranch.study.definition import check_runs

    study, effort = plan.study, plan.effort
    check_runs(study, effort)
    own = [experiment for experiment in study.experiments.values() if not experiment.theory]
    points = sum(study.count_points(effort, experiment) for experiment in own)
    text = f"{study.name} ({plan.folder.name}): {counted(points, 'point')}, {counted(study.count(effort), 'run')}"
    click.echo(text, err=True)
    total = 0.0
    for experiment in own:
        # The first point stands for all of its experiment: the estimate suffices to distinguish seconds from days.
        for point in study.slice(effort, experiment, ()):
            file = str(study.folder / point.scenario)
            if effort.real_time:
                each: float | None = study.duration_s(point)
            else:
                each = run_s(Scenario(study.scenarios[point.scenario], file, point.overrides))
            if each is None:
                return
            total += each * study.count_of(effort, experiment)
    workers = f" with {plan.jobs} workers" if plan.jobs > 1 and not plan.place else " of one worker"
    click.echo(
        f"about {spoken(total / (1 if plan.place else plan.jobs))}{workers}, by the rates of its links", err=True
    )


class _Worlds(click.ParamType["tuple[World, ...]"]):
    """One world or several, with commas between."""

    name = "worlds"

    def convert(self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None) -> Any:
        asked = value if isinstance(value, tuple) else [part.strip() for part in value.split(",")]
        for world in asked:
            if world not in WORLDS:
                self.fail(f"{world!r} is not one of {', '.join(map(repr, WORLDS))}.")
        return tuple(world for world in WORLDS if world in asked)


@study.command(short_help="Write the report again from the finished runs")
@_name
@_quick
@_reps
@click.option(
    "--world", "worlds", type=_Worlds(), default="sim", show_default=True, metavar="WORLD[,WORLD]",
    help="Show the runs of one world, or of several side by side: sim,user,kernel.",
)  # fmt: skip
@_results
@_json
@click.option(
    "--html", "page", metavar="[FILE]", is_flag=False, flag_value="", default=None,
    help="Write the report as a page in one file, too; by default report.html in the folder of the results.",
)  # fmt: skip
@paths.option
@_allow_code
def report(
    name: str, quick: bool, reps: int | None, worlds: tuple[World, ...], results: str, as_json: bool,
    page: str | None, allow_paths: bool, allow_code: bool,
) -> None:  # fmt: skip
    """Write tables, figures and the report of the study NAME again, from the finished runs.

    Runs of an earlier build of the simulator are shown too, with a note in the report. Data for figures of windows are
    not stored: those runs are simulated again. With --world sim,user,kernel a separate folder compares the runs of
    these worlds with each other and with the published values.
    """
    from rich.console import Console

    chosen = _find(name, allow_paths, allow_code)
    if page is not None and len(worlds) > 1:
        raise InputError("--html has the report of one world; name one in --world")
    if len(worlds) == 1:
        plan = _plan(chosen, (quick, reps), results, worlds[0])
        _report(plan, Console(), as_json=as_json, page=_page(page, plan))
    elif as_json:
        raise InputError("--json has the verdicts of one world; name one in --world")
    else:
        _report_worlds(chosen, name, (quick, reps), results, worlds)


def _page(page: str | None, plan: Plan) -> Path | None:
    """The file of the page; `None` if none is asked for."""
    if page is None:
        return None
    file = Path(page) if page else plan.folder / "report.html"
    if file.is_dir():
        raise InputError("is a folder; name a file for --html", str(file))
    return file


def _place(place: str, world: World) -> str:
    """The value of --on; refuses other machines for runs in real time, which measure this machine."""
    if place and world != "sim":
        raise InputError(f"runs in the world {world} are those of this machine; omit --on")
    if place:
        from anabranch.study.pool import check_place

        check_place(place)
    return place


def _limits(timeout_s: float | None, megabytes: float | None, place: str) -> Limits:
    """Bounds of each run, if the workers are processes of this machine."""
    from anabranch.study.local import Limits

    if place and (timeout_s is not None or megabytes is not None):
        raise InputError("--run-timeout and --run-memory need worker processes of this machine; omit --on")
    return Limits(timeout_s, None if megabytes is None else int(megabytes * 1e6))


def _find(name: str, allow_paths: bool, allow_code: bool) -> Study:
    from anabranch.study.library import find

    return find(name, allow_paths=allow_paths, allow_code=allow_code)


def _plan(chosen: Study, form: tuple[bool, int | None], results: str, world: World, jobs: int = 1) -> Plan:
    """The plan of the runs; results of different worlds are kept in different folders."""
    from anabranch._core import simulator, worlds
    from anabranch.study.engine import Plan

    for figure in chosen.figures:
        if figure.is_implied:
            click.echo(
                f'anabranch: the figure "{figure.name}" has a line for each "{figure.series}", which no axis, panel or '
                f'series shows; write series = "{figure.series}", or together = "mean"',
                err=True,
            )
    effort = chosen.effort(*form, real_time=world != "sim")
    folder = _folder(chosen, effort, results, world)
    build = simulator.build_fingerprint()
    if world == "sim":
        return Plan(chosen, effort, folder, simulator.simulate, build, jobs)
    if world == "kernel":
        from anabranch.testbed import rootless

        rootless.restart_in_user_namespace()
    # Two runs at the same time would slow each other down.
    return Plan(chosen, effort, folder, worlds.of(world), build, 1, worlds.checker(world))


def _folder(chosen: Study, effort: Effort, results: str, *worlds: str) -> Path:
    """The folder of the results of a form; results of the simulator alone have no world in its name."""
    if not results:
        raise InputError('cannot write results to ""; name a folder')
    return Path(results) / chosen.name / "-".join([effort.name, *(worlds if worlds != ("sim",) else ())])


def _report_worlds(
    chosen: Study, name: str, form: tuple[bool, int | None], results: str, worlds: Sequence[World]
) -> None:
    """Write and print a report of several worlds."""
    from contextlib import ExitStack

    from rich.console import Console

    from anabranch.report.world_comparison import print_all, write_all
    from anabranch.study.analysis import Analysis
    from anabranch.study.store import FILE, read
    from anabranch.study.world_comparison import WorldComparison

    efforts = {world: chosen.effort(*form, real_time=world != "sim") for world in worlds}
    with ExitStack() as stack:
        analyses: dict[str, Analysis] = {}
        for world, effort in efforts.items():
            folder = _folder(chosen, effort, results, world)
            command = f"anabranch study run {name}{' --quick' if effort.quick else ''} --world {world}"
            if not (folder / FILE).is_file():
                raise InputError(f'holds no runs yet; start with "{command}"', str(folder))
            store = stack.enter_context(read(folder))
            for note in store.notes:
                click.echo(f"anabranch: {note}", err=True)
            analyses[world] = Analysis(chosen, effort, store.records)
            if analyses[world].is_empty:
                raise InputError(
                    f'holds no runs of this study as it is now defined; start with "{command}"', str(folder)
                )
        comparison = WorldComparison(chosen, analyses)
        written = write_all(comparison, _folder(chosen, efforts[worlds[0]], results, *worlds))
        console = Console()
        print_all(comparison, console)
    console.print(f"Report, table and figures: {written}", soft_wrap=True, highlight=False)


def _report(plan: Plan, console: Console, build: str = "", *, as_json: bool = False, page: Path | None = None) -> None:
    """Write and print the report, of all runs or only of those of one build; `page` is the file of its page."""
    from anabranch.report.terminal import print_points
    from anabranch.report.verdicts import document
    from anabranch.report.write import write_all
    from anabranch.study.analysis import Analysis
    from anabranch.study.store import read

    with read(plan.folder) as store:
        for note in store.notes:
            click.echo(f"anabranch: {note}", err=True)
        analysis = Analysis(plan.study, plan.effort, store.records, build)
        analysis.is_interim = store.is_interim
        if analysis.is_empty:
            raise InputError(
                'holds no runs of this study as it is now defined; start with "anabranch study run"',
                str(store.path),
            )
        is_writable = store.is_writable or (store.is_interim and os.access(plan.folder, os.W_OK))
        written = write_all(analysis, plan, page) if is_writable else None
    if as_json:
        click.echo(json.dumps(document(analysis), indent=2))
        return
    print_points(analysis, console)
    _print_notes(analysis, console, plan.build)
    if written is None:
        click.echo(f"anabranch: {plan.folder} is not writable: no report was written", err=True)
    else:
        console.print(f"Report, tables and figures: {written}", soft_wrap=True, highlight=False)
        if page is not None:
            console.print(f"Page: {page}", soft_wrap=True, highlight=False)


def _print_notes(analysis: Analysis, console: Console, build: str) -> None:
    """Print the limits of an analysis: runs that are missing, of another build, or not valid."""
    from anabranch.report.terminal import other_builds, unreadable

    if text := unreadable(analysis):
        console.print(text, highlight=False, markup=False)
    if analysis.stale:
        console.print(
            f"{analysis.stale} stored runs belong to another form, an earlier state of the study or another build: "
            "not used."
        )
    if analysis.builds - {build}:
        console.print(other_builds(analysis, build), highlight=False)
    if analysis.overloaded:
        console.print(
            f"{counted(analysis.overloaded, 'run was', 'runs were')} on a machine that did not keep up: "
            "such results are not valid for these networks."
        )
    for note in analysis.undefined:
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    if analysis.silences:
        console.print(
            f"{counted(len(analysis.silences), 'run has', 'runs have')} a flow without data or a flow that fell back "
            f"to plain TCP, the first: {analysis.silences[0]}",
            highlight=False,
            markup=False,
        )
    if analysis.missing and not analysis.is_interim:
        console.print(f"{counted(analysis.missing, 'run is', 'runs are')} missing; go on with --resume.")


def _print_store_notes(outcome: Outcome) -> None:
    """Print notes on the store to stderr."""
    for note in outcome.notes:
        click.echo(f"anabranch: {note}", err=True)
    if outcome.reused:
        click.echo(f"anabranch: {outcome.reused} of {outcome.total} runs were there already", err=True)


def _check(outcome: Outcome, plan: Plan) -> None:
    """Raise an error if runs failed; exit with status 130 after an interrupt."""
    if outcome.failures:
        for failure in outcome.failures[1:_SHOWN_FAILURES]:
            click.echo(f"anabranch: {failure}", err=True)
        raise RunFailed(f"{len(outcome.failures)} of {outcome.total} runs broke off, the first: {outcome.failures[0]}")
    if outcome.interrupted:
        done = outcome.reused + outcome.finished
        click.echo(
            f"anabranch: interrupted; {done} of {outcome.total} runs are in {plan.folder}, go on with --resume",
            err=True,
        )
        raise click.exceptions.Exit(130)
