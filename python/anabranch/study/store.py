"""The store of finished runs: an append-only file that survives Ctrl-C, a kill and a full disk.

One line per record: the CRC-32 of the JSON text in eight hex digits, a space, the JSON. A record is handed to the
operating system in one call before the run counts as finished: from then on no end of this process loses it. Records
are flushed to disk in groups, at most once in `_SYNC_S`, so a power failure may lose the last group. A kill can leave
at most one unfinished line at the end, which is cut off when the store is opened next; anything else that is damaged is
kept aside in a copy, and the intact records are used. Only the process that has locked a file moves it aside or
replaces it.

Only the position of a stored run is kept in memory: a store may hold a million.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec.json

from anabranch import _native
from anabranch.errors import AnabranchError, InputError, not_written
from anabranch.quantities import counted
from anabranch.study.layout import READABLE, SCHEMA, fault, upgraded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request
    from anabranch.errors import RunFailed

FILE = "runs.jsonl"
_BLOCK = 1 << 20
_SYNC_S = 0.5
"""Interval of flushes to disk, each of which takes milliseconds, however few the records."""
_HEADER = {"store": "anabranch runs", "format": 1}


@dataclass(frozen=True)
class Record:
    """A finished run."""

    key: str
    """Digest of everything that defines the run; see `run_key`."""
    title: str
    repetition: int
    seed: int
    build: str
    """Fingerprint of the simulator that ran it."""
    host: dict[str, str]
    """Settings of the machine that ran it."""
    document: Document
    schema: int = SCHEMA
    """Number of the layout of record and document."""


class UnreadableRecord(AnabranchError):  # noqa: N818  it describes the record
    """A stored run with another layout than this version's, or with a wrong value."""


def describe_unreadable(found: Sequence[str]) -> str:
    """A sentence on stored runs of another layout, by their differences; empty if there are none."""
    if not found:
        return ""
    runs = counted(len(found), "stored run has", "stored runs have")
    return f"{runs} another layout than this version's and {'is' if len(found) == 1 else 'are'} left out: {found[0]}"


class StoredRun(NamedTuple):
    """A finished run in a store; all but key and build is read when it is asked for."""

    key: str
    build: str
    """Fingerprint of the simulator that ran it."""
    source: Source
    offset: int
    """Offset of its line in the file, bytes."""
    length: int
    """Length of the line without its end, bytes."""

    def line(self) -> bytes:
        """Its line in the file, without a check of its checksum."""
        return self.source.read(self.offset, self.length)

    def record(self) -> Record:
        """The whole record, as it was saved.

        Raises:
            InputError: If another process changed the file.
            UnreadableRecord: If it is not a table in JSON, or its keys are not those of a record.

        """
        line = self.line()
        entry = _decode(line)
        if entry is None:
            if _undamaged(line) is not None:
                raise UnreadableRecord("record: is not a table in JSON")
            raise InputError("was changed while it was being read", str(self.source.path))
        return _record(entry)

    def checked(self) -> Record:
        """The whole record with a document of the present layout.

        Raises:
            InputError: If another process changed the file.
            UnreadableRecord: If record or document have another layout.

        """
        record = self.record()
        if record.schema not in READABLE:
            raise UnreadableRecord(f"layout {record.schema}, not {SCHEMA}")
        if text := fault(record.document):
            raise UnreadableRecord(f"document{text}")
        return record

    @property
    def document(self) -> Document:
        """Its result document, read from the file at each access."""
        return self.record().document

    @property
    def host(self) -> dict[str, str]:
        """Settings of the machine that ran it."""
        return self.record().host


def _record(entry: Mapping[str, Any]) -> Record:
    """Make a record from the JSON object of a line."""
    own = {f.name: f.type for f in fields(Record)}
    lacking = [name for name in own if name != "schema" and name not in entry]
    unknown = [name for name in entry if name not in own]
    if lacking or unknown:
        raise UnreadableRecord(f"record lacks {lacking[0]}" if lacking else f"record has {unknown[0]!r}")
    record = Record(**{"schema": 1, **entry})
    for name, kind in (("key", str), ("title", str), ("repetition", int), ("seed", int), ("build", str),
                       ("host", dict), ("document", dict), ("schema", int)):  # fmt: skip
        if type(getattr(record, name)) is not kind:
            raise UnreadableRecord(f"record.{name} is not of type {kind.__name__}")
    return record if record.schema == SCHEMA else replace(record, document=upgraded(record.document, record.schema))


class Source:
    """A file of stored runs, which stays open as long as one of them may be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self._file)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset on."""
        return os.pread(self._file, length, offset)


def run_key(request: Request) -> str:
    """Digest of scenario text, settings and seed: a changed study has new keys, so that stale runs are not used."""
    return next(run_keys(request, (request.seed,)))


def run_keys(request: Request, seeds: Iterable[int | None]) -> Iterator[str]:
    """Keys of runs that differ only in their seeds, as by `run_key`."""
    begun = _digest_begun(request.scenario, request.overrides)
    for seed in seeds:
        digest = begun.copy()
        digest.update(b"null]" if seed is None else b"%d]" % seed)
        yield digest.hexdigest()[:32]


@lru_cache(maxsize=64)
def _digest_begun(scenario: str, overrides: tuple[str, ...]) -> Any:
    """Digest of the part that all repetitions of a point share: a JSON list of which the last entry is open."""
    return hashlib.sha256(f"{json.dumps([scenario, list(overrides)])[:-1]}, ".encode())


class Store:
    """The finished runs in a folder, locked against a second writer while open."""

    def __init__(self, folder: Path) -> None:
        """Open the store in a folder, creating both if need be.

        Raises:
            InputError: If the folder cannot be written, another process has the store open, or the file there is
                something else.

        """
        self.path = folder / FILE
        self.notes: list[str] = []
        """Damage that was found and its repair, for the user."""
        self.is_interim = False
        """Whether another process is adding runs."""
        self.is_writable = True
        self.records: dict[str, StoredRun] = {}
        """Stored runs by key; of several with the same key, the latest."""
        self._on_disk = 0
        """Number of bytes of the file that existed at the start or were flushed to disk since."""
        self._size = 0
        self._synced_s = time.monotonic()
        self._file = self._open()
        try:
            self._load()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store, with everything on disk.

        Raises:
            InputError: If the disk does not take it.

        """
        try:
            self._sync()
        finally:
            os.close(self._file)

    def append(self, record: Record) -> None:
        """Add a finished run; when this returns, a kill does not lose it.

        Raises:
            InputError: If the run cannot be written.

        """
        line = line_of({f.name: getattr(record, f.name) for f in fields(record)})
        offset = self._write(line)
        self.records[record.key] = StoredRun(record.key, record.build, self._source, offset, len(line) - 1)

    def settle(self) -> None:
        """Flush new records to disk, unless the last flush was less than `_SYNC_S` ago.

        The caller repeats this while runs end.

        Raises:
            InputError: If the disk does not take it.

        """
        if self._size > self._on_disk and time.monotonic() - self._synced_s >= _SYNC_S:
            self._sync()

    def start_over(self) -> Path | None:
        """Move all runs aside and begin an empty file; returns where to, or `None` if there were none.

        Raises:
            InputError: If the folder cannot be written, or another process takes the place.

        """
        if not self.records:
            return None
        target = _free_name(self.path, "earlier")
        try:
            self.path.rename(target)
        except OSError as error:
            raise _not_writable(self.path.parent, error) from None
        before, self._file = self._file, self._open()
        os.close(before)
        self.records.clear()
        self._load()
        return target

    def _open(self) -> int:
        """Open and lock the file, creating it and its folder if need be."""
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            except OSError as error:
                raise _not_writable(self.path.parent, error) from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The process that held the lock before may have replaced the file at this path.
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    return file
            except BlockingIOError:
                os.close(file)
                raise InputError("is in use by another run of this study; wait for it to end", str(self.path)) from None
            except FileNotFoundError:
                pass
            except OSError as error:
                os.close(file)
                raise _not_writable(self.path.parent, error) from None
            os.close(file)

    def _write(self, line: bytes) -> int:
        """Add a line; returns where it begins."""
        begin = self._size
        try:
            _write(self._file, line)
        except OSError as error:
            os.ftruncate(self._file, begin)
            raise not_written(f"a finished run could not be saved: {error.strerror}", error, str(self.path)) from None
        self._size += len(line)
        return begin

    def _sync(self) -> None:
        """Flush the added records to disk."""
        if self._size == self._on_disk:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            # Which of the last lines are on disk is unknown, and a second fsync would not report the error again.
            self._cut(self._on_disk)
            self.records = {key: run for key, run in self.records.items() if run.offset < self._size}
            raise not_written(f"finished runs could not be saved: {error.strerror}", error, str(self.path)) from None
        self._on_disk, self._synced_s = self._size, time.monotonic()

    def _load(self) -> None:
        """Read the existing lines, cut off an unfinished line, and put a damaged file aside."""
        self._source = Source(self.path)
        header = line_of(_HEADER)
        size = self._size = self._on_disk = os.fstat(self._file).st_size
        begin = self._source.read(0, len(header))
        if b"\n" not in begin and size <= len(begin) and header.startswith(begin):
            # Empty, or killed while the very first line was being written.
            self._cut(0)
            self._write(header)
            self._sync()
            return
        whole, broken, unfinished = self._scan()
        if not whole:
            raise InputError(
                "is not a store of runs; move it away or choose another folder with --results", str(self.path)
            )
        if broken:
            self._put_aside(broken)
        elif unfinished:
            self._cut(size - unfinished)
            self.notes.append(f"{self.path}: the last run was cut off while it was being saved; it will run again")

    def _cut(self, size: int) -> None:
        """Shorten the file."""
        os.ftruncate(self._file, size)
        self._size = self._on_disk = size

    def _scan(self) -> tuple[int, int, int]:
        """Find all runs; returns how many lines are whole and how many damaged, and the length of an unfinished one."""
        whole, broken = 0, 0
        for offset, length, run, line in _native.StoreLines(str(self.path)):
            if line is not None and not line.endswith(b"\n"):
                return whole, broken, len(line)
            found = run if line is None else _head(line[:-1])
            if found is None:
                broken += 1
                continue
            whole += 1
            if whole == 1:
                self._check(self._source.read(offset, length))
            if found[0]:
                self.records[found[0]] = StoredRun(*found, self._source, offset, length)
        return whole, broken, 0

    def _check(self, first: bytes) -> None:
        """Refuse a store of another layout."""
        found = (_decode(first) or {}).get("format", _HEADER["format"])
        if found != _HEADER["format"]:
            raise InputError(
                f"was written by another version of Anabranch, in format {found} rather than {_HEADER['format']}; "
                "move it away or choose another folder with --results",
                str(self.path),
            )

    def _put_aside(self, broken: int) -> None:
        """Keep a copy of a damaged file and go on with its whole lines."""
        copy = _free_name(self.path, "damaged")
        try:
            with self.path.open("rb", buffering=_BLOCK) as file:
                os.close(_replace(copy, file))
                file.seek(0)
                whole = (line for line in file if line.endswith(b"\n") and _head(line[:-1]) is not None)
                before, self._file = self._file, _replace(self.path, whole)
        except OSError as error:
            raise _not_writable(self.path.parent, error) from None
        os.close(before)
        self._size = self._on_disk = os.fstat(self._file).st_size
        self.notes.append(
            f"{self.path}: {broken} damaged line{'s' * (broken > 1)} put aside in {copy.name}; "
            "every whole run is kept and the others will run again"
        )
        self.records.clear()
        self._source = Source(self.path)
        self._scan()


class Snapshot(Store):
    """The finished runs in a folder as they are now, without a lock and without any change to it."""

    def __init__(self, folder: Path, *, is_interim: bool) -> None:
        """Read all whole lines.

        Raises:
            InputError: If the file cannot be read or is something else.

        """
        self.path = folder / FILE
        self.notes: list[str] = []
        self.records: dict[str, StoredRun] = {}
        self.is_interim, self.is_writable = is_interim, False
        try:
            self._source = Source(self.path)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", str(self.path)) from None
        whole, broken, _ = self._scan()
        if not whole:
            raise InputError("is not a store of runs; choose another folder with --results", str(self.path))
        if broken:
            self.notes.append(f"{self.path}: {broken} damaged line{'s' * (broken > 1)} left out")

    def close(self) -> None:
        """Do nothing: a snapshot holds no lock."""


def read(folder: Path) -> Store:
    """Open the store of an existing folder: without a lock if it is in use or not writable.

    Raises:
        InputError: If there is none.

    """
    path = folder / FILE
    if not path.is_file():
        raise InputError('holds no runs yet; start with "anabranch study run"', str(folder))
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return Snapshot(folder, is_interim=False)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return Snapshot(folder, is_interim=True)
    finally:
        os.close(file)
    return Store(folder)


def _not_writable(folder: Path, error: OSError) -> InputError | RunFailed:
    sentence = f"results cannot be written there ({error.strerror}); choose another folder with --results"
    return not_written(sentence, error, str(folder))


def _write(file: int, content: bytes) -> None:
    """Write all of it."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _replace(path: Path, lines: Iterable[bytes]) -> int:
    """Put a file with other content in a file's place, wholly or not at all; returns it open and locked."""
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        with os.fdopen(file, "wb", buffering=_BLOCK, closefd=False) as buffered:
            buffered.writelines(lines)
        os.fsync(file)
        new.rename(path)
    except BaseException:
        os.close(file)
        raise
    return file


def line_of(entry: Mapping[str, object]) -> bytes:
    """The line of a record, with its checksum and its end."""
    text = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %s\n" % (_native.checksum(text), text)


def _undamaged(line: bytes) -> bytes | None:
    """The JSON text on a line; `None` if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        return text if int(checksum, 16) == _native.checksum(text) else None
    except ValueError:
        return None


def _decode(line: bytes) -> dict[str, object] | None:
    """The record on a line; `None` if the line is damaged."""
    text = _undamaged(line)
    if text is None:
        return None
    try:
        entry = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _head(line: bytes) -> tuple[str, str] | None:
    """Key and build of the run on a line, empty on one that holds none; `None` if the line is damaged."""
    entry = _decode(line)
    if entry is None:
        return None
    key, build = entry.get("key", ""), entry.get("build", "")
    return (key, build) if isinstance(key, str) and isinstance(build, str) else ("", "")


def _free_name(path: Path, word: str) -> Path:
    """A free name in the folder of `path`: runs.earlier-1.jsonl and so on."""
    number = 1
    while (candidate := path.with_name(f"{path.stem}.{word}-{number}{path.suffix}")).exists():
        number += 1
    return candidate
