"""Scenarios: one experiment each, as text with the settings that were changed."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from anabranch import simulator, worlds
from anabranch.errors import InputError
from anabranch.results import Result
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.simulator import Capture
    from anabranch.sweep import Setting
    from anabranch.worlds import World


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
            text = Path(path).read_text(encoding="utf-8")
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


def _place(name: str, place: str | Path | None, kind: str) -> str | None:
    """A file or folder as text."""
    if place is not None and not isinstance(place, str | Path):
        raise InputError(f"{name} is the name of a {kind}, not {place!r}")
    return None if place is None else str(place)


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    trace: str | Path | None = None,
    pcap: str | Path | Capture | None = None,
    check_wire: bool = False,
    trace_changes: bool = False,
    world: World = "sim",
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Run a scenario in the simulator, or on this machine's kernel.

    Args:
        scenario: A scenario, or the path of its file.
        seed: Seed of all random streams, from 0 to 2⁶³ − 1; by default the scenario's own.
        trace: Directory for traces over time, as CSV files.
        pcap: File for a capture of every link end, in pcapng format, or a `Capture` that says more.
        trace_changes: Traces have every change after every event, not only what a look every 10 ms finds; slower.
        check_wire: Encode and re-parse every packet; the result is the same, the run slower.
        world: "sim", or "kernel" for Linux's own TCP and Multipath TCP over an emulated network, in real time; see
            docs/how-to/kernel-world.md.
        progress: Called now and then with the share of the run that is done, 0 to 1.

    Raises:
        InputError: If the scenario or the seed is not valid or a file cannot be written.

    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_file(scenario)
    if not isinstance(pcap, simulator.Capture):
        file = _place("pcap", pcap, "file")
        capture = None if file is None else simulator.Capture(file)
    else:
        capture = pcap
    request = simulator.Request(
        scenario.text,
        scenario.file,
        scenario.overrides,
        # A whole number of numpy, as in a loop over an array, is as good as one of Python's.
        operator.index(seed) if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) else seed,
        _place("trace", trace, "folder"),
        capture,
        check_wire,
        trace_changes,
    )
    return Result(worlds.of(world)(request, progress), trace)
