"""`anabranch replay`: repeat a recorded run in the protocol cores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anabranch.printable import printable

if TYPE_CHECKING:
    from anabranch._core.states import Replay


@click.command(short_help="Repeat a recorded run and compare its packets")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def replay(file: str, *, as_json: bool) -> int:
    """Repeat the run that FILE records, and compare the packets that the protocols send.

    The exit status is 0 if all packets are equal, 1 if not, and 2 if FILE is no complete recording.
    """
    from anabranch._core import simulator

    outcome = simulator.replay(file)
    click.echo(json.dumps(outcome, indent=2) if as_json else _sentences(outcome))
    return 0 if outcome["equal"] else 1


def _sentences(outcome: Replay) -> str:
    """The outcome for a reader."""
    world = {"endpoint": "anabranch endpoint", "user": "anabranch run --world user"}[outcome["recorded"]]
    data = ", with data" if outcome["data"] else ""
    counts = [
        f"{outcome['sent_packets']:,} sent packets",
        *([f"{outcome['arrived_packets']:,} arrivals"] if outcome["recorded"] == "endpoint" else []),
        f"{outcome['calls']:,} {'calls' if outcome['recorded'] == 'endpoint' else 'readings of the clock'}",
    ]
    difference = outcome["difference"]
    verdict = "equal" if difference is None else f"first difference: {printable(difference['sentence'])}"
    return "\n".join(
        [
            f"recorded: {world}, version {printable(outcome['version'])}{data}",
            f"replayed: {', '.join(counts)} in {outcome['duration_s']:.3f} s",
            verdict,
        ]
    )
