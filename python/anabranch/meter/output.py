"""Prints a test while it runs and at its end: as lines, as one JSON document, or as one JSON object for each event."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from anabranch.meter.lines import HEADING, interval_lines, summary_lines
from anabranch.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.meter.plan import TestPlan


class Quiet:
    """Prints the result as one JSON document."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Report how many tests the client waits for."""
        if "waiting" in event:
            click.echo(f"waiting for {event['waiting']} other test{'s' if event['waiting'] > 1 else ''}", err=True)

    def failed(self, reason: str) -> None:
        """Leave the error to the command."""

    def ended(self, document: Mapping[str, Any]) -> None:
        """Print the result."""
        click.echo(json.dumps(document, indent=2))


class Lines(Quiet):
    """Prints lines of intervals and a summary."""

    def __init__(self, names: Sequence[str], size: float | None) -> None:
        self._names = names
        self._size = size
        self._before: dict[str, int] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        """Print the lines of an interval, after a heading."""
        super().event(event)
        if "start" in event:
            click.echo(HEADING)
        if "interval" in event:
            for line in interval_lines(self._names, event["interval"], self._before):
                click.echo(printable(line))
        sys.stdout.flush()

    def ended(self, document: Mapping[str, Any]) -> None:
        """Print the summary."""
        click.echo()
        for line in summary_lines(document, self._size):
            click.echo(printable(line))


class Objects(Quiet):
    """Prints an object for each event, with the keys `event` and `data` of iperf3."""

    def __init__(self, plan: TestPlan) -> None:
        self._plan = plan
        self._flows = [flow for flow in plan.flows if not flow.shares_connection]

    def event(self, event: Mapping[str, Any]) -> None:
        """Print an event."""
        ((name, data),) = event.items()
        if name == "start":
            data = {
                "duration_s": self._plan.seconds + self._plan.omit,
                "warmup_s": self._plan.omit,
                "interval_s": self._plan.interval,
                "flows": [
                    {"name": flow.label, "protocol": flow.protocol, "local": local, "remote": remote}
                    for flow, (local, remote) in zip(self._flows, data, strict=True)
                ],
            }
        elif name == "interval":
            data = {
                "span_s": data["span_s"],
                "flows": [
                    {"name": flow.label, "written_bytes": written, "read_bytes": read, "subflows": subflows}
                    for flow, (written, read, subflows) in zip(self._flows, data["flows"], strict=True)
                ],
            }
        self._print(name, data)

    def failed(self, reason: str) -> None:
        """Print the error as the last event."""
        self._print("error", reason)

    def ended(self, document: Mapping[str, Any]) -> None:
        """Print the result as the last event."""
        self._print("end", document)

    def _print(self, event: str, data: Any) -> None:
        click.echo(json.dumps({"event": event, "data": data}))
        sys.stdout.flush()
