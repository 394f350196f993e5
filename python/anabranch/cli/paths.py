"""The option --allow-paths, of all commands that read a scenario or a study."""

from __future__ import annotations

import click

option = click.option(
    "--allow-paths", is_flag=True, help="Read traces and other files outside the folder of the file that names them."
)
