"""Rows stored as columns equal the frame that polars makes of them, in memory and on disk; so do values of metrics."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_simulator
import small_study
from anabranch._native import RecordDecoder
from anabranch.metrics import METRICS, read_all
from anabranch.results import flatten
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.columns import Parts, series, table_series
from anabranch.study.definition import load
from anabranch.study.layout import ROOT, inner, parts
from anabranch.study.part_columns import PartColumns, Tables
from anabranch.study.readings import DocumentParts, Readings
from anabranch.study.store import StoredRun, line_of, read
from stored_documents import records_of

_LEAVES = {
    "f64": st.integers(0, 2**53) | st.floats(-1e200, 1e200),
    "String": st.sampled_from(["", "A", "B", "ä"]),
    "bool": st.booleans(),
}


TABLE_KEYS = ["x", "y-z", "recovery"]


def values_of(kind: str) -> st.SearchStrategy[Any]:
    """Values of a type in Rust, as in a document."""
    if optional := inner(kind, "Option"):
        return st.none() | values_of(optional)
    if item := inner(kind, "Vec") or kind[1:].partition(";")[0] * kind.startswith("["):
        return st.lists(values_of(item), max_size=2)
    if entry := inner(kind, "BTreeMap"):
        return st.dictionaries(st.sampled_from(TABLE_KEYS), values_of(entry.partition(",")[2]), max_size=2)
    if kind in parts():
        return st.deferred(lambda: part_of(kind))
    return _LEAVES.get(kind, st.integers(0, 2**53))


@cache
def part_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Parts of documents, with and without the keys that may be absent."""
    keys = parts()[name].values()
    needed = {key.name: values_of(key.kind) for key in keys if not key.may_be_absent}
    optional = {key.name: values_of(key.kind) for key in keys if key.may_be_absent}
    return st.fixed_dictionaries(needed, optional=optional)


documents = st.lists(part_of(ROOT), min_size=1, max_size=4)


def decoded(part: str, rows: list[dict[str, Any]]) -> PartColumns:
    """Parts as columns."""
    decoder = RecordDecoder([("part", part, False)])
    assert [decoder.add(line_of({"part": row})[:-1]) for row in rows] == [None] * len(rows)
    return PartColumns(part, decoder.take().parts["part"])


def row_of(part: dict[str, Any], prefix: str, name: str) -> dict[str, Any]:
    """A row of a table, as flattened tables: those with keys of their own are lists of keys and values."""
    row = {key: value for key, value in part.items() if value is not None}
    for key in parts()[name].values():
        if key.type.startswith("BTreeMap<"):
            row[key.name] = [{"key": k, "value": v} for k, v in part.get(key.name, {}).items()]
    return flatten(row, prefix)


def frame_of(rows: list[dict[str, Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """A frame that polars makes of rows, one value after the other."""
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) for row in rows], kind, strict=False) for name, kind in schema.items()]
    )


def columns_of(part: str, prefix: str, rows: list[dict[str, Any]]) -> None:
    schema = frames._part_columns(prefix, part)
    expected = frame_of([row_of(row, prefix, part) for row in rows], schema)
    ours = pl.DataFrame(list(series(decoded(part, rows), prefix, schema)))
    assert_same(ours.select(expected.columns), expected)


def assert_same(ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    assert list(ours.schema.items()) == list(theirs.schema.items())
    assert ours.equals(theirs)


@pytest.mark.parametrize("part", ["FlowResult", "PathResult", "LinkResult"])
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_columns_are_those_of_flattened_rows(part: str, data: st.DataObject) -> None:
    columns_of(part, "own_", data.draw(st.lists(part_of(part), min_size=1, max_size=4)))


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(found=documents, points=st.lists(st.sampled_from("pq"), min_size=4, max_size=4))
def test_readings_are_those_of_each_document(found: list[dict[str, Any]], points: list[str]) -> None:
    ours = Readings()
    expected: dict[tuple[str, str], dict[str, list[float]]] = {}
    for begin in (0, 2):
        if batch := found[begin : begin + 2]:
            ours.add(points[begin : begin + len(batch)], DocumentParts(records_of(batch).documents))
    ours.finish()
    for document, point in zip(found, points, strict=False):
        for metric, subject, value in read_all(document):  # type: ignore[arg-type]
            expected.setdefault((point, metric), {}).setdefault(subject, []).append(value)
    for point in "pq":
        for metric in METRICS:
            values = {subject: each.tolist() for subject, each in ours.of(point, metric).items()}
            assert list(values.items()) == list(expected.get((point, metric), {}).items())


def tables_of(rows: list[dict[str, Any]], kind: str) -> Tables:
    """Tables of a type in Rust as columns."""
    decoder = RecordDecoder([("table", kind, False)])
    assert [decoder.add(line_of({"table": row})[:-1]) for row in rows] == [None] * len(rows)
    return Tables(kind, decoder.take().parts["table"])


@pytest.mark.parametrize("sizes", [[2, 2], [0, 0], [1, 0, 3, 1, 2, 0], []])
def test_lists_have_the_sizes_of_their_tables(sizes: list[int]) -> None:
    kind = frames._column_type("BTreeMap<String,u64>")
    assert kind is not None
    tables = [{f"k{i}": 10 * at + i for i in range(size)} for at, size in enumerate(sizes)]
    expected = [[{"key": k, "value": v} for k, v in table.items()] for table in tables]
    assert table_series("counters", tables_of(tables, "BTreeMap<String,u64>"), kind).to_list() == expected


def test_frames_on_disk_equal_those_in_memory(tmp_path: Path) -> None:
    schema = pl.Schema({"a": pl.Float64(), "b": pl.String(), "list": pl.List(pl.String())})
    rows: list[dict[str, Any]] = [{"a": 1.0}, {"b": "x", "list": ["y"]}, {"a": 3.0, "list": []}]
    found = [pl.DataFrame([row], schema=schema) for row in rows]
    for count in (0, 1, 2, 3):
        parts = Parts(tmp_path, f"of-{count}", schema)
        for frame in found[:count]:
            parts.add(frame)
        parts.write(tmp_path / "all.parquet")
        assert_same(pl.read_parquet(tmp_path / "all.parquet"), pl.concat([pl.DataFrame(schema=schema), *found[:count]]))


def test_largest_counter_of_a_kernel_has_a_column() -> None:
    kind = frames._column_type("BTreeMap<String,u64>")
    assert kind is not None
    tables = tables_of([{"tcpi_max_pacing_rate": 2**64 - 1}], "BTreeMap<String,u64>")
    column = table_series("counters", tables, kind)
    assert column.to_list() == [[{"key": "tcpi_max_pacing_rate", "value": 2**64 - 1}]]


@pytest.mark.parametrize("count", [1, 2])
def test_full_disk_is_an_os_error(tmp_path: Path, count: int) -> None:
    parts = Parts(tmp_path, "part", pl.Schema({"a": pl.Int64()}))
    for _ in range(count):
        parts.add(pl.DataFrame({"a": [1, 2]}))
    with pytest.raises(OSError, match="No space left on device"):
        parts.write(Path("/dev/full"))


def test_run_count_does_not_change_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(small_study.write(tmp_path / "study"))
    results = tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.sometimes_recovering)
    found = []
    for runs, size, batches in ((2_000, 16_000_000, 1), (5, 16_000_000, 3), (2_000, 1, 12)):
        monkeypatch.setattr("anabranch.study.analysis._BATCH", runs)
        monkeypatch.setattr("anabranch.study.analysis.MAX_BYTES", size)
        with read(results) as store:
            analysis = Analysis(study, study.full, store.records)
        assert len([*analysis.batches()]) == batches
        written = frames.write(analysis, results)
        found.append([pl.read_parquet(file) for file in written[:2]])
        assert sorted(file.name for file in results.iterdir()) == [
            "links.parquet",
            "points.csv",
            "runs.jsonl",
            "runs.parquet",
        ]
    for ours in found[1:]:
        for frame, theirs in zip(ours, found[0], strict=True):
            assert_same(frame, theirs)


def test_each_document_is_read_once_for_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(small_study.write(tmp_path / "study"))
    results = tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    with read(results) as store:
        analysis, apart = (Analysis(study, study.full, store.records) for _ in range(2))
    count = 0
    line = StoredRun.line

    def counted(stored: StoredRun) -> bytes:
        nonlocal count
        count += 1
        return line(stored)

    monkeypatch.setattr(StoredRun, "line", counted)
    frames.write(analysis, results)
    assert [c.ours for c in analysis.comparisons]
    assert (count, analysis.overloaded, analysis.silences) == (12, 0, [])
    # Values appear once, although an earlier reader was aborted.
    monkeypatch.setattr("anabranch.study.analysis._BATCH", 1)
    next(iter(apart.batches()))
    assert apart.comparisons == analysis.comparisons
