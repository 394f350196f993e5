"""The store of finished runs: an append-only file that survives Ctrl-C, a kill and a full disk.

One line per record: the CRC-32 of the JSON text in eight hex digits, a space, the JSON. A record is written in one
call and flushed to disk before the run counts as finished. A kill can leave at most one unfinished line at the end,
which is cut off when the store is opened next; anything else that is damaged is kept aside in a copy, and what is
whole is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.simulator import Document, Request

FILE = "runs.jsonl"
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


def run_key(request: Request) -> str:
    """Digest of scenario text, settings and seed: a changed study has new keys, so that stale runs are not used."""
    text = json.dumps([request.scenario, list(request.overrides), request.seed])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


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
        """What was found damaged and what was done about it, for the user."""
        self.records: dict[str, Record] = {}
        """By key; of several runs with the same key the latest."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(
                f"results cannot be written there ({error.strerror}); choose another folder with --results",
                str(folder),
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
        except BlockingIOError:
            os.close(self._file)
            raise InputError("is in use by another run of this study; wait for it to end", str(self.path)) from None
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store."""
        os.close(self._file)

    def append(self, record: Record) -> None:
        """Add a finished run; when this returns, it is on disk.

        Raises:
            InputError: If the disk does not take it.

        """
        self._write(_encode(asdict(record)))
        self.records[record.key] = record

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._file).st_size
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise InputError(f"a finished run could not be saved: {error.strerror}", str(self.path)) from None

    def _load(self) -> None:
        """Read what is there, cut off an unfinished line, and put a damaged file aside."""
        content = self.path.read_bytes()
        if not content:
            self._write(_encode(_HEADER))
            return
        lines = content.split(b"\n")
        tail = lines.pop()
        decoded = [_decode(line) for line in lines]
        if not any(d is not None for d in decoded):
            raise InputError(
                "is not a store of runs; move it away or choose another folder with --results", str(self.path)
            )
        broken = sum(d is None for d in decoded)
        if broken:
            self._put_aside(content, [line for line, d in zip(lines, decoded, strict=True) if d is not None], broken)
        elif tail:
            os.ftruncate(self._file, len(content) - len(tail))
            self.notes.append(f"{self.path}: the last run was cut off while it was being saved; it will run again")
        for entry in decoded:
            if entry is not None and "key" in entry:
                record = Record(**entry)
                self.records[record.key] = record

    def _put_aside(self, content: bytes, whole: list[bytes], broken: int) -> None:
        """Keep a copy of a damaged file and go on with its whole lines."""
        copy = _free_name(self.path, "damaged")
        copy.write_bytes(content)
        text = b"".join(line + b"\n" for line in whole)
        os.ftruncate(self._file, 0)
        self._write(text)
        self.notes.append(
            f"{self.path}: {broken} damaged line{'s' * (broken > 1)} put aside in {copy.name}; "
            "every whole run is kept and the others will run again"
        )


def start_over(folder: Path) -> Path | None:
    """Move the runs of an earlier study run aside; returns where to, or `None` if there were none."""
    path = folder / FILE
    if not path.is_file() or path.stat().st_size == 0:
        return None
    target = _free_name(path, "earlier")
    path.rename(target)
    return target


def read(folder: Path) -> Store:
    """Open the store of an existing folder.

    Raises:
        InputError: If there is none.

    """
    if not (folder / FILE).is_file():
        raise InputError('holds no runs yet; start with "anabranch study run"', str(folder))
    return Store(folder)


def _encode(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry, separators=(",", ":"), allow_nan=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode(line: bytes) -> dict[str, Any] | None:
    """The record on a line; `None` if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        entry: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return entry


def _free_name(path: Path, word: str) -> Path:
    """A name beside `path` that is not taken: runs.earlier-1.jsonl and so on."""
    number = 1
    while (candidate := path.with_name(f"{path.stem}.{word}-{number}{path.suffix}")).exists():
        number += 1
    return candidate
