"""`anabranch run`: one scenario, once."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch._core.simulator import LARGEST_SEED, Capture
from anabranch._core.worlds import WORLDS
from anabranch.cli import paths
from anabranch.cli.grouped import GroupedCommand
from anabranch.errors import InputError
from anabranch.extras import require
from anabranch.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch._core.worlds import World
    from anabranch.results import PlotKind, Result
    from anabranch.scenario import Scenario


_LONG_RUN_S = 30.0
"""Estimated duration from which a message announces a long run."""


@click.command(
    cls=GroupedCommand,
    headings={"Plot": ["--plot"], "Trace": ["--trace"], "Capture": ["--pcap"]},
    short_help="Run a scenario once and print its results",
)
@click.argument("scenario", type=click.Path(allow_dash=True))
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True,
    help='Change a setting, e.g. link.beta.rate="20 Mbit/s" or flow.F0.congestion=olia. May be repeated.',
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, LARGEST_SEED), help="Seed of all random streams.")
@click.option(
    "--world", type=click.Choice(WORLDS), default="sim", show_default=True,
    help="Where to run it: simulated; in real time in user space; or in real time with Linux's own protocols.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON instead of tables.")
@click.option("--trace", metavar="DIR", help="Write windows, round-trip times and queues over time there, as CSV.")
@click.option("--pcap", metavar="FILE", help="Write a capture of every link end, in pcapng format.")
@click.option("--trace-changes", is_flag=True, help="With --trace, write every change instead of a sample every 10 ms.")
@click.option(
    "--pcap-snaplen", metavar="BYTES", type=click.IntRange(1, 65_575), help="Keep at most BYTES of each packet."
)
@click.option(
    "--pcap-end", "ends", metavar="NODE[:LINK]", multiple=True,
    help="Capture this link end, link or node only. May be repeated.",
)  # fmt: skip
@click.option("--pcap-flow", "flows", metavar="FLOW", multiple=True, help="Capture this flow only. May be repeated.")
@click.option(
    "--plot", metavar="FILE", help="Draw windows and buffers over time there, as PNG, SVG or PDF by the name's ending."
)
@click.option(
    "--plot-kind", type=click.Choice(["windows", "sequences", "goodput", "rtt", "queues", "limits"]),
    show_default="windows",
    help="Draw windows and buffers, data sequence numbers, goodput, round trips, queues or times by cause.",
)  # fmt: skip
@click.option(
    "--plot-window", metavar="FROM TO", nargs=2, type=click.FloatRange(min=0.0), default=None,
    help="With --plot, from when to when in seconds; the whole run by default.",
)  # fmt: skip
@click.option("--html", "page", metavar="FILE", help="Write tables and figures there as a page in one file, too.")
@click.option("--record", metavar="FILE", help="With --world user, write a recording there for anabranch replay.")
@click.option("--check-wire", is_flag=True, help="Encode and re-parse every packet on the way.")
@paths.option
def run(
    scenario: str,
    settings: tuple[str, ...],
    seed: int | None,
    world: World,
    as_json: bool,
    trace: str | None,
    trace_changes: bool,
    pcap: str | None,
    pcap_snaplen: int | None,
    ends: tuple[str, ...],
    flows: tuple[str, ...],
    plot: str | None,
    plot_kind: PlotKind | None,
    plot_window: tuple[float, float] | None,
    page: str | None,
    record: str | None,
    check_wire: bool,
    allow_paths: bool,
) -> None:
    """Run SCENARIO, a TOML file or "-" for standard input, and print the result."""
    from rich.console import Console

    from anabranch.cli.progress import of_share
    from anabranch.execution import run as run_scenario
    from anabranch.report.terminal import print_result

    _check_page(page)
    if trace is None and trace_changes:
        raise InputError("--trace-changes needs a folder for the traces; add --trace DIR")
    _check_plot(plot, plot_kind, plot_window)
    capture = _capture(pcap, pcap_snaplen, ends, flows)
    if world == "kernel":
        from anabranch.testbed import rootless

        rootless.restart_in_user_namespace()
    chosen = read_scenario(scenario, allow_paths=allow_paths).with_settings(settings)
    if plot is not None:
        from anabranch.plot.style import check_figure

        check_figure(plot)
    if plot_window is not None:
        _check_window(plot_window, chosen)
    _announce(chosen, is_silent=as_json or world != "sim")
    with _traces(trace, wanted=page is not None or (plot is not None and plot_kind != "limits")) as folder:
        with of_share("running") as progress:
            result = run_scenario(
                chosen, seed=seed, trace=folder, pcap=capture, check_wire=check_wire, trace_changes=trace_changes,
                world=world, record=record, progress=progress,
            )  # fmt: skip
        if plot is not None:
            result.plot(plot, kind=plot_kind or "windows", window=plot_window or (0.0, 0.0))
        if page is not None:
            _write_page(result, chosen, Path(page))
    if as_json:
        click.echo(json.dumps(result.document, indent=2))
    else:
        print_result(result, Console())


def _write_page(result: Result, scenario: Scenario, file: Path) -> None:
    from anabranch.files import write_output
    from anabranch.report.run_page import page_of

    write_output(file, page_of(result, scenario))


def _announce(scenario: Scenario, *, is_silent: bool) -> None:
    """Print an estimate of the duration of a long run before it begins."""
    if is_silent:
        return
    from anabranch.forecast import is_surely_short, run_s, spoken

    expected_s = None if is_surely_short(scenario, _LONG_RUN_S) else run_s(scenario)
    if expected_s is not None and expected_s > _LONG_RUN_S:
        click.echo(f"anabranch: the run takes about {spoken(expected_s)}, by the rates of its links", err=True)


def _check_page(page: str | None) -> None:
    """Refuse a page that could not be written after the run."""
    if page is None:
        return
    require("plot", "--html")
    if not page or Path(page).is_dir():
        raise InputError(f'--html needs the name of a file, not "{page}"')
    check_folder(Path(page))


def _check_plot(plot: str | None, kind: str | None, window: tuple[float, float] | None) -> None:
    """Refuse options of a figure that contradict each other."""
    if plot is None and (window or kind):
        raise InputError("--plot-window and --plot-kind need --plot FILE")
    if window is not None and kind == "limits":
        raise InputError("--plot-window is for windows and sequences; --plot-kind limits covers the measured part")
    if window is not None and not window[0] < window[1] < math.inf:
        raise InputError("--plot-window ends before it begins; give it FROM and then TO, in seconds")


def _check_window(window: tuple[float, float], scenario: Scenario) -> None:
    """Refuse a window beyond the run before it begins."""
    from anabranch._core.simulator import Request, canonical
    from anabranch.fairness.capacity import seconds
    from anabranch.traces import span_of

    spelt_out = canonical(Request(scenario.text, scenario.file, scenario.overrides))
    span_of(window, seconds(spelt_out["duration"]))


def read_scenario(name: str, *, allow_paths: bool) -> Scenario:
    """The scenario of a file, or for "-" the one piped in: files that it names are relative to the current folder."""
    from anabranch.paths import check_traces
    from anabranch.scenario import Scenario

    if name != "-":
        return Scenario.from_file(name, allow_paths=allow_paths)
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", "standard input") from None
    if not allow_paths:
        check_traces(text, "standard input")
    return Scenario.from_toml(text, "standard input")


def _capture(pcap: str | None, snaplen: int | None, ends: tuple[str, ...], flows: tuple[str, ...]) -> Capture | None:
    """The capture that the options ask for."""
    if pcap is not None:
        return Capture(pcap, snaplen, ends, flows)
    if snaplen or ends or flows:
        raise InputError("--pcap-end, --pcap-flow and --pcap-snaplen need --pcap FILE")
    return None


@contextmanager
def _traces(folder: str | None, *, wanted: bool) -> Iterator[str | None]:
    """The folder for traces: the user's, or one for the time of drawing, or none."""
    if folder is not None or not wanted:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-") as temporary:
        yield temporary
