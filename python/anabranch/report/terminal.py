"""Tables for people at a terminal: one run, or every point of a study."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from anabranch.metrics import METRICS
from anabranch.sweep import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from anabranch.results import Result
    from anabranch.study.analysis import Analysis, Comparison
    from anabranch.study.claims import Verdict


def print_result(result: Result, console: Console) -> None:
    """Print what came out of one run."""
    document = result.document
    console.print(_flows(document))
    console.print(_links(document))
    events = int(document["events"])
    console.print(
        f"Jain's index {number(document['jain'], 1.0, 4)} · seed {document['seed']} · digest {document['digest']} · "
        f"{events:,} events in {document['wall_s']:.2f} s"
    )


def narrow_table(title: str | None = None) -> Table:
    """An empty table without vertical rules, so that many columns fit 80 characters."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,
    )


def _column(table: Table, heading: str, *, left: bool = False) -> None:
    table.add_column(heading, justify="left" if left else "right", no_wrap=True)


def _keep_numbers(table: Table) -> Table:
    """Let a narrow terminal cut words short, never numbers."""
    for column in table.columns:
        if column.justify == "right":
            lines = [line for cell in (column.header, *column.cells) for line in str(cell).split("\n")]
            column.min_width = max(len(line) for line in lines)
    return table


def _flows(document: dict[str, Any]) -> Table:
    table = narrow_table(str(document.get("title", "")))
    for heading in ("Flow", "Protocol"):
        _column(table, heading, left=True)
    for heading in ("Goodput\nMbit/s", "Sent\nMbit/s", "Retr.", "RTOs", "SRTT\nms",
                    "Window\nkB", "Delay\np95 ms"):  # fmt: skip
        _column(table, heading)
    for flow in document["flows"]:
        paths = flow["paths"]
        single = paths[0] if len(paths) == 1 else {}
        table.add_row(
            flow["name"],
            " ".join(part for part in (flow["protocol"], flow["congestion"]) if part),
            number(flow["goodput_bps"], 1e-6, 3),
            number(flow["throughput_bps"], 1e-6, 3),
            str(sum(p["retransmissions"] for p in paths)),
            str(sum(p["timeouts"] for p in paths)),
            number(single.get("srtt_mean_s"), 1e3, 1),
            number(single.get("cwnd_mean_bytes"), 1e-3, 1),
            number((flow.get("delivery_delay_s") or {}).get("p95"), 1e3, 1),
        )
        for path in paths if len(paths) > 1 else []:
            table.add_row(
                f"  {path['name']}",
                "",
                number(path["goodput_bps"], 1e-6, 3),
                number(path["throughput_bps"], 1e-6, 3),
                str(path["retransmissions"]),
                str(path["timeouts"]),
                number(path["srtt_mean_s"], 1e3, 1),
                number(path["cwnd_mean_bytes"], 1e-3, 1),
                "",
                style="dim",
            )
    return _keep_numbers(table)


def _links(document: dict[str, Any]) -> Table:
    table = narrow_table()
    for heading in ("Link", "Direction", "Packets", "Utilisation", "Queue\npackets", "Drops", "by cause"):
        _column(table, heading, left=heading in ("Link", "Direction", "by cause"))
    for link in document["links"]:
        if not link["packets"] and not link["drops"]:
            continue
        causes = ", ".join(f"{cause} {count:,}" for cause, count in link["drops_by_cause"].items() if count)
        table.add_row(
            link["name"],
            link["direction"],
            f"{link['packets']:,}",
            f"{100 * link['utilisation']:.1f} %",
            f"{link['occupancy']['mean']:.1f}",
            f"{link['drops']:,}",
            causes,
        )
    return _keep_numbers(table)


def print_points(analysis: Analysis, console: Console) -> None:
    """Print every point of a study: ours, published, deviation and interval; then the distribution of deviations."""
    study = analysis.study
    for experiment in study.experiments.values():
        chosen = [c for c in analysis.comparisons if c.point.experiment == experiment.name]
        if chosen:
            console.print(_points(analysis, experiment.title, experiment.over, chosen))
    if analysis.summaries:
        console.print(_summaries(analysis))
    if analysis.verdicts:
        console.print(_verdicts(analysis))
        console.print(tally(analysis), highlight=False)
    for sentence in absences(analysis):
        console.print(sentence, highlight=False, markup=False)


def _points(analysis: Analysis, title: str, over: Iterable[str], comparisons: list[Comparison]) -> Table:
    study = analysis.study
    metric = METRICS[study.published.metric if study.published is not None else study.metric]
    has_published = any(c.published is not None for c in comparisons)
    table = narrow_table(title)
    for name in over:
        parameter = study.parameters[name]
        _column(table, f"{name}\n{parameter.unit}".rstrip(), left=isinstance(parameter.values[0], str))
    _column(table, "flow", left=True)
    for heading in (f"ours\n{metric.unit}".rstrip(), "95 % CI"):
        _column(table, heading)
    if has_published:
        _column(table, "pub-\nlished")
        _column(table, "devia-\ntion")
    for c in comparisons:
        label = study.experiments[c.point.experiment].flow_label(c.subject, c.point.values)
        row = [plain(c.point.values[name]) for name in over]
        row += [label, number(c.ours.centre, 1.0, 2), interval(c.ours.half_width)]
        if has_published:
            row += [as_published(c.published), percent(c.deviation)]
        table.add_row(*row)
    return _keep_numbers(table)


def _summaries(analysis: Analysis) -> Table:
    published = analysis.study.published
    tolerance = published.sum_tolerance if published is not None else 0.0
    table = narrow_table("Deviations from published values")
    _column(table, "group", left=True)
    for heading in (
        "median",
        "90 %",
        "worst",
        "≤ 10 %",
        f"sums\n± {100 * tolerance:.0f} %",
        "as\nprinted",
        "sums,\nmedian",
    ):
        _column(table, heading)
    for s in analysis.summaries:
        table.add_row(
            s.group, f"{100 * s.median:.1f} %", f"{100 * s.p90:.1f} %", f"{100 * s.largest:.1f} %",
            share(s.within_tenth), share(s.sums_agree), share(s.sums_agree_as_printed),
            percent(s.sum_median),
        )  # fmt: skip
    return _keep_numbers(table)


def _verdicts(analysis: Analysis) -> Table:
    table = narrow_table("Published statements")
    for heading in ("statement", "expected", "measured", "outcome"):
        table.add_column(heading)
    for verdict in analysis.verdicts:
        style = {"pass": "green", "fail": "red"}.get(verdict.outcome, "dim")
        measured = "\n".join(measurements(verdict))
        table.add_row(verdict.claim.id, expectation(verdict.claim), measured, f"[{style}]{verdict.outcome}[/]")
    return _keep_numbers(table)


def tally(analysis: Analysis) -> str:
    """A sentence on how many published statements hold."""
    passed = sum(v.outcome == "pass" for v in analysis.verdicts)
    others = [f"{sum(v.outcome == o for v in analysis.verdicts)} {o}" for o in ("fail", "incomplete", "not run")]
    rest = ", ".join(text for text in others if not text.startswith("0 "))
    return f"{passed} of {len(analysis.verdicts)} statements pass{f' ({rest})' if rest else ''}."


def measurements(verdict: Verdict) -> list[str]:
    """What was measured for a claim, and what was not, one line each."""
    return [*(f"{m.value:.2f} ({m.where})" for m in verdict.measured), *verdict.gaps]


def expectation(claim: Any) -> str:
    """What a claim expects, in short."""
    match claim.kind:
        case "at_least":
            return f"≥ {claim.expect:g}"
        case "at_most":
            return f"≤ {claim.expect:g}"
        case "order":
            return "difference > 0"
        case "ratio":
            return f"ratio {claim.expect:g} ± {claim.tolerance:g}"
        case _:
            return f"{claim.expect:g} ± {claim.tolerance:g}"


def other_builds(analysis: Analysis, build: str) -> str:
    """A sentence on runs of other builds than the one at hand."""
    shown = ", ".join(f"{b} ({sum(r.build == b for _, r in analysis.runs)})" for b in sorted(analysis.builds))
    return f"Not all runs are of this build of the simulator, {build}; runs by build: {shown}."


def number(value: float | None, scale: float, digits: int) -> str:
    """A number in another unit; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value * scale:.{digits}f}"


def as_published(value: float | None) -> str:
    """A published value with all its digits; a dash where there is none."""
    return "–" if value is None else plain(value)


def share(value: float) -> str:
    """A share in whole percent; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def absences(analysis: Analysis) -> list[str]:
    """A sentence for each figure that asks for what no run has."""
    asked = ((figure.name, analysis.absent(figure)) for figure in analysis.study.figures)
    return [f'Figure "{name}" asks for {", ".join(absent)}, which no run has.' for name, absent in asked if absent]


def interval(half_width: float) -> str:
    """Half width of an interval; a dash for a single run."""
    return "–" if math.isnan(half_width) else f"± {half_width:.2f}"


def percent(share: float | None) -> str:
    """A signed share in percent; a dash where there is none."""
    return "–" if share is None or math.isnan(share) else f"{100 * share:+.1f} %"
