"""Reads study files: TOML tables as values of `anabranch.study.keys`; each mistake is named with its file and line.

msgspec decides whether a value fits a class; `study.mistakes` describes one that does not.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from anabranch.errors import InputError
from anabranch.files import read_input
from anabranch.printable import hidden
from anabranch.study.mistakes import first_mistake, missing, not_among

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.study.mistakes import Where

K_co = TypeVar("K_co", covariant=True)
C = TypeVar("C")

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")


class Table(Generic[K_co]):
    """A table of a TOML file: its keys as values, and their places."""

    def __init__(
        self, keys: K_co, content: Mapping[str, Any], where: Where = (), source: tuple[str, str] = ("", "")
    ) -> None:
        self.keys = keys
        """The values of all keys, given or by default."""
        self._content = content
        self._where = where
        self._text, self._file = source

    @classmethod
    def load(cls, path: Path, kind: type[C]) -> Table[C]:
        """Read a file.

        Args:
            path: The file.
            kind: Class of its keys.

        Raises:
            InputError: If the file cannot be read, is not TOML, or has a key or a value that the class does not have.

        """
        return cls.parse(read_input(path), str(path), kind)

    @classmethod
    def parse(cls, text: str, file: str, kind: type[C]) -> Table[C]:
        """Parse the text of a file.

        Args:
            text: The text.
            file: Name of the file, for messages.
            kind: Class of its keys.

        Raises:
            InputError: If the text is not TOML, or has a key or a value that the class does not have.

        """
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            message = _explained(re.sub(r" \(at .*\)$", "", str(error)), text, int(found[1]) if found else 0)
            raise InputError(f"is not TOML: {message}", file, int(found[1]) if found else None) from None
        raw: Table[Any] = Table(None, content, (), (text, file))
        raw._refuse_hidden(content)
        return raw.read_as(kind)

    def read_as(self, kind: type[C]) -> Table[C]:
        """Read the table again, by the keys of another class.

        Raises:
            InputError: If the table has a key or a value that the class does not have.

        """
        try:
            keys = msgspec.convert(self._content, kind)
        except msgspec.ValidationError:
            where, message = first_mistake(self._content, kind, self._where)
            raise InputError(message, self._file, line_of(self._text, where)) from None
        return Table(keys, self._content, self._where, (self._text, self._file))

    def inner(self, key: str, keys: C) -> Table[C]:
        """The table at a key, with its values; empty if it is not there."""
        return Table(keys, self._content.get(key, {}), (*self._where, key), (self._text, self._file))

    def named(self, key: str, tables: Mapping[str, C]) -> dict[str, Table[C]]:
        """The tables within the table at a key, by name."""
        outer = self.inner(key, tables)
        return {name: outer.inner(name, keys) for name, keys in tables.items()}

    def rows(self, key: str, rows: Sequence[C]) -> list[Table[C]]:
        """The tables of the array at a key."""
        content = self._content.get(key, [])
        source = (self._text, self._file)
        return [Table(row, content[i], (*self._where, key, i), source) for i, row in enumerate(rows)]

    def choice(self, key: str, value: str, allowed: Sequence[str]) -> str:
        """Check that the text at a key is one of a few. A key without a value is a mistake.

        Raises:
            InputError: If the text is another one, or empty.

        """
        if not value:
            raise self.missing(key)
        if value not in allowed:
            raise self.error(not_among(key, value, allowed), key)
        return value

    def missing(self, key: str) -> InputError:
        """The error for a missing key."""
        return self.error(missing(key, self._where))

    def error(self, message: str, key: str | None = None) -> InputError:
        """A mistake at a key of this table, or at the table itself."""
        return InputError(message, self._file, self.line(key))

    def line(self, key: str | None = None) -> int | None:
        """Line of a key of this table, or of the table itself; `None` if it is not found."""
        return line_of(self._text, self._where if key is None else (*self._where, key))

    def _refuse_hidden(self, content: Any, where: Where = ()) -> None:
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

    def __iter__(self) -> Iterator[str]:
        """The keys that are there."""
        return iter(self._content)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._content


def _explained(message: str, text: str, number: int) -> str:
    """The mistake in a line that is not TOML; an array of tables has to come before the tables within it."""
    if message == r"Illegal character '\n'":
        return "a text is not closed at the end of its line: close it with the quote that it begins with"
    lines = text.splitlines()
    header = _HEADER.match(lines[number - 1]) if 0 < number <= len(lines) else None
    if header and header[1] == "[[":
        for earlier, line in enumerate(lines[: number - 1], start=1):
            inner = _HEADER.match(line)
            if inner and (inner[1], inner[2]) == ("[", header[2]):
                return f"[{header[2]}] in line {earlier} is one table, and there may be several: write [[{header[2]}]]"
            if inner and inner[2].startswith(f"{header[2]}."):
                brackets = ("[[", "]]") if inner[1] == "[[" else ("[", "]")
                name = inner[2].join(brackets)
                return f"{name} in line {earlier} comes before its [[{header[2]}]]: put it after that"
    return message


def line_of(text: str, where: Where) -> int | None:
    """Line of a key in a TOML text, counted from 1.

    For a key without a separate line it is that of its table, or of the first table in it.

    `where` names the tables from the outside in, arrays by name and index, and the key last.
    """
    seen: dict[tuple[str | int, ...], int] = {}
    path: tuple[str | int, ...] = ()
    best: tuple[int, int] | None = None
    below: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header:
            path = _path_of(header[2], header[1] == "[[", seen)
            found = path
            if where and path[: len(where)] == where and below is None:
                below = number
        else:
            key = re.match(r'^\s*"?([\w.\-]+)"?\s*=', line)
            found = (*path, key[1]) if key else ()
        if found and where[: len(found)] == found and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else below


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
