"""`anabranch list` and `anabranch schema`: list the keys and values of scenarios."""

from __future__ import annotations

import json

import click

from anabranch._core import simulator


@click.command("list", short_help="List all KINDs: controls, schedulers, queues and more")
@click.argument("kind", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_command(kind: str | None, as_json: bool) -> None:
    """List all entries of a KIND, such as congestion, schedulers or queues. Without KIND, list the kinds."""
    if kind is None:
        for name in simulator.kinds():
            click.echo(name)
        return
    entries = simulator.entries(kind)
    if as_json:
        click.echo(json.dumps([{"name": name, "description": text} for name, text in entries], indent=2))
        return
    width = max((len(name) for name, _ in entries), default=0)
    for name, text in entries:
        click.echo(f"{name:<{width}}  {text}".rstrip())


@click.command(short_help="Print the JSON schema of scenarios, studies or claims")
@click.argument("kind", type=click.Choice(["scenario", "study", "claims"]), default="scenario")
def schema(kind: str) -> None:
    """Print the JSON schema of scenario files, of study.toml or of files of claims, by KIND, for editors."""
    if kind == "scenario":
        content = simulator.schema()
    else:
        from anabranch.study import schema as of_studies

        content = of_studies.schema() if kind == "study" else of_studies.claims_schema()
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))
