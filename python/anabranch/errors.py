"""Errors that a user sees.

`InputError` is the caller's mistake. It names the place, the error and the remedy; the command line prints it as one
sentence and ends with status 2. `RunFailed` is a run that could not be finished for another reason.
"""

from __future__ import annotations

import errno
from difflib import get_close_matches

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a full or failing disk."""


class InputError(ValueError):
    """A mistake in the caller's input.

    Args:
        message: One clear sentence, without the place.
        file: Name of the file that holds the mistake, if it is in one.
        line: Line in that file, counted from 1, if known.

    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line

    def __str__(self) -> str:
        if self.file is None:
            return self.message
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str | None, int | None]]:
        return (InputError, (self.message, self.file, self.line))


class RunFailed(RuntimeError):  # noqa: N818  it says what happened
    """A run that was begun and could not be finished; not the caller's mistake."""


def is_full(error: OSError) -> bool:
    """Whether a disk could not take more data, which is no mistake in the input."""
    return error.errno in _FULL


def not_written(message: str, error: OSError, file: str) -> InputError | RunFailed:
    """The error to raise for a file that cannot be written: another path helps, unless the disk is full."""
    return RunFailed(f"{file}: {message}") if is_full(error) else InputError(message, file)


def nearest(word: str, known: list[str]) -> str:
    """Return a half-sentence naming the nearest known spelling, or all of them if none is near."""
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    if not known:
        return "there are none"
    return "known: " + ", ".join(sorted(known))
