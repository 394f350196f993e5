"""Checks the files that a scenario or a study names: they must lie in or below its folder, unless all are allowed.

In a scenario these are the values of the keys `trace` and `file`.

A scenario from an untrusted source could otherwise make this program read any file of the user.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PACKAGE = Path(__file__).parent
KEYS = ("trace", "file")
"""Keys of a scenario whose values are names of files."""
_TRACE = re.compile(
    r"""(?P<key>\b(?:trace|file)\b["']?|"[^"\n]*\\[^"\n]*")\s*=(?:\s|\#[^\n]*\n)*(?P<text>\"{3}|'{3}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
)
"""Matches a trace, and any value whose key may be spelt with escapes."""


def check_inside(kind: str, name: str, file: str, line: int | None) -> None:
    """Check that a referenced file lies in or below the folder of the file that names it, with symbolic links resolved.

    Args:
        kind: The kind of the file, for the message, such as "trace".
        name: Its path as written, relative to the folder of `file`.
        file: The file that names it; one of this package may name any.
        line: The line there.

    Raises:
        InputError: If the file lies elsewhere.

    """
    if not _is_inside(name, Path(file)):
        raise refusal(kind, name, file, line)


def refusal(kind: str, name: str, file: str, line: int | None) -> InputError:
    """The error that a file names another one outside its folder."""
    return InputError(
        f'the {kind} "{name}" lies outside the folder of this file; move it there, or add --allow-paths (in Python: '
        "allow_paths=True)", file, line,
    )  # fmt: skip


def _is_inside(name: str, file: Path) -> bool:
    try:
        if file.absolute().is_relative_to(_PACKAGE) or file.resolve().is_relative_to(_PACKAGE.resolve()):
            return True
        return (file.parent / name).resolve().is_relative_to(file.parent.resolve())
    except (OSError, RuntimeError, ValueError):
        # A loop of links, or a name that no file can have.
        return False


def check_traces(text: str, file: str) -> None:
    """Check that all traces which the text of a scenario names lie in or below its folder.

    Raises:
        InputError: Naming the first one that lies elsewhere.

    """
    for name in _traces(text):
        check_inside("file", name, file, line_of_text(text, name))


def check_content(content: Any, file: str) -> None:
    """Check that all traces which a scenario names, as decoded tables, lie in or below the folder of its file.

    Raises:
        InputError: Naming the first one that lies elsewhere.

    """
    for name in _named(content):
        check_inside("file", name, file, None)


def names_others(text: str, file: str) -> bool:
    """Whether the text of a scenario names a trace outside its folder."""
    return any(not _is_inside(name, Path(file)) for name in _traces(text))


def names_trace(text: str) -> bool:
    """Whether the text of a scenario names a trace anywhere."""
    return next(_traces(text), None) is not None


def outside(settings: Iterable[str], file: str) -> list[str]:
    """The traces outside the folder of a scenario's file that settings "key=value" name."""
    found: list[str] = []
    for setting in settings:
        if any(part in setting for part in (*KEYS, "\\")):
            key, _, value = setting.partition("=")
            content: Any = value
            with suppress(tomllib.TOMLDecodeError):
                content = tomllib.loads(f"value = {value}")["value"]
            named = _named({key.rpartition(".")[2].strip(): content})
            found += [name for name in named if not _is_inside(name, Path(file))]
    return found


def line_of_text(text: str, name: str) -> int | None:
    """The first line with a text in quotes."""
    quoted = (f'"{name}"', f"'{name}'")
    for number, line in enumerate(text.splitlines(), start=1):
        if any(each in line for each in quoted):
            return number
    return None


def _traces(text: str) -> Iterator[str]:
    """The traces of a scenario, as written."""
    try:
        content = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        # The simulator reads TOML 1.1. Names with escapes or over several lines match no file inside.
        for found in _TRACE.finditer(text):
            name = found["text"]
            yield "/" if "\\" in found[0] or (len(name) == len("'''") and len(set(name)) == 1) else name[1:-1]
        return
    yield from _named(content)


def _named(content: Any) -> Iterator[str]:
    """All values of keys that name files, at any depth."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in KEYS and isinstance(value, str):
                yield value
            else:
                yield from _named(value)
    elif isinstance(content, list):
        for value in content:
            yield from _named(value)
