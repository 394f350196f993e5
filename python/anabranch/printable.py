"""Text of peers and files, without characters that control a terminal or forge a line."""

from __future__ import annotations

import re

_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Control characters, line ends, zero-width and bidirectional-control characters."""


def printable(text: str, keep: str = "") -> str:
    r"""Escape control characters, except those in `keep`: ESC becomes the four characters `\x1b`."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def hidden(text: str, keep: str = "\t\n\r") -> str | None:
    """Return the first control character that is not in `keep`, escaped."""
    found = next((match[0] for match in _HIDDEN.finditer(text) if match[0] not in keep), None)
    return None if found is None else _escaped(found)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
