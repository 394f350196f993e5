"""`anabranch examples`: the scenarios that come with the package."""

from __future__ import annotations

from pathlib import Path

import click

from anabranch.errors import InputError, nearest


def shipped() -> dict[str, Path]:
    """Files of the examples by name."""
    return {file.stem: file for file in sorted((Path(__file__).parent.parent / "examples").glob("*.toml"))}


@click.command(short_help="List the examples that come with the package")
@click.argument(
    "name", required=False, shell_complete=lambda _c, _p, begun: [n for n in shipped() if n.startswith(begun)]
)
def examples(name: str | None) -> None:
    """List the examples that come with the package, or print the path of the example NAME."""
    import tomllib

    found = shipped()
    if name is None:
        width = max(len(n) for n in found)
        for n, file in found.items():
            click.echo(f"{n:<{width}}  {tomllib.loads(file.read_text(encoding='utf-8')).get('title', '')}".rstrip())
    elif name in found:
        click.echo(found[name])
    else:
        raise InputError(f'there is no example "{name}" ({nearest(name, list(found))})')
