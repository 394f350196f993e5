"""A command whose help lists its options under several headings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class GroupedCommand(click.Command):
    """A command with headings for some of its options; the others stay under "Options"."""

    def __init__(self, *arguments: Any, headings: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._headings = headings
        """Prefixes of the names of options, by heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, those without one first."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], **{heading: [] for heading in self._headings}}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups[self._heading(parameter)].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _heading(self, parameter: click.Parameter) -> str:
        for heading, prefixes in self._headings.items():
            if any(name.startswith(prefix) for name in parameter.opts for prefix in prefixes):
                return heading
        return "Options"
