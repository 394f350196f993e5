"""`anabranch bench --baseline`: instructions of short scenarios, compared with stored ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anabranch.errors import RunFailed

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.bench.instructions import Count, Stored


def count_instructions(baseline: Path | None, write_baseline: Path | None, as_json: bool) -> None:
    """Count instructions; write them, or compare them with stored ones.

    Raises:
        RunFailed: If a scenario needs more than 2 % more instructions per packet than stored.

    """
    from anabranch.bench import instructions

    known = instructions.stored(baseline) if baseline else None
    reason = _mismatch(known) if baseline else None
    if reason is not None:
        click.echo(f"skipped: {baseline}: {reason}; write new counts with --write-baseline", err=True)
        return
    counts = [instructions.count(name, request) for name, request in instructions.guarded().items()]
    if write_baseline is not None:
        instructions.store(write_baseline, counts)
    compared = instructions.compare(counts, known) if known else []
    growths = {c.count.name: c.growth for c in compared}
    if as_json:
        click.echo(json.dumps(_plain(counts, growths), indent=2))
    else:
        _print(counts, growths)
    failed = [f"{c.count.name} {c.growth:+.1%}" for c in compared if not c.is_met]
    if failed:
        raise RunFailed(
            f"{baseline}: more than {instructions.MAX_GROWTH:.0%} more instructions per packet: {', '.join(failed)}"
        )


def _mismatch(known: Stored | None) -> str | None:
    """Why the stored counts cannot be compared with counts of this build."""
    from anabranch._core.simulator import build_kind
    from anabranch.bench import instructions

    if known is None:
        return f"no counts of a {build_kind()} build"
    present = instructions.environment()
    if present != known.environment:
        return f"counts of {known.environment or 'an unknown compiler'}, not of {present or 'an unknown one'}"
    return None


def _print(counts: list[Count], growths: dict[str, float]) -> None:
    from rich.console import Console

    from anabranch.report.table_layout import Column, Sheet

    headings = ("Packets", "Instructions/\npacket", "Change", "Allocations/\npacket")
    sheet = Sheet([Column("Scenario", words=True), *map(Column, headings)], "Instructions, counted by valgrind")
    for c in counts:
        growth = f"{growths[c.name]:+.2%}" if c.name in growths else "–"
        sheet.add(c.name, f"{c.packets:,}", f"{c.per_packet:,.0f}", growth, f"{c.allocations / c.packets:.2f}")
    sheet.print(Console())


def _plain(counts: list[Count], growths: dict[str, float]) -> list[dict[str, object]]:
    return [
        {
            "name": c.name, "packets": c.packets, "instructions": c.instructions, "allocations": c.allocations,
            "growth": growths.get(c.name),
        }
        for c in counts
    ]  # fmt: skip
