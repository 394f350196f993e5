"""Reading and writing the files of a user."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from anabranch.errors import InputError, not_written

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a regular file, without a byte order mark.

    Raises:
        OSError: If the file cannot be read, or is a FIFO, a device or a folder.
        UnicodeDecodeError: If the file is not text in UTF-8.

    """
    # Reading a folder fails with the system's own message.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.read_text(encoding="utf-8-sig")


def read_input(path: Path) -> str:
    """The text of a regular file, as `read_text` returns it; errors are those of the user's input.

    Raises:
        InputError: If the file cannot be read, is not a regular file, or is not text in UTF-8.

    """
    try:
        return read_text(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", str(path)) from None


def write_output(path: Path, text: str) -> None:
    """Write a text to a file; an existing file is replaced.

    Raises:
        InputError: If the file cannot be written.
        RunFailed: If the disk is full.

    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise not_written(f"cannot be written: {error.strerror or error}", error, str(path)) from None


def check_folder(path: Path) -> None:
    """Check, before the work for it, that the folder of an output exists.

    Raises:
        InputError: If the folder does not exist.

    """
    if not path.parent.is_dir():
        raise InputError("cannot be written: its folder does not exist", str(path))
