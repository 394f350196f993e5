"""Scenarios: one experiment each, as text with the settings that were changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import simulator
from anabranch.errors import InputError
from anabranch.files import read_text
from anabranch.sweep import setting

if TYPE_CHECKING:
    from anabranch.sweep import Setting


@dataclass(frozen=True)
class Scenario:
    """A scenario file with settings on top. A scenario never changes; `set` gives a new one.

    >>> import anabranch
    >>> base = anabranch.Scenario.from_file("half-bottleneck.toml")
    >>> slow = base.set("link.beta.rate", "5 Mbit/s").set("flow.F0.congestion", "olia")
    """

    text: str
    file: str = "scenario"
    overrides: tuple[str, ...] = ()

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Read a scenario file and check it.

        Raises:
            InputError: If the file cannot be read or is no valid scenario.

        """
        if not isinstance(path, str | Path):
            raise InputError(f"a scenario is read from the name of a file, not from {path!r}")
        try:
            text = read_text(Path(path))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
        except UnicodeDecodeError:
            raise InputError("is not text in UTF-8", str(path)) from None
        return cls.from_toml(text, str(path))

    @classmethod
    def from_toml(cls, text: str, file: str = "scenario") -> Scenario:
        """Take a scenario from TOML text and check it; `file` is the name for messages.

        Raises:
            InputError: If the text is no valid scenario.

        """
        scenario = cls(text, file)
        scenario.validate()
        return scenario

    def set(self, key: str, value: Setting) -> Scenario:
        """The same scenario with one setting changed, such as `set("link.beta.rate", "20 Mbit/s")`.

        The setting is checked with the others by `validate` or when the scenario runs.
        """
        return replace(self, overrides=(*self.overrides, setting(key, value)))

    def with_settings(self, settings: tuple[str, ...]) -> Scenario:
        """The same scenario with settings "key=value" as on the command line."""
        return replace(self, overrides=(*self.overrides, *settings))

    def validate(self) -> None:
        """Check the scenario with its settings.

        Raises:
            InputError: Naming file, line and remedy of the first mistake.

        """
        simulator.validate(simulator.Request(self.text, self.file, self.overrides))
