"""Tables for people at a terminal: one run, or every point of a study."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.text import Text

from anabranch.coverage import named
from anabranch.printable import printable
from anabranch.quantities import counted
from anabranch.report.run_tables import number, sheets
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.uncoupled import uncoupled
from anabranch.sweep import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from anabranch._core.document import Document, HostFacts
    from anabranch.results import Result
    from anabranch.stats import Estimate
    from anabranch.study.analysis import Analysis
    from anabranch.study.claims import Measured, Verdict
    from anabranch.study.deviations import Comparison


def print_result(result: Result, console: Console) -> None:
    """Print the result of one run."""
    for sheet in sheets(result.document):
        sheet.print(console)
    for line in sentences(result):
        say(console, line)


def sentences(result: Result) -> list[str]:
    """The sentences on a run below its tables; the last one has seed and digest."""
    document = result.document
    lines = [*_possible(result), *result.diagnostics, *result.remarks, *_likely_cause(document), *uncoupled(document)]
    jain = f"Jain's index {number(document['jain'], 1.0, 4)} · seed {document['seed']}"
    host = document.get("host")
    if host:
        return [*lines, *_machine(host), jain]
    events = f"{document['events']:,} events in {document['wall_s']:.2f} s"
    return [*lines, f"{jain} · digest {document['digest']} · {events}"]


def _likely_cause(document: Document) -> list[str]:
    """The likely cause that slows down the first flow with several paths; empty if the run shows none."""
    from anabranch.explain.likely import likely_cause

    # Results of early versions do not contain their scenario.
    cause = likely_cause(document) if "scenario" in document else None
    return [] if cause is None else [f'{cause} "anabranch explain" runs remedies and measures their gains.']


def _machine(host: HostFacts) -> list[str]:
    """State of the machine on which a run took place."""
    late = host["lateness"]
    share = round(100 * host["stolen"])
    stolen = f", {share} % of their time taken by the hypervisor" if share else ""
    lines = [
        f"Linux {host['kernel']}, load {host['load'][0]:.1f} before and {host['load'][1]:.1f} after on {host['cpus']} "
        f"processors{stolen}. The network handed {late['packets']:,} packets out {1e6 * late['mean_s']:.0f} µs late on "
        f"average, {1e6 * late['p99_s']:.0f} µs at the 99 % quantile, {1e3 * late['max_s']:.1f} ms at most."
    ]
    if late["overloaded"]:
        lost = f", and {late['lost']:,} packets were lost before it" if late["lost"] else ""
        lines.append(
            f"THE MACHINE DID NOT KEEP UP: {100 * late['late_share']:.1f} % of the packets were more than 1 ms late"
            f"{lost}. These are not the results of this network."
        )
    return [*lines, *host["differences"]]


def say(console: Console, sentence: str) -> None:
    """Print a sentence, wrapped at a terminal and on one line elsewhere."""
    console.print(printable(sentence), highlight=False, markup=False, soft_wrap=not console.is_terminal)


def _possible(result: Result) -> list[str]:
    """Sum of the goodputs of all flows, and the sum that their links could carry."""
    flows = result.document["flows"]
    possible = result.possible_bps() if len(flows) > 1 else None
    if possible is None:
        return []
    together = sum(flow["goodput_bps"] for flow in flows)
    return [f"Together: {together * 1e-6:.3f} of {possible * 1e-6:.1f} Mbit/s possible."]


def print_points(analysis: Analysis, console: Console) -> None:
    """Print every point of a study: ours, published, deviation and interval; then the distribution of deviations."""
    study = analysis.study
    if text := interim(analysis):
        say(console, text)
    say(console, form(analysis))
    for experiment in study.experiments.values():
        chosen = [c for c in analysis.comparisons if c.point.experiment == experiment.name]
        if chosen:
            _points(analysis, experiment.title, experiment.over, chosen).print(console)
    say(console, analysis.intervals)
    if analysis.summaries:
        _summaries(analysis).print(console)
    if analysis.verdicts:
        _verdicts(analysis).print(console)
        say(console, tally(analysis))
    for sentence in absences(analysis):
        say(console, sentence)


def _points(analysis: Analysis, title: str, over: Iterable[str], comparisons: list[Comparison]) -> Sheet:
    study = analysis.study
    metric = study.metrics[study.tabulated]
    has_published = any(c.published is not None for c in comparisons)
    parameters = [study.parameters[name] for name in over]
    columns = [Column(f"{p.name}\n{p.unit}".rstrip(), words=isinstance(p.values[0], str)) for p in parameters]
    columns += [
        Column("flow", words=True),
        Column(f"ours\n{metric.unit}".rstrip()),
        Column(confidence(c.ours for c in comparisons)),
    ]
    if has_published:
        columns += [Column("pub-\nlished"), Column("devia-\ntion")]
    sheet = Sheet(columns, title)
    for c in comparisons:
        label = study.experiments[c.point.experiment].flow_label(c.subject, c.point.values)
        row = [plain(c.point.values[p.name]) for p in parameters]
        row += [label, number(c.ours.centre, 1.0, 2), interval(c.ours)]
        if has_published:
            row += [as_published(c.published), percent(c.deviation)]
        sheet.add(*row)
    return sheet


def _summaries(analysis: Analysis) -> Sheet:
    published = analysis.study.published
    tolerance = published.sum_tolerance if published is not None else 0.0
    headings = ("median", "90 %", "worst", "≤ 10 %", f"sums\n± {100 * tolerance:.0f} %", "as\nprinted", "sums,\nmedian")
    sheet = Sheet([Column("group", words=True), *map(Column, headings)], "Deviations from published values")
    for s in analysis.summaries:
        sheet.add(
            s.group, f"{100 * s.median:.1f} %", f"{100 * s.p90:.1f} %", f"{100 * s.largest:.1f} %",
            share(s.within_tenth), share(s.sums_agree), share(s.sums_agree_as_printed),
            percent(s.sum_median),
        )  # fmt: skip
    return sheet


def _verdicts(analysis: Analysis) -> Sheet:
    headings = ("statement", "expected", "measured", "outcome")
    sheet = Sheet([Column(heading, words=True) for heading in headings], "Published statements")
    for verdict in analysis.verdicts:
        style = {"pass": "green", "fail": "red"}.get(verdict.outcome, "dim")
        outcome = Text(verdict.outcome, style)
        sheet.add(verdict.claim.id, expectation(verdict.claim), "\n".join(measurements(verdict)), outcome)
    return sheet


def tally(analysis: Analysis) -> str:
    """A sentence on how many published statements hold, and how many a longer form has to decide."""
    counts = Counter(verdict.outcome for verdict in analysis.verdicts)
    others = ", ".join(f"{counts[o]} {o}" for o in ("fail", "undecided", "incomplete", "not run") if counts[o])
    more = Counter(str(v.claim.needs) for v in analysis.verdicts if v.outcome == "needs more")
    needs = "".join(f"; {count} need{'s' if count == 1 else ''} {what}" for what, count in more.items())
    return f"{counts['pass']} of {len(analysis.verdicts)} statements pass{f' ({others})' if others else ''}{needs}."


def form(analysis: Analysis) -> str:
    """A sentence on the form of the study in a report, and on a lack of published values."""
    count = len(analysis.runs)
    text = f"{analysis.effort.name.capitalize()} form: {count} runs of {count + analysis.missing}."
    has_values = any(c.published is not None for c in analysis.comparisons)
    if analysis.study.published is not None and not has_values:
        text += " No published value belongs to a point of this form."
    elif not has_values and not analysis.study.claims:
        text += " The study has no published values."
    return text


def interim(analysis: Analysis) -> str:
    """A sentence on a study that is still running; empty for any other."""
    return "Interim report: the study is still running, and more runs will come." if analysis.is_interim else ""


def measurements(verdict: Verdict) -> list[str]:
    """The measurements of a claim, and the missing ones, one line each."""
    several = len({m.outcome for m in verdict.measured}) > 1
    return [*(_measurement(m, several) for m in verdict.measured), *verdict.gaps]


def _measurement(measured: Measured, several: bool) -> str:
    """A value with its interval, its point and, if outcomes differ between points, its outcome."""
    ends = measured.interval
    if not measured.runs:
        reach = ""
    else:
        reach = ", no interval" if ends is None else f" [{ends.low:.2f}, {ends.high:.2f}]"
        reach += "" if ends is None or math.isnan(ends.coverage) else f" ({named(ends.coverage)})"
        reach += f", n = {measured.count} of {measured.runs} runs"
    return f"{measured.value:.2f}{reach} ({measured.where})" + (f": {measured.outcome}" if several else "")


def expectation(claim: Any) -> str:
    """The expected value of a claim as a short text."""
    words = (claim.extreme, {"std": "standard deviation"}.get(claim.statistic, claim.statistic))
    of = " ".join(word for word in (*words, "without sign" if claim.absolute else "") if word)
    return f"{_expected(claim)} ({of})" if of else _expected(claim)


def _expected(claim: Any) -> str:
    match claim.kind:
        case "at_least":
            return f"≥ {claim.expect:g}"
        case "at_most":
            return f"≤ {claim.expect:g}"
        case "order":
            return "difference > 0"
        case "ratio":
            return f"ratio {claim.expect:g} ± {claim.tolerance:g}"
        case "difference":
            return f"difference {claim.expect:g} ± {claim.tolerance:g}"
        case _:
            return f"{claim.expect:g} ± {claim.tolerance:g}"


def other_builds(analysis: Analysis, build: str) -> str:
    """A sentence on runs of other builds than the one at hand."""
    shown = ", ".join(f"{b} ({sum(r.build == b for _, r in analysis.runs)})" for b in sorted(analysis.builds))
    return f"Not all runs are of this build of the simulator, {build}; runs by build: {shown}."


def unreadable(analysis: Analysis) -> str:
    """A sentence on stored runs of another layout; empty if there are none."""
    from anabranch.study.store import describe_unreadable

    return describe_unreadable(analysis.unreadable)


def as_published(value: float | None) -> str:
    """A published value with all its digits; a dash where there is none."""
    return "–" if value is None else plain(value)


def share(value: float) -> str:
    """A share in whole percent; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def absences(analysis: Analysis) -> list[str]:
    """A sentence for each figure with values that it cannot show, or that some or all of its runs lack."""
    # Matplotlib, which other users of this module do not need.
    from anabranch.plot.panels import unshown
    from anabranch.study.claims import listed

    sentences = []
    for figure in analysis.study.figures:
        if absent := analysis.absent(figure):
            sentences.append(f'Figure "{figure.name}" asks for {", ".join(absent)}, which no run has.')
        if ended := analysis.ended(figure):
            lasts = max(analysis.duration_s(point) for point in ended)
            sentences.append(
                f'Figure "{figure.name}" leaves out {counted(len(ended), "run")}: its window begins at '
                f"{figure.window[0]:g} s, and no such run lasts longer than {lasts:g} s."
            )
        if count := unshown(figure, analysis):
            sentences.append(
                f'Figure "{figure.name}" leaves out {counted(count, "value")} not above 0: its axis is logarithmic.'
            )
        if partial := analysis.partial(figure):
            sentences.append(f'Figure "{figure.name}" leaves out runs without a value: {listed(partial)}.')
    return sentences


def interval(ours: Estimate) -> str:
    """An interval: its half width if it lies around the centre, or else its ends; a dash for a single run."""
    if ours.all_equal:
        return "all equal"
    if math.isnan(ours.low + ours.high):
        return "–"
    return f"± {ours.high - ours.centre:.2f}" if ours.interval == "t" else f"{ours.low:.2f} – {ours.high:.2f}"


def confidence(estimates: Iterable[Estimate]) -> str:
    """Heading of the intervals: their least coverage."""
    worth = [e.confidence for e in estimates if not math.isnan(e.confidence)]
    return f"{named(min(worth))} CI" if worth else "CI"


def percent(share: float | None) -> str:
    """A signed share in percent; a dash where there is none."""
    return "–" if share is None or math.isnan(share) else f"{100 * share:+.1f} %"
