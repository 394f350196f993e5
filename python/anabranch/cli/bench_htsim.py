"""`anabranch bench --against htsim`: the speed of S1 here and in a copy of htsim."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from anabranch.cli.bench_tables import plain, print_ratio, print_speeds

if TYPE_CHECKING:
    from pathlib import Path


def bench_htsim(copy: Path, reps: int, as_json: bool) -> None:
    """Run S1 in both simulators by turns, and print speeds and ratio."""
    from rich.console import Console

    from anabranch.bench import htsim

    ours, theirs = htsim.compare(copy, reps)
    if as_json:
        click.echo(json.dumps(plain({"anabranch": [ours], "htsim": [theirs]}), indent=2))
        return
    console = Console()
    print_speeds(console, "Anabranch, one core", [ours])
    print_speeds(console, "htsim, one core", [theirs])
    print_ratio(console, "htsim", ours, theirs)
