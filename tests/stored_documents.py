"""Documents of tests as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from anabranch.study.layout import SCHEMA
from anabranch.study.records import RecordReader
from anabranch.study.store import line_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anabranch.study.records import Records
    from anabranch.study.store import StoredRun


class Stored:
    """A stored run of which only the line is needed."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def line(self) -> bytes:
        fields = {"key": "k", "title": "t", "repetition": 1, "seed": 1, "build": "b", "host": {"cpu": "c"}}
        return line_of({**fields, "document": self._document, "schema": SCHEMA})[:-1]


def records_of(found: Iterable[Mapping[str, Any]]) -> Records:
    """Documents as a report reads them."""
    reader = RecordReader()
    for document in found:
        reader.add(cast("StoredRun", Stored(document)))
    return reader.take()
