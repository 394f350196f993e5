"""Captures at the terminal: a table of connections, one of subflows, oddities, unknown values and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.quantities import counted
from anabranch.report.table_layout import Column, Sheet
from anabranch.report.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from anabranch.explain.captured import Captures
    from anabranch.explain.observed import Finding, Observed, Part

_MAX_ROWS = 20
_MAX_ODDITIES = 12
_MAX_UNKNOWN = 8


def print_captures(captures: Captures, chosen: Observed, found: Sequence[Finding], console: Console) -> None:
    """Print all connections in short, and one of them with its subflows and findings."""
    for line in _files(captures):
        say(console, line)
    if len(captures.connections) > 1:
        _connections(captures).print(console)
    console.print()
    say(console, _head(chosen))
    _subflows(chosen).print(console)
    for line in (*_times(chosen), *_oddities(chosen), *_unknown(chosen)):
        say(console, line)
    for number, finding in enumerate(found, 1):
        console.print()
        confidence = f", confidence {100 * finding.confidence:.0f} %" if finding.confidence else ""
        remedy = f" {finding.remedy}" if finding.remedy else ""
        say(console, f"{number}. {finding.sentence}{remedy} ({finding.basis}{confidence})")


def _files(captures: Captures) -> list[str]:
    document = captures.document
    lines = [
        f"{counted(document['packets'], 'packet')} of TCP and SCTP in {captures.duration_s:.3g} s, "
        f"{counted(len(captures.connections), 'connection')}."
    ]
    lines += [f"{file['name']} {file['broken']}." for file in document["files"] if file["broken"]]
    if document["skipped"]:
        parts = ", ".join(f"{each['packets']:,} {each['reason']}" for each in document["skipped"][:4])
        lines.append(f"Not read: {parts}.")
    if document["left_out"]:
        left = f"{counted(document['left_out'], 'connection')} with the fewest bytes"
        lines.append(f"Left out, to bound memory: {left}, {document['left_out_bytes']:,} bytes of data.")
    return lines


def _connections(captures: Captures) -> Sheet:
    words = [Column("Client", words=True), Column("Server", words=True)]
    numbers = [Column(name) for name in ("Subflows", "Data\n[kB]", "Goodput\n[Mbit/s]", "Retransm.\n[%]")]
    sheet = Sheet([Column("No."), Column("Protocol", words=True), *words, *numbers])
    for each in captures.connections[:_MAX_ROWS]:
        client, server = each.entry["ends"]
        total = sum(direction["bytes"] for direction in each.entry["directions"])
        sheet.add(
            str(each.number), each.protocol, client, server, str(len(each.parts)), f"{total / 1e3:,.1f}",
            f"{each.goodput_bps * 1e-6:.3f}", f"{100 * each.retransmitted_share:.2f}",
        )  # fmt: skip
    return sheet


def _head(chosen: Observed) -> str:
    client, server = chosen.entry["ends"]
    way = "from server to client" if chosen.way else "from client to server"
    known = "" if chosen.entry["has_handshake"] else ", without its handshake"
    return (
        f"Connection {chosen.number} ({chosen.protocol}{known}): client {client}, server {server}. "
        f"{chosen.data['bytes']:,} bytes {way} in {chosen.lasts_s:.3f} s, {chosen.goodput_bps * 1e-6:.3f} Mbit/s."
    )


def _subflows(chosen: Observed) -> Sheet:
    columns = [
        Column("Path" if chosen.protocol == "sctp" else "Subflow", words=True),
        *map(Column, ("Sent\n[bytes]", "Goodput\n[Mbit/s]", "Retransm.\n[bytes]", "Reinjected\n[bytes]")),
        *map(Column, ("Timeouts", "RTT min\n[ms]", "RTT mean\n[ms]")), Column("Capture\nat", words=True, spare=1),
    ]  # fmt: skip
    sheet = Sheet(columns)
    for part in chosen.parts:
        sheet.add(*_row(part))
    return sheet


def _row(part: Part) -> list[str]:
    way = part.way
    notes = [
        note
        for note, holds in (
            ("backup", part.subflow["is_backup"]),
            ("never opened", not part.subflow["is_open"]),
            ("fell back", part.subflow["has_fallen_back"]),
            ("joined by its numbers", part.subflow["joined"] == "numbers"),
        )
        if holds
    ]
    name = f"{part.name} ({', '.join(notes)})" if notes else part.name
    return [
        name, f"{way['bytes']:,}", f"{part.goodput_bps * 1e-6:.3f}", f"{part.repeated:,}",
        f"{way['reinjected_bytes']:,}", str(way["timeouts"]), _ms(way["rtt_min_s"]), _ms(way["rtt_mean_s"]),
        way["position"] or "unknown",
    ]  # fmt: skip


def _ms(time_s: float | None) -> str:
    return "–" if time_s is None else f"{1e3 * time_s:.1f}"


def _times(chosen: Observed) -> list[str]:
    """Times by cause as shares."""
    waits = chosen.data["waits"]
    names = {
        "window_s": "receive window full", "timeout_s": "timeouts", "recovery_s": "repair of losses",
        "idle_s": "nothing to send", "sending_s": "data in flight",
    }  # fmt: skip
    shares = [(name, chosen.share(waits[key])) for key, name in names.items() if waits[key]]
    shown = [f"{name} {100 * share:.0f} %" for name, share in shares if share >= 0.005]  # noqa: PLR2004  rounds to 1 %
    return [f"Time: {', '.join(shown)}."] if shown else []


def _oddities(chosen: Observed) -> list[str]:
    listed = chosen.entry["oddities"]
    lines = []
    for oddity in listed[:_MAX_ODDITIES]:
        subflow = "" if oddity["subflow"] is None else f"subflow {oddity['subflow'] + 1}, "
        lines.append(f"{oddity['at_s']:.6f} s, {subflow}{oddity['kind']}: {oddity['text']}.")
    more = len(listed) - _MAX_ODDITIES + chosen.entry["oddities_left_out"]
    return [*lines, f"{more} further events: use --json."] if more > 0 else lines


def _unknown(chosen: Observed) -> list[str]:
    unknown = chosen.entry["unknown"]
    if not unknown:
        return []
    more = f" and {len(unknown) - _MAX_UNKNOWN} more" if len(unknown) > _MAX_UNKNOWN else ""
    return [f"The capture does not show: {', '.join(unknown[:_MAX_UNKNOWN])}{more}."]
