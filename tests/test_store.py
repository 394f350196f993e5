"""The store of finished runs: it survives kills, damage and power loss, and reports lost rows."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch._core.simulator import Request
from anabranch.errors import InputError, RunFailed
from anabranch.study.store import _HEADER, FILE, Record, Store, line_of, read, run_key, run_keys

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch._core.document import Document


def document(**content: str) -> Document:
    """A document with little content: the store does not look into it."""
    return cast("Document", content)


def record(number: int) -> Record:
    return Record(f"key{number}", f"point {number}", 1, number, "b", {"cpu": "x"}, document(digest=f"d{number}"))


def fill(folder: Path, count: int) -> bytes:
    with Store(folder) as store:
        for number in range(count):
            store.append(record(number))
    return (folder / FILE).read_bytes()


def test_appended_runs_are_read_back(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    with read(tmp_path) as store:
        assert [run.record() for run in store.records.values()] == [record(i) for i in range(3)]
        assert store.notes == []


def test_latest_of_equal_keys_counts(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    newer = Record("key0", "point 0", 1, 0, "b2", {}, document(digest="new"))
    with Store(tmp_path) as store:
        store.append(newer)
    with read(tmp_path) as store:
        assert store.records["key0"].record() == newer
        assert store.records["key0"].build == "b2"


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_an_unfinished_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    content = fill(tmp_path, 3)
    (tmp_path / FILE).write_bytes(content[:-cut])
    with Store(tmp_path) as store:
        assert list(store.records) == ["key0", "key1"]
        assert "cut off while it was being saved" in store.notes[0]
        store.append(record(2))
    with read(tmp_path) as store:
        assert list(store.records) == ["key0", "key1", "key2"]
        assert store.notes == []


def test_damaged_line_is_put_aside_and_the_rest_kept(tmp_path: Path) -> None:
    content = fill(tmp_path, 3)
    damaged = content.replace(b"point 1", b"point X")
    (tmp_path / FILE).write_bytes(damaged)
    with Store(tmp_path) as store:
        assert list(store.records) == ["key0", "key2"]
        assert "1 damaged line put aside in runs.damaged-1.jsonl" in store.notes[0]
    assert (tmp_path / "runs.damaged-1.jsonl").read_bytes() == damaged
    with read(tmp_path) as store:
        assert list(store.records) == ["key0", "key2"]


@pytest.mark.parametrize("content", [b"hello\n", b"PAR1\x00\x01\n\xff", b"{}\n", b"\n\n\n"])
def test_foreign_file_stays_unchanged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="not a store of runs; move it away"):
        Store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


@given(data=st.data())
def test_damage_loses_no_undamaged_run(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("store")
    content = bytearray(fill(folder, 4))
    lines = bytes(content).split(b"\n")
    position = data.draw(st.integers(0, len(content) - 2))
    content[position] ^= data.draw(st.integers(1, 255))
    (folder / FILE).write_bytes(content)
    hit = bytes(content[:position]).count(b"\n")
    with Store(folder) as store:
        whole = {f"key{i}" for i, line in enumerate(lines[1:5]) if i + 1 != hit}
        if position != sum(len(line) + 1 for line in lines[: hit + 1]) - 1:
            assert whole <= set(store.records)


def test_second_writer_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(InputError, match="in use by another run"):
        Store(tmp_path)


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="cannot be written there"):
        Store(tmp_path / "results" / "study")


def test_missing_store_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no runs yet"):
        read(tmp_path)


def test_restart_keeps_the_earlier_store(tmp_path: Path) -> None:
    for number in (1, 2):
        content = fill(tmp_path, 2)
        with Store(tmp_path) as store:
            target = store.start_over()
            assert target is not None
            assert target.name == f"runs.earlier-{number}.jsonl"
            assert target.read_bytes() == content
            assert store.records == {}
            assert store.start_over() is None
            with pytest.raises(InputError, match="in use by another run"):
                Store(tmp_path)


def test_file_moved_while_opening_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 2)
    lock = fcntl.flock

    def moved(file: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / FILE).rename(tmp_path / "runs.earlier-1.jsonl")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", moved)
    with Store(tmp_path) as store:
        assert store.records == {}
        store.append(record(7))
    assert b"key7" in (tmp_path / FILE).read_bytes()


def test_truncated_header_is_repaired(tmp_path: Path) -> None:
    header = line_of(_HEADER)
    for size in range(len(header)):
        (tmp_path / FILE).write_bytes(header[:size])
        with Store(tmp_path) as store:
            assert store.records == {}
        assert (tmp_path / FILE).read_bytes() == header


def test_unknown_format_is_named(tmp_path: Path) -> None:
    content = line_of({**_HEADER, "format": 2}) + line_of({"key": "k", "something": "new"})
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="another version of Anabranch, in format 2 rather than 1; move it away"):
        Store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


def test_full_disk_during_repair_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = fill(tmp_path, 3).replace(b"point 1", b"point X")
    (tmp_path / FILE).write_bytes(damaged)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(RunFailed, match="No space left on device"):
            Store(tmp_path)
    assert (tmp_path / FILE).read_bytes() == damaged
    with Store(tmp_path) as store:
        assert list(store.records) == ["key0", "key2"]
        with pytest.raises(InputError, match="in use by another run"):
            Store(tmp_path)


class Disk:
    """Replaces the flush to disk and the clock; after a power loss the file holds only flushed data."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.now_s = 100.0
        self.flushed: list[bytes] = []
        self.fails = False
        self._file = folder / FILE
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, _: int) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.flushed.append(self._file.read_bytes())


def test_simultaneous_records_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    with Store(tmp_path) as store:
        assert len(disk.flushed) == 1  # the header
        for number in range(100):
            store.append(record(number))
            store.settle()
            disk.now_s += 0.001
        assert len(disk.flushed) == 1
        disk.now_s += 0.5
        store.settle()
        assert disk.flushed[1:] == [(tmp_path / FILE).read_bytes()]
        disk.now_s += 10.0
        store.settle()
        assert len(disk.flushed) == 2  # there was nothing new
        store.append(record(100))
    assert disk.flushed[2:] == [(tmp_path / FILE).read_bytes()]


def test_kill_loses_no_appended_run(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom anabranch.study.store import Record, Store\n"
        "store = Store(Path(sys.argv[1]))\nfor i in range(500):\n"
        "    store.append(Record(f'key{i}', '', 1, i, 'b', {}, {'text': 'x' * 3000}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    with read(tmp_path) as store:
        assert list(store.records) == [f"key{i}" for i in range(500)]
        assert store.notes == []


@given(kept=st.integers(0), zeros=st.booleans())
def test_flushed_runs_survive_a_power_loss(tmp_path_factory: pytest.TempPathFactory, kept: int, zeros: bool) -> None:
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(monkeypatch, folder)
        store = Store(folder)
        for number in range(6):
            store.append(record(number))
            if number == 2:
                disk.now_s += 1.0
                store.settle()
        content = (folder / FILE).read_bytes()
        store.close()
    flushed = len(disk.flushed[1])
    kept = flushed + kept % (len(content) - flushed + 1)
    # Some file systems keep the length of a file without the last written data, and have zeros there.
    (folder / FILE).write_bytes(content[:kept] + (b"\0" * (len(content) - kept) if zeros else b""))
    with Store(folder) as store:
        assert list(store.records)[:3] == ["key0", "key1", "key2"]
        assert all(run.record() == record(int(key[3:])) for key, run in store.records.items())
        store.append(record(7))
    with read(folder) as store:
        assert "key7" in store.records
        assert store.notes == []


def test_failed_flush_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    store = Store(tmp_path)
    store.append(record(0))
    disk.now_s += 1.0
    store.settle()
    store.append(record(1))
    disk.now_s += 1.0
    disk.fails = True
    with pytest.raises(RunFailed, match="finished runs could not be saved: No space left on device"):
        store.settle()
    assert list(store.records) == ["key0"]
    assert (tmp_path / FILE).read_bytes() == disk.flushed[-1]
    store.close()
    with read(tmp_path) as again:
        assert list(again.records) == ["key0"]


def test_last_records_are_flushed_before_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, tmp_path)
    store = Store(tmp_path)
    store.append(record(0))
    disk.fails = True
    with pytest.raises(RunFailed, match="could not be saved"):
        store.close()


def test_damaged_file_is_moved_without_loading_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number in range(100):
            store.append(dataclasses.replace(record(number), document=document(text=f"{number}" * 50_000)))
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content.replace(b"point 7", b"point X", 1))
    tracemalloc.start()
    with Store(tmp_path) as store:
        _, peak = tracemalloc.get_traced_memory()
        assert len(store.records) == 99
        store.append(record(7))
    tracemalloc.stop()
    assert peak < len(content) / 2
    with read(tmp_path) as store:
        assert (len(store.records), store.notes) == (100, [])


def test_different_runs_have_different_keys() -> None:
    base = Request("text", "file", ("a=1",), 1)
    assert run_key(base) == run_key(Request("text", "other file", ("a=1",), 1))
    others = [
        Request("text2", "file", ("a=1",), 1),
        Request("text", "file", ("a=2",), 1),
        Request("text", "file", ("a=1",), 2),
    ]
    assert len({run_key(r) for r in [base, *others]}) == 4


def test_keys_are_those_of_earlier_stores() -> None:
    request = Request("a = 1\n", "s.toml", ("k=1", 'l="é"'), 7)
    text = json.dumps(["a = 1\n", ["k=1", 'l="é"'], 7])
    assert run_key(request) == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_repetitions_have_the_keys_of_single_runs() -> None:
    seeds = [7, None, 0, 2**63 - 1]
    requests = [Request("a = 1\n", "s.toml", ("k=1",), seed) for seed in seeds]
    assert [*run_keys(requests[0], seeds)] == [*map(run_key, requests)]


def test_lines_in_other_json_spelling_are_read(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    entry = dataclasses.asdict(record(1))
    other = line_of(dict(reversed(entry.items())))
    quoted = line_of({**entry, "key": "key2", "title": 'a "title" with \\ and é'})
    with (tmp_path / FILE).open("ab") as file:
        file.write(other + quoted)
    with read(tmp_path) as store:
        assert list(store.records) == ["key0", "key1", "key2"]
        assert store.records["key1"].record() == record(1)
        assert store.records["key2"].record().title == 'a "title" with \\ and é'
        assert store.notes == []


def test_run_is_readable_after_the_store_is_closed(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with read(tmp_path) as store:
        records = store.records
    assert records["key1"].document == record(1).document
    assert records["key1"].host == record(1).host


def test_memory_per_run_is_independent_of_its_document(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number in range(100):
            store.append(dataclasses.replace(record(number), document=document(text="x" * 50_000)))
    tracemalloc.start()
    with read(tmp_path) as store:
        kept, _ = tracemalloc.get_traced_memory()
        assert len(store.records) == 100
    tracemalloc.stop()
    assert kept < 200_000


@given(key=st.text(min_size=1), title=st.text(), build=st.text(), seed=st.integers(0, 2**63 - 1))
def test_runs_are_found_whatever_their_texts(
    tmp_path_factory: pytest.TempPathFactory, key: str, title: str, build: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    with Store(folder) as store:
        store.append(dataclasses.replace(record(1), key=key, title=title, seed=seed, build=build))
    with Store(folder) as store:
        assert [(run.key, run.build) for run in store.records.values()] == [(key, build)]
        assert store.records[key].record().title == title
