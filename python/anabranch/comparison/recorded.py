"""Sides of a comparison that are already run: files with results, folders of such files, and stores of studies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch.comparison.samples import Side
from anabranch.documents import read_documents
from anabranch.errors import InputError
from anabranch.files import read_input
from anabranch.study.store import FILE, UnreadableRecord, describe_unreadable, read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from anabranch.results import Result
    from anabranch.study.store import StoredRun

_REPETITION = re.compile(r", repetition \d+$")


def is_recorded(path: Path) -> bool:
    """Whether a path is a folder or a file that begins with an object of JSON, as no TOML does."""
    return path.is_dir() or (path.is_file() and read_input(path).lstrip().startswith("{"))


def read_side(path: Path, metrics: Collection[str]) -> Side:
    """Read a side from a file or folder.

    Raises:
        InputError: If there are no results, or a file contains something else.

    """
    side = Side(str(path), metrics)
    if not path.is_dir():
        for number, document in enumerate(read_documents(path), 1):
            side.add(document, f"{path}, result {number}")
    elif (path / FILE).is_file():
        _read_store(path, side)
    else:
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f'contains neither results (*.json) nor a store of a study ("{FILE}")', str(path))
        for file in files:
            documents = read_documents(file)
            for number, document in enumerate(documents, 1):
                side.add(document, str(file) if len(documents) == 1 else f"{file}, result {number}")
    return side


def side_of(name: str, results: Sequence[Result], metrics: Collection[str]) -> Side:
    """A side of results in memory."""
    side = Side(name, metrics)
    for number, result in enumerate(results, 1):
        side.add(result.document, f"{name}, result {number}")
    return side


def _read_store(folder: Path, side: Side) -> None:
    """Read all runs of a study; of runs with equal title the latest one counts."""
    with read(folder) as store:
        side.notes += store.notes
        latest: dict[str, StoredRun] = {}
        unreadable: list[str] = []
        for stored in sorted(store.records.values(), key=lambda run: run.offset):
            try:
                latest[stored.checked().title] = stored
            except UnreadableRecord as error:
                unreadable.append(str(error))
        if not latest:
            reason = describe_unreadable(unreadable) or "holds no runs yet"
            raise InputError(f'{reason}; start with "anabranch study run"', str(folder))
        if unreadable:
            side.notes.append(describe_unreadable(unreadable))
        for title, stored in latest.items():
            side.add(stored.document, f"{folder}, {title}", _REPETITION.sub("", title))
