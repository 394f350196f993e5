"""Tables of speeds, as `anabranch bench` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from anabranch.bench.measure import Speed

_DECIMALS_BELOW = 10.0


def print_speeds(console: Console, title: str, speeds: Sequence[Speed]) -> None:
    """Print a table with a row per scenario."""
    from anabranch.report.table_layout import Column, Sheet

    headings = ("Packets", "Wall s", "Packets/s", "Events/s", "ns/packet", "Memory\nMiB", "Goodput\nMbit/s")
    sheet = Sheet([Column("Scenario", words=True), *map(Column, headings)], title)
    for s in speeds:
        goodputs = " + ".join(f"{g / 1e6:.1f}" for g in s.goodput_bps)
        if len(s.goodput_bps) > 4:  # noqa: PLR2004  a row has to fit a terminal
            goodputs = f"Σ {sum(s.goodput_bps) / 1e6:,.0f}"
        sheet.add(
            s.name, f"{s.packets:,}", f"{s.wall_s:.2f}", f"{s.packets_per_s:,.0f}", f"{s.events_per_s:,.0f}",
            f"{s.cost_ns:.0f}", f"{s.peak_bytes / 2**20:.0f}" if s.peak_bytes else "–", goodputs,
        )  # fmt: skip
    sheet.print(console)


def print_ratio(console: Console, simulator: str, ours: Speed, theirs: Speed) -> None:
    """Print the ratio of our speed to that of another simulator in the same scenario."""
    ratio = ours.packets_per_s / theirs.packets_per_s
    console.print(
        f"{ours.name}: {ratio:.{2 if ratio < _DECIMALS_BELOW else 0}f} times the packets per second of {simulator}; "
        f"sum of goodputs {sum(ours.goodput_bps) / sum(theirs.goodput_bps) - 1:+.1%}"
    )


def plain(speeds: Mapping[str, Sequence[Speed]]) -> dict[str, list[dict[str, object]]]:
    """Speeds as values for JSON."""
    return {name: [_row(speed) for speed in found] for name, found in speeds.items()}


def _row(speed: Speed) -> dict[str, object]:
    return {
        "name": speed.name, "packets": speed.packets, "events": speed.events, "wall_s": speed.wall_s,
        "packets_per_s": speed.packets_per_s, "events_per_s": speed.events_per_s, "peak_bytes": speed.peak_bytes,
        "goodput_bps": list(speed.goodput_bps),
    }  # fmt: skip
