"""Advice at the terminal: a sentence, a ranked table, the cost to competing TCP, and the commands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.coverage import named
from anabranch.report.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

    from anabranch.advise.search import Advice, Row

_MAX_ROWS = 8


def print_advice(advice: Advice, console: Console) -> None:
    """Print the answer, the ranking, the cost to others, and the commands."""
    say(console, _answer(advice))
    console.print()
    for number, row in enumerate(_shown(advice), 1):
        say(console, f"{number}. {_line(row)}")
    console.print()
    for link, (before, after) in advice.competitors.items():
        say(
            console,
            f'A competing TCP flow on "{link}" has {before * 1e-6:.3g} Mbit/s next to today\'s settings and '
            f"{after * 1e-6:.3g} Mbit/s next to the advised ones.",
        )
    if advice.commands:
        console.print()
        for command in advice.commands:
            console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
        console.print()
    limit = "" if advice.is_complete else " The time limit ended the search early; a larger --time-limit continues it."
    say(console, f"{advice.runs} runs in {advice.elapsed_s:.1f} s.{limit}")


def _answer(advice: Advice) -> str:
    best, unit = advice.best, advice.best.measured.objective.unit
    name = best.measured.objective.name
    if advice.leaves_it:
        text = f'Leave "{advice.flow}" as it is: {name} {best.value:.3g} {unit}, and no other setting is better'
    else:
        text = f'Set for "{advice.flow}": {best.choice.label}. {best.measured.sentence}'
    if advice.over_single is not None:
        text += f"; {100.0 * advice.over_single:+.0f} % against the best single link"
    return f"{text}."


def _shown(advice: Advice) -> list[Row]:
    """The best rows, and always the advised one, today's settings and single links."""
    needed = [row for row in advice.rows if row.is_single_link or not row.choice.changes or row is advice.best]
    free = [row for row in advice.rows if row not in needed][: max(0, _MAX_ROWS - len(needed))]
    return [row for row in advice.rows if row in needed or row in free]


def _line(row: Row) -> str:
    unit, bounds = row.measured.objective.unit, row.measured.interval
    gain = f"{100.0 * row.measured.relative:+.1f} %"
    if bounds is not None:
        share = "" if math.isnan(bounds.coverage) else f"{named(bounds.coverage)} "
        gain += f", {share}interval {100.0 * bounds.low:+.1f} % to {100.0 * bounds.high:+.1f} %"
    kind = " (one link alone)" if row.is_single_link else ""
    return f"{row.value:.3g} {unit} ({gain}): {row.choice.label}{kind}"
