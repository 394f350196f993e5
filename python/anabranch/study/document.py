"""Reading study files: TOML tables whose every mistake is named with its file and line."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.errors import InputError, nearest
from anabranch.files import read_input
from anabranch.printable import hidden

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T = TypeVar("T")

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_NAMES = {str: "text in quotes", int: "a whole number", float: "a number", bool: "true or false", dict: "a table",
          list: "a list"}  # fmt: skip


class Table:
    """A TOML table that is read key by key; a key that remains unread in the end is a mistake."""

    def __init__(self, content: dict[str, Any], where: tuple[str | int, ...], text: str, file: str) -> None:
        self._content = content
        self._where = where
        self._text = text
        self._file = file
        self._read: list[str] = []

    @classmethod
    def load(cls, path: Path) -> Table:
        """Read a file.

        Raises:
            InputError: If the file cannot be read or is not TOML.

        """
        return cls.parse(read_input(path), str(path))

    @classmethod
    def parse(cls, text: str, file: str) -> Table:
        """Take a text that was read from a file.

        Raises:
            InputError: If it is not TOML.

        """
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            message = _explained(re.sub(r" \(at .*\)$", "", str(error)), text, int(found[1]) if found else 0)
            raise InputError(f"is not TOML: {message}", file, int(found[1]) if found else None) from None
        table = cls(content, (), text, file)
        table._refuse_hidden(content)
        return table

    def error(self, message: str, key: str | None = None) -> InputError:
        """A mistake at a key of this table, or at the table itself."""
        return InputError(message, self._file, self.line(key))

    def line(self, key: str | None = None) -> int | None:
        """Line of a key of this table, or of the table itself; `None` if it is not found."""
        return line_of(self._text, self._where if key is None else (*self._where, key))

    def _refuse_hidden(self, content: Any, where: tuple[str | int, ...] = ()) -> None:
        """Refuse control characters in keys and texts: they reach terminals and reports."""
        inner: list[tuple[str | int, Any]] = []
        if isinstance(content, dict):
            inner = list(content.items())
        elif isinstance(content, list):
            inner = list(enumerate(content))
        texts = (content, *(key for key, _ in inner))
        found = next((code for text in texts if isinstance(text, str) and (code := hidden(text))), None)
        if found:
            raise InputError(
                f"a text has the control character {found}; remove it", self._file, line_of(self._text, where)
            )
        for key, value in inner:
            self._refuse_hidden(value, (*where, key))

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of a key.

        Raises:
            InputError: If the value is of another kind, or missing without a default.

        """
        self._read.append(key)
        if key not in self._content:
            if default is None:
                place = ".".join(str(w) for w in self._where) or "the file"
                raise self.error(f'"{key}" is missing in {place}')
            return default
        value = self._content[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise self.error(f'"{key}" has to be {_NAMES[kind]}, not {value!r}', key)
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """A text that is one of a few."""
        value = self.get(key, str, default)
        if value not in allowed:
            raise self.error(f'"{key}" cannot be "{value}" ({nearest(value, list(allowed))})', key)
        return value

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        """A list of texts."""
        values = self.get(key, list, default)
        if not all(isinstance(v, str) for v in values):
            raise self.error(f'"{key}" has to be a list of texts in quotes', key)
        return list(values)

    def scalars(self, key: str, default: list[Any] | None = None) -> list[Any]:
        """A list of numbers, texts or booleans."""
        values = self.get(key, list, default)
        if not all(isinstance(v, str | int | float | bool) for v in values):
            raise self.error(f'"{key}" has to be a list of numbers or texts', key)
        return list(values)

    def settings(self, key: str) -> dict[str, Any]:
        """A table of scenario keys or parameters with plain values; empty if it is not there."""
        values = self.get(key, dict, {})
        for name, value in values.items():
            if not isinstance(value, str | int | float | bool):
                raise self.error(f'"{name}" has to be a number, a text or a boolean, not {value!r}', key)
        return dict(values)

    def scenario_keys(self, key: str) -> dict[str, Any]:
        """A table of scenario keys and their settings: values, lists or tables; empty if it is not there."""
        return dict(self.get(key, dict, {}))

    def selection(self, key: str) -> dict[str, Any]:
        """A table of parameters with a value or a list of values each; empty if it is not there."""
        return dict(self.get(key, dict, {}))

    def table(self, key: str) -> Table:
        """A table within; empty if it is not there."""
        return Table(self.get(key, dict, {}), (*self._where, key), self._text, self._file)

    def named(self, key: str) -> dict[str, Table]:
        """A table of tables, by name."""
        outer = self.table(key)
        return {name: outer.table(name) for name in outer}

    def rows(self, key: str) -> list[Table]:
        """An array of tables; empty if it is not there."""
        rows = self.get(key, list, [])
        if not all(isinstance(row, dict) for row in rows):
            raise self.error(f'"{key}" has to be written as [[{key}]]', key)
        return [Table(row, (*self._where, key, i), self._text, self._file) for i, row in enumerate(rows)]

    def __iter__(self) -> Iterator[str]:
        """All keys, read or not."""
        return iter(self._content)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._content

    def holds(self, key: str, kind: type) -> bool:
        """Whether the key is there with a value of a kind."""
        return isinstance(self._content.get(key), kind)

    def finish(self) -> None:
        """Check that every key was read.

        Raises:
            InputError: Naming the first key that means nothing, and the nearest one that does.

        """
        for key in self._content:
            if key not in self._read:
                raise self.error(f'"{key}" is not known here ({nearest(key, self._read)})', key)


def _explained(message: str, text: str, number: int) -> str:
    """The mistake in a line that is not TOML: an array of tables has to come before the tables within it."""
    lines = text.splitlines()
    header = _HEADER.match(lines[number - 1]) if 0 < number <= len(lines) else None
    if header and header[1] == "[[":
        for earlier, line in enumerate(lines[: number - 1], start=1):
            inner = _HEADER.match(line)
            if inner and inner[2].startswith(f"{header[2]}."):
                brackets = ("[[", "]]") if inner[1] == "[[" else ("[", "]")
                name = inner[2].join(brackets)
                return f"{name} in line {earlier} comes before its [[{header[2]}]]: put it after that"
    return message


def line_of(text: str, where: tuple[str | int, ...]) -> int | None:
    """Line of a key in a TOML text, counted from 1; of its table if the key has no separate line.

    `where` names the tables from the outside in, arrays by name and index, and the key last.
    """
    seen: dict[tuple[str | int, ...], int] = {}
    path: tuple[str | int, ...] = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header:
            path = _path_of(header[2], header[1] == "[[", seen)
            found = path
        else:
            key = re.match(r'^\s*"?([\w.\-]+)"?\s*=', line)
            found = (*path, key[1]) if key else ()
        if found and where[: len(found)] == found and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else None


def _path_of(header: str, is_array: bool, seen: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """Path of a table header, with the current index after the name of each array."""
    names = [part.strip().strip('"') for part in re.findall(r'"[^"]*"|[^."]+', header) if part.strip()]
    path: tuple[str | int, ...] = ()
    for depth, name in enumerate(names, start=1):
        path = (*path, name)
        if is_array and depth == len(names):
            seen[path] = seen.get(path, -1) + 1
        if path in seen:
            path = (*path, seen[path])
    return path
