"""Errors that a user sees.

`AnabranchError` is the base of all of them. `InputError` is a mistake in the input. It names the file and line, the
error and the remedy; the command line prints it as one sentence and exits with status 2. `RunFailed` is a run that
failed for another reason; the exit status is 1.
"""

from __future__ import annotations

import errno
from difflib import get_close_matches

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a full or failing disk."""


class AnabranchError(Exception):
    """Base of all errors that this package raises for its user."""


class InputError(AnabranchError, ValueError):
    """A mistake in the input: an argument, a scenario, a study or another file.

    Args:
        message: The mistake and its remedy, without file and line.
        file: Name of the file with the mistake; `None` if the mistake is not in a file.
        line: Line in that file, counted from 1; `None` if unknown.

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


class RunFailed(AnabranchError, RuntimeError):  # noqa: N818  the name states the event
    """A run that failed after its start for a reason other than its input, such as a full disk."""


def is_full(error: OSError) -> bool:
    """Whether an error is due to a full or failing disk, not to the input."""
    return error.errno in _DISK_ERRORS


def not_written(message: str, error: OSError, file: str) -> InputError | RunFailed:
    """The error to raise for a file that cannot be written: `RunFailed` if the disk is full, else `InputError`."""
    return RunFailed(f"{file}: {message}") if is_full(error) else InputError(message, file)


def nearest(word: str, known: list[str]) -> str:
    """A clause with the known word that is spelt most alike, or with all known words if none is near."""
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    if not known:
        return "there are none"
    return "known: " + ", ".join(sorted(known))
