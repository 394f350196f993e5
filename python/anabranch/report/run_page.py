"""The result of one run as a page in one file: tables, figures with values under the pointer, the scenario."""

from __future__ import annotations

import html
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from anabranch.errors import InputError
from anabranch.html import downloadable, paragraph
from anabranch.html.figure import embed
from anabranch.html.page import page
from anabranch.report.run_tables import sheets
from anabranch.report.terminal import sentences
from anabranch.results import PlotKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.results import Result
    from anabranch.scenario import Scenario

_HEADINGS: dict[PlotKind, str] = {
    "windows": "Congestion windows, bytes in flight and buffers",
    "goodput": "Goodput",
    "rtt": "Round-trip times",
    "queues": "Lengths of queues",
    "limits": "Time by the cause that limited each path",
}
"""Kinds of plots in a page; sequence numbers need a short window instead of the whole run."""


def page_of(result: Result, scenario: Scenario) -> str:
    """The result as the text of a page.

    Args:
        result: A result with traces.
        scenario: The scenario that was run.

    """
    title = str(result.document["title"])
    file = Path(scenario.file).name if scenario.file.endswith(".toml") else "scenario.toml"
    words = ["anabranch", "run", file]
    for override in scenario.overrides:
        words += ["--set", override]
    world = [] if result.document["world"] == "sim" else ["--world", str(result.document["world"])]
    command = shlex.join([*words, *world, "--seed", str(result.seed)])
    parts = [f"<h1>{html.escape(title)}</h1>", f"<pre>{html.escape(command)}</pre>"]
    parts += [sheet.html() for sheet in sheets(result.document)]
    parts += map(paragraph, sentences(result))
    parts += ["<h2>Figures</h2>", *_figures(result)]
    parts += ["<h2>Scenario</h2>", downloadable(file, scenario.text)]
    return page(title, "\n".join(parts))


def _figures(result: Result) -> Iterator[str]:
    """The figures of a run; a sentence for each that its world or its protocols do not have."""
    for kind in (kind for kind in get_args(PlotKind) if kind in _HEADINGS):
        title = _HEADINGS[kind]
        yield f"<h3>{html.escape(title)}</h3>"
        try:
            yield f"<figure>{embed(result.plot(kind=kind), kind, title).svg}</figure>"
        except InputError as error:
            yield paragraph(error.message, "dim")
