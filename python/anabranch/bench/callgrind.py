"""Reads the output file of callgrind: the costs of one library, with those of other libraries' functions that it calls.

The format is that of valgrind's manual, "Callgrind Format Specification".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ALLOCATORS = frozenset({"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"})
_COMPRESSED_NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


@dataclass
class Profile:
    """Costs of a library."""

    events: tuple[str, ...] = ()
    """Names of the counted events, for example `Ir` for instructions."""
    functions: dict[str, list[int]] = field(default_factory=dict)
    """Costs by function, in the order of `events`. A function of another library has the costs of its calls from this
    library, callees included."""
    allocations: int = 0
    """Number of calls that allocate memory or change its size."""

    def total(self, event: str) -> int:
        """Cost of all functions."""
        at = self.events.index(event)
        return sum(costs[at] for costs in self.functions.values())

    @property
    def instructions(self) -> int:
        """Instructions of all functions."""
        return self.total("Ir")


def read(file: Path, library: Path) -> Profile:
    """Read the costs of a library; functions of the Python interpreter that it calls are left out."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        return _Reader(str(library.resolve())).read(lines)


class _Reader:
    """State of reading: the present function, and the called one between a `calls` line and its cost."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._names: dict[tuple[str, str], str] = {}
        self._object = self._function = ""
        self._callee_object: str | None = None
        self._callee = ""
        self._calls: int | None = None
        self._profile = Profile()

    def read(self, lines: Iterable[str]) -> Profile:
        """Read all lines."""
        for line in lines:
            key, has_value, value = line.rstrip("\n").partition("=")
            if line[:1] in "0123456789+-*":
                self._cost(line.split()[1:])
            elif has_value:
                self._specification(key, value)
            elif line.startswith("events:"):
                self._profile.events = tuple(line.split()[1:])
        return self._profile

    def _specification(self, key: str, value: str) -> None:
        match key:
            case "ob":
                self._object = self._name("object", value)
            case "fn":
                self._function = self._name("function", value)
            case "cob":
                self._callee_object = self._name("object", value)
            case "cfn":
                self._callee = self._name("function", value)
            case "calls":
                self._calls = int(value.split(maxsplit=1)[0])

    def _name(self, kind: str, value: str) -> str:
        """The name in a line; callgrind writes a name once and then only its number."""
        found = _COMPRESSED_NAME.match(value)
        if found is None:
            return value
        number, name = found.groups()
        return self._names[kind, number] if name is None else self._names.setdefault((kind, number), name)

    def _cost(self, costs: list[str]) -> None:
        calls, callee_object = self._calls, self._callee_object
        self._calls = self._callee_object = None
        if self._object != self._library:
            return
        if calls is None:
            self._add(self._function, costs)
        elif callee_object is not None and "python" not in callee_object:
            self._add(self._callee, costs)
            self._profile.allocations += calls if self._callee in _ALLOCATORS else 0

    def _add(self, function: str, costs: list[str]) -> None:
        # Zeros at the end of a line are left out.
        totals = self._profile.functions.setdefault(function, [0] * len(self._profile.events))
        for at, cost in enumerate(costs):
            totals[at] += int(cost)
