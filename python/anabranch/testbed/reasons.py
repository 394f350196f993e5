"""Reasons why testbeds have ended by themselves, in files: the processes of testbeds have no terminal."""

from __future__ import annotations

from contextlib import suppress

from anabranch.testbed import locks

_SUFFIX = ".end"
"""Suffix of the file with the reason, after the testbed's name."""


def note(name: str, reason: str) -> None:
    """Note why a testbed has ended by itself."""
    with suppress(OSError):
        (locks.FOLDER / (name + _SUFFIX)).write_text(reason, encoding="utf-8")


def exists(name: str) -> bool:
    """Whether a testbed has ended by itself and has not been taken down or started since."""
    return (locks.FOLDER / (name + _SUFFIX)).exists()


def take(name: str) -> str | None:
    """Remove and return the reason why a testbed has ended by itself, if it has."""
    file = locks.FOLDER / (name + _SUFFIX)
    try:
        reason = file.read_text(encoding="utf-8")
        file.unlink()
    except OSError:
        return None
    return reason
