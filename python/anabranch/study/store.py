"""The store of finished runs: an append-only file that survives Ctrl-C, a kill and a full disk.

One line per record: the CRC-32 of the JSON text in eight hex digits, a space, the JSON. A record is written in one
call and flushed to disk before the run counts as finished. A kill can leave at most one unfinished line at the end,
which is cut off when the store is opened next; anything else that is damaged is kept aside in a copy, and what is
whole is used. A file is moved aside or replaced only by whoever has it locked.
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
        """Release the store."""
        os.close(self._file)

    def append(self, record: Record) -> None:
        """Add a finished run; when this returns, it is on disk.

        Raises:
            InputError: If the disk does not take it.

        """
        self._write(_encode(asdict(record)))
        self.records[record.key] = record

    def start_over(self) -> Path | None:
        """Move all runs aside and begin anew; returns where to, or `None` if there were none.

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
                # Whoever held the lock until now may have put another file in this one's place.
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

    def _write(self, line: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            _write_through(self._file, line)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise InputError(f"a finished run could not be saved: {error.strerror}", str(self.path)) from None

    def _load(self) -> None:
        """Read what is there, cut off an unfinished line, and put a damaged file aside."""
        content = self.path.read_bytes()
        header = _encode(_HEADER)
        if b"\n" not in content and header.startswith(content):
            # Empty, or killed while the very first line was being written.
            os.ftruncate(self._file, 0)
            self._write(header)
            return
        lines = content.split(b"\n")
        tail = lines.pop()
        decoded = [_decode(line) for line in lines]
        self._check(decoded)
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

    def _check(self, decoded: list[dict[str, Any] | None]) -> None:
        """Refuse what is no store, and a store whose records mean something else."""
        whole = [entry for entry in decoded if entry is not None]
        if not whole:
            raise InputError(
                "is not a store of runs; move it away or choose another folder with --results", str(self.path)
            )
        found = whole[0].get("format", _HEADER["format"])
        if found != _HEADER["format"]:
            raise InputError(
                f"was written by another version of Anabranch, in format {found} rather than {_HEADER['format']}; "
                "move it away or choose another folder with --results",
                str(self.path),
            )

    def _put_aside(self, content: bytes, whole: list[bytes], broken: int) -> None:
        """Keep a copy of a damaged file and go on with its whole lines."""
        copy = _free_name(self.path, "damaged")
        try:
            os.close(_replace(copy, content))
            before, self._file = self._file, _replace(self.path, b"".join(line + b"\n" for line in whole))
        except OSError as error:
            raise _not_writable(self.path.parent, error) from None
        os.close(before)
        self.notes.append(
            f"{self.path}: {broken} damaged line{'s' * (broken > 1)} put aside in {copy.name}; "
            "every whole run is kept and the others will run again"
        )


def read(folder: Path) -> Store:
    """Open the store of an existing folder.

    Raises:
        InputError: If there is none.

    """
    if not (folder / FILE).is_file():
        raise InputError('holds no runs yet; start with "anabranch study run"', str(folder))
    return Store(folder)


def _not_writable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"results cannot be written there ({error.strerror}); choose another folder with --results", str(folder)
    )


def _write_through(file: int, content: bytes) -> None:
    """Write all of it, and to the disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def _replace(path: Path, content: bytes) -> int:
    """Put a file with other content in a file's place, wholly or not at all; returns it open and locked."""
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        _write_through(file, content)
        new.rename(path)
    except BaseException:
        os.close(file)
        raise
    return file


def _encode(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry, separators=(",", ":"), allow_nan=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode(line: bytes) -> dict[str, Any] | None:
    """The record on a line; `None` if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _free_name(path: Path, word: str) -> Path:
    """A name beside `path` that is not taken: runs.earlier-1.jsonl and so on."""
    number = 1
    while (candidate := path.with_name(f"{path.stem}.{word}-{number}{path.suffix}")).exists():
        number += 1
    return candidate
