"""Stored records as columns, which the native module decodes by the layout of results."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch import _native
from anabranch.study.layout import ROOT, SCHEMA
from anabranch.study.part_columns import PartColumns, Tables, texts_of
from anabranch.study.store import Record, UnreadableRecord, line_of

if TYPE_CHECKING:
    from anabranch.study.part_columns import Texts
    from anabranch.study.store import StoredRun

_KINDS = {"str": "String", "int": "u64", "dict[str, str]": "BTreeMap<String,String>", "Document": ROOT}
"""Types in Rust of the keys of a record."""


MAX_BYTES = 16_000_000
"""Maximum size of stored records that are in memory together. The decoder expects the texts of the record before, so
more than one is kept."""


class Records:
    """Records as columns, in the order in which they were read."""

    def __init__(self, columns: _native.Column) -> None:
        """Take the columns of a decoder."""
        self._columns = columns

    @cached_property
    def documents(self) -> PartColumns:
        """The result documents."""
        return PartColumns(ROOT, self._columns.parts["document"])

    @cached_property
    def _host(self) -> Tables:
        return Tables(_KINDS["dict[str, str]"], self._columns.parts["host"])

    @property
    def builds(self) -> Texts:
        """Fingerprint of the simulator of each run."""
        return texts_of(self._columns.parts["build"])

    def host(self, name: str) -> Texts:
        """A setting of the machine of each run; empty where it is not known."""
        return self._host.texts(name)


class RecordReader:
    """Reads stored records.

    The decoder accepts records of the present layout only. For all others, a slower check names the difference, or
    changes an earlier layout into the present one.
    """

    def __init__(self) -> None:
        """Begin without records."""
        own = {field.name: str(field.type) for field in fields(Record)}
        kinds = {name: _KINDS[kind] for name, kind in own.items()} | {"schema": str(SCHEMA)}
        self._decoder = _native.RecordDecoder([(name, kind, False) for name, kind in kinds.items()])

    def add(self, stored: StoredRun) -> None:
        """Read a record.

        Raises:
            InputError: If another process changed the file.
            UnreadableRecord: If record or document have another layout.

        """
        if self._decoder.add(stored.line()) is None:
            return
        record = stored.checked()
        host = {name: str(value) for name, value in record.host.items()}
        if fault := self._decoder.add(line_of({**vars(record), "host": host, "schema": SCHEMA})[:-1]):
            raise UnreadableRecord(f"record: {fault}")

    def take(self) -> Records:
        """Return all records that were read, and begin without records."""
        return Records(self._decoder.take())


class RecordChecker:
    """Checks that stored records can be read."""

    def __init__(self) -> None:
        """Begin without records."""
        self._reader = RecordReader()
        self._bytes = 0

    def check(self, stored: StoredRun) -> None:
        """Check a record.

        Raises:
            InputError: If another process changed the file.
            UnreadableRecord: If record or document have another layout.

        """
        self._reader.add(stored)
        self._bytes += stored.length
        if self._bytes >= MAX_BYTES:
            self._bytes = 0
            self._reader.take()
