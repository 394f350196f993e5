"""Scenarios: the text of a scenario file with changed settings."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch._core import simulator
from anabranch.errors import InputError
from anabranch.files import read_input
from anabranch.paths import check_traces
from anabranch.sweep import setting

if TYPE_CHECKING:
    from anabranch.sweep import Setting


@dataclass(frozen=True)
class Scenario:
    """A scenario file with changed settings. Scenarios are immutable; `set` returns a new one.

    >>> import anabranch
    >>> base = anabranch.Scenario.from_file("half-bottleneck.toml")
    >>> slow = base.set("link.beta.rate", "5 Mbit/s").set("flow.F0.congestion", "olia")
    """

    text: str
    """TOML text of the scenario."""
    file: str = "scenario"
    """Name of the file for messages, and for paths in the scenario that are relative to it."""
    overrides: tuple[str, ...] = ()
    """Changed settings as "key=value", in their order; a later one wins."""

    @classmethod
    def from_file(cls, path: str | Path, *, allow_paths: bool = False) -> Scenario:
        """Read a scenario file and check it.

        Args:
            path: The TOML file.
            allow_paths: Whether it may name traces outside its folder.

        Raises:
            InputError: If the file cannot be read or is not a valid scenario.

        """
        if not isinstance(path, str | Path):
            raise InputError(f"path must be the name of a scenario file, not {path!r}")
        text = read_input(Path(path))
        if not allow_paths:
            check_traces(text, str(path))
        return cls.from_toml(text, str(path))

    @classmethod
    def from_toml(cls, text: str, file: str = "scenario") -> Scenario:
        """Make a scenario of TOML text and check it.

        Args:
            text: TOML text of the scenario.
            file: Name of the scenario in messages.

        Raises:
            InputError: If the text is not a valid scenario.

        """
        scenario = cls(text, file)
        scenario.validate()
        return scenario

    def __repr__(self) -> str:
        settings = f", {len(self.overrides)} setting{'s' * (len(self.overrides) != 1)}" if self.overrides else ""
        return f"Scenario({self.file!r}{settings})"

    def _repr_html_(self) -> str:
        """Settings and text of the file, for notebooks."""
        settings = "".join(f"<li><code>{html.escape(override)}</code></li>" for override in self.overrides)
        changed = f"<p>Changed settings:</p><ul>{settings}</ul>" if settings else ""
        summary = f"<summary>{html.escape(repr(self))}</summary>"
        return f"<details>{summary}{changed}<pre>{html.escape(self.text)}</pre></details>"

    def set(self, key: str, value: Setting) -> Scenario:
        """Returns this scenario with one setting changed, such as `set("link.beta.rate", "20 Mbit/s")`.

        `validate` or a run of the scenario checks the setting.

        Args:
            key: Table, name and key, separated by dots, as for `--set`.
            value: A text, number, boolean, list or table; quantities are texts with a unit, such as "20 ms".

        Raises:
            InputError: If TOML cannot represent the value.

        """
        return replace(self, overrides=(*self.overrides, setting(key, value)))

    def with_settings(self, settings: tuple[str, ...]) -> Scenario:
        """Returns this scenario with further settings, each "key=value" as for `--set`.

        Args:
            settings: The settings, the last of equal keys wins.

        """
        return replace(self, overrides=(*self.overrides, *settings))

    def validate(self) -> None:
        """Check the scenario with its settings.

        Raises:
            InputError: With file, line and remedy of the first mistake, if there is one.

        """
        simulator.validate(simulator.Request(self.text, self.file, self.overrides))
