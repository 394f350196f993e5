"""An explanation at the terminal: findings as sentences, and remedies that do not help as one line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.explain.remedies import WITHOUT_REMEDY
from anabranch.quantities import counted
from anabranch.report.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from anabranch.explain.explanation import Explanation
    from anabranch.explain.finding import Finding

_MIN_NAMED_GAIN = 0.005
"""Gain below which a remedy is not named."""


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print the flow, its findings, and the number and duration of the runs."""
    say(console, head(explanation))
    for number, finding in enumerate(explanation.findings, 1):
        console.print()
        say(console, f"{number}. {finding.sentence}")
    console.print()
    if explanation.others:
        say(console, summary_of_others(explanation.others))
    for note in explanation.notes:
        say(console, note)
    say(console, _runs(explanation))


def summary_of_others(others: Sequence[Finding]) -> str:
    """The number of remedies that do not help, and the best of them."""
    text = f"{counted(len(others), 'other remedy', 'other remedies')} brought less than 10 %"
    best = others[0]
    if best.net < _MIN_NAMED_GAIN:
        return f"{text}, none of them more than {100 * _MIN_NAMED_GAIN:g} %."
    return f"{text}; the largest gain of these is {100 * best.net:+.1f} %, by {best.command}."


def head(explanation: Explanation) -> str:
    """The flow and its present number."""
    if math.isinf(explanation.baseline):
        now = f"{explanation.objective}: no end within the run"
    else:
        now = f"{explanation.objective} {explanation.baseline:.3g} {explanation.unit}"
    possible = explanation.possible_bps
    carry = "" if possible is None else f"; its links carry {possible * 1e-6:.3g} Mbit/s"
    kind = explanation.first.kind
    verdict = "" if kind not in WITHOUT_REMEDY else f" – {WITHOUT_REMEDY[kind]}"
    return f'"{explanation.flow}": {now}{carry}{verdict}'


def _runs(explanation: Explanation) -> str:
    """Number and duration of the runs, and the remedies that the time limit left out."""
    text = f"{counted(explanation.runs, 'run')} in {explanation.elapsed_s:.1f} s."
    if len(explanation.findings) > 1 and explanation.findings[0].measured is not None:
        text = f"Each gain is that of one remedy alone, after the loss of other flows. {text}"
    if explanation.left_out:
        left_out = counted(explanation.left_out, "remedy", "remedies")
        text += f" The time limit left out {left_out}; a larger --time-limit runs more."
    return text
