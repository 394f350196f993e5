"""Result documents in files: reads those that `anabranch run --json` and `Result.save` write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.files import read_input, write_output

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch._core.document import Document

FORMAT = 2
"""Version of the format of result documents, which each document contains."""

_REQUIRED_KEYS = ("world", "seed", "duration_s", "flows", "links")


def read_documents(path: Path) -> list[Document]:
    """Read all result documents of a file; several may follow each other.

    Raises:
        InputError: If the file cannot be read, or contains something else.

    """
    return parse_documents(read_input(path), str(path))


def parse_documents(text: str, place: str) -> list[Document]:
    """Decode the result documents in a text.

    Args:
        text: One or more documents in JSON, one after the other.
        place: Name of the text in messages.

    Raises:
        InputError: If the text contains something else.

    """
    decoder = json.JSONDecoder()
    found: list[Document] = []
    offset = 0
    text = text.strip()
    while offset < len(text):
        try:
            document, offset = decoder.raw_decode(text, offset)
        except (json.JSONDecodeError, RecursionError):
            line = text.count("\n", 0, offset) + 1
            raise InputError('is not a result; write one with "anabranch run --json"', place, line) from None
        _check(document, place)
        found.append(document)
        while offset < len(text) and text[offset].isspace():
            offset += 1
    if not found:
        raise InputError('is empty; write a result there with "anabranch run --json"', place)
    return found


def _check(document: object, place: str) -> None:
    """Refuse a value that is not a result document of this format."""
    if not isinstance(document, dict) or "format" not in document:
        raise InputError('is JSON, but not a result; write one with "anabranch run --json"', place)
    if document["format"] != FORMAT:
        raise InputError(
            f"is a result in format {document['format']}, but this version reads format {FORMAT}; use the version of "
            f"Anabranch that wrote it ({document.get('version', 'unknown')})",
            place,
        )
    missing = [key for key in _REQUIRED_KEYS if key not in document]
    if missing:
        raise InputError(f'is not a whole result: "{missing[0]}" is missing; write it again', place)


def write_document(document: Document, path: Path) -> None:
    """Write a result document to a file.

    Raises:
        InputError: If the file cannot be written.
        RunFailed: If the disk is full.

    """
    write_output(path, json.dumps(document, indent=2) + "\n")


def without_scenario(document: Document) -> Document:
    """A copy of a result document without its scenario."""
    copy = document.copy()
    copy.pop("scenario", None)
    return copy
