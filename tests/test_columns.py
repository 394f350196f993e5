"""Rows stored as columns equal the frame that polars makes of them, in memory and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fake_simulator
import small_study
from anabranch.results import flatten
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.columns import Columns, Parts
from anabranch.study.definition import load
from anabranch.study.store import read

leaves = st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
names = st.sampled_from(["a", "b-c", "b", "c", "d"])
tables = st.recursive(
    st.dictionaries(names, leaves, max_size=4), lambda inner: st.dictionaries(names, leaves | inner, max_size=4)
)


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def columns_of(rows: list[tuple[dict[str, Any], dict[str, Any]]], schema: pl.Schema) -> pl.DataFrame:
    columns = Columns(schema)
    for shared, own in rows:
        columns.add(("", shared), ("own_", own))
    return columns.frame()


def assert_same(ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    assert list(ours.schema.items()) == list(theirs.schema.items())
    assert ours.equals(theirs)


@given(st.lists(st.tuples(tables, tables), min_size=1, max_size=8))
def test_columns_are_those_of_flattened_rows(rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    flat = [{**flatten(shared), **flatten(own, "own_")} for shared, own in rows]
    if any(flat):
        expected = frame_of(flat)
        assert_same(columns_of(rows, expected.schema), expected)


def test_tables_with_equal_keys_stay_distinct() -> None:
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"a": {"b": {}}, "b": 1}),
        ({}, {"a": {"b": 1}, "b": {}}),
        ({}, {"a": 1, "b": {"b": 2}}),
        ({"a": 3}, {}),
    ]
    expected = frame_of([{**flatten(s), **flatten(o, "own_")} for s, o in rows])
    assert_same(columns_of(rows, expected.schema), expected)


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
    counters = [{"key": "tcpi_max_pacing_rate", "value": 2**64 - 1}]
    columns = Columns({"counters": kind})
    columns.add(("", {"counters": counters}))
    assert columns.frame()["counters"].to_list() == [counters]


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
    for batch in (5000, 5, 1):
        monkeypatch.setattr(frames, "_BATCH", batch)
        with read(results) as store:
            analysis = Analysis(study, study.full, store.records)
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
    record = type(next(iter(store.records.values()))).record

    def counted(stored: Any) -> Any:
        nonlocal count
        count += 1
        return record(stored)

    monkeypatch.setattr("anabranch.study.store.StoredRun.record", counted)
    frames.write(analysis, results)
    assert [c.ours for c in analysis.comparisons]
    assert (count, analysis.overloaded, analysis.silences) == (12, 0, [])
    # Values appear once, although an earlier reader was aborted.
    next(iter(apart.records()))
    assert apart.comparisons == analysis.comparisons
