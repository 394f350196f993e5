"""The table of a comparison at a terminal, and its conditions as JUnit XML."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from anabranch.coverage import named
from anabranch.metrics import METRICS, FairnessMetric
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from anabranch.comparison.compare import Comparison
    from anabranch.comparison.conditions import Check
    from anabranch.comparison.differences import Difference
    from anabranch.stats import Bounds

_ALWAYS_SHOWN_METRIC = "goodput"
"""Metric that the short table always shows."""
_STYLES = {"better": "green", "worse": "red"}
_CHANCE_SHARE = 0.05
"""Expected share of intervals that exclude 0 although there is no difference."""
_MIN_GROUPED_NUMBER = 10_000
"""Smallest number with separators of thousands instead of four significant digits."""


def print_comparison(comparison: Comparison, console: Console, *, every: bool, chosen: Collection[str] = ()) -> None:
    """Print a table for each side.

    Args:
        comparison: The comparison.
        console: The console.
        every: Whether to print rows without a shown difference, too.
        chosen: Names of the metrics that the user asked for; all of their rows are printed.

    """
    baseline = comparison.sides[0]
    for side in comparison.sides:
        role = "baseline" if side is baseline else "side"
        say(console, f"{role}: {side.name} ({_runs(side.count)}, {', '.join(sorted(side.worlds))})")
    for side in comparison.sides[1:]:
        rows = [row for row in comparison.differences if row.side == side.name]
        shown = [row for row in rows if every or _is_shown(row, chosen)]
        _sheet(shown, f"{side.name} against {baseline.name}").print(console)
        say(console, _about_intervals(rows))
        if len(shown) < len(rows):
            say(console, f"{len(rows) - len(shown)} more rows are not shown; --all shows them.")
    for note in comparison.notes:
        say(console, f"{note}.")


def _is_shown(row: Difference, chosen: Collection[str]) -> bool:
    """Whether a row is in the short table; metrics of fairness are not, since they follow from the goodputs."""
    if row.metric in chosen or row.metric == _ALWAYS_SHOWN_METRIC:
        return True
    return row.is_shown and not isinstance(METRICS[row.metric], FairnessMetric)


def _sheet(rows: Sequence[Difference], title: str) -> Sheet:
    has_points = any(row.point for row in rows)
    sheet = Sheet(
        [
            *([Column("Point", words=True)] if has_points else []),
            Column("Metric", words=True), Column("Subject", words=True), Column("Baseline", spare=2),
            Column("Side", spare=1), Column("Difference"), Column(f"{_coverage(rows)}interval".capitalize()),
            Column("Verdict", words=True),
        ],
        title,
    )  # fmt: skip
    for row in rows:
        metric = METRICS[row.metric]
        sheet.add(
            *([row.point] if has_points else []),
            f"{row.metric} [{metric.unit}]" if metric.unit else row.metric,
            row.subject,
            digits(row.baseline),
            digits(row.value),
            digits(row.difference, sign="+") if row.relative is None else f"{100 * row.relative:+.2f} %",
            _interval(row),
            row.verdict,
            style=_STYLES.get(row.verdict, ""),
        )
    return sheet


def _coverage(rows: Sequence[Difference]) -> str:
    """The least coverage of the intervals of some rows, empty if there are none; equal differences have no width."""
    found = [row.interval.coverage for row in rows if row.interval is not None and row.interval.low < row.interval.high]
    return f"{named(min(found))} " if found else ""


def _interval(row: Difference) -> str:
    """The interval as text; relative if the difference is relative."""
    if row.interval is None:
        return "–"
    if row.relative_interval is None:
        return f"{digits(row.interval.low, sign='+')} … {digits(row.interval.high, sign='+')}"
    return f"{_percent(row.relative_interval)} %"


def _percent(bounds: Bounds) -> str:
    return f"{100 * bounds.low:+.2f} … {100 * bounds.high:+.2f}"


def digits(value: float, sign: str = "") -> str:
    """A number with four significant digits, but without an exponent if it is large."""
    return f"{value:{sign},.0f}" if abs(value) >= _MIN_GROUPED_NUMBER else f"{value:{sign}.4g}"


def _runs(count: int) -> str:
    return f"{count:,} run{'s' * (count != 1)}"


def _about_intervals(rows: Sequence[Difference]) -> str:
    """The number of shown differences, and the number that chance explains."""
    usable = [row for row in rows if row.interval is not None and row.interval.low < row.interval.high]
    if not usable:
        if any(row.interval is None for row in rows):
            return "No intervals: they take runs with two or more seeds on each side."
        return "No difference varies between seeds."
    pairs = "paired by seed" if all(row.paired for row in usable) else "not paired: the seeds differ"
    if len({row.paired for row in usable}) > 1:
        pairs = "paired by seed where the seeds agree"
    count = sum(row.is_shown for row in usable)
    return (
        f"{count} of {len(usable)} intervals exclude 0 ({pairs}). Without any true difference about "
        f"{_CHANCE_SHARE * len(usable):.2g} would."
    )


def print_checks(checks: Sequence[Check], console: Console) -> None:
    """Print a line for each condition with the number of values that meet it."""
    for text in dict.fromkeys(check.condition.text for check in checks):
        own = [check for check in checks if check.condition.text == text]
        count = sum(check.met is True for check in own)
        undecided = sum(check.met is None for check in own)
        state = f"met by {count} of {len(own)} values" if count else "not met"
        say(console, f"condition {text}: {state}{f', {undecided} undecided' if undecided else ''}")


def junit(checks: Sequence[Check]) -> str:
    """The outcome of all conditions as JUnit XML: a suite for each condition, a failure where it is met."""
    root = ElementTree.Element("testsuites", name="anabranch compare")
    for text in dict.fromkeys(check.condition.text for check in checks):
        own = [check for check in checks if check.condition.text == text]
        suite = ElementTree.SubElement(
            root, "testsuite", name=text, tests=str(len(own)), failures=str(sum(check.met is True for check in own)),
            errors=str(sum(check.met is None for check in own)),
        )  # fmt: skip
        for check in own:
            part = check.part
            name = " ".join(word for word in (part.metric, part.subject, part.point) if word)
            case = ElementTree.SubElement(suite, "testcase", classname=part.side, name=name)
            if check.met is None:
                ElementTree.SubElement(case, "error", message=check.sentence)
            elif check.met:
                ElementTree.SubElement(case, "failure", message=check.sentence)
            else:
                ElementTree.SubElement(case, "system-out").text = check.sentence
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
