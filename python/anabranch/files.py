"""Reading the files of a user."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a regular file, without a byte order mark.

    Raises:
        OSError: If it cannot be read, or is a FIFO, a device or a folder.
        UnicodeDecodeError: If it is not text in UTF-8.

    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.read_text(encoding="utf-8-sig")
