"""Rows stored as columns equal the frame that polars makes of them, in memory and on disk; so do values of metrics."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_simulator
import small_study
from anabranch._core.simulator import Request
from anabranch.metrics import METRICS, read_all
from anabranch.results import flatten
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.columns import Parts, series, table_series
from anabranch.study.definition import load
from anabranch.study.layout import ROOT, SCHEMA, inner, parts
from anabranch.study.readings import DocumentParts, Readings
from anabranch.study.store import StoredRun, read
from anabranch.study.transposed import Transposed
from anabranch.study.typed import Classes, FixedTable, Reader, class_of
from anabranch.study.typed import read as read_typed

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


class Stored:
    """A stored run of which only the text is needed."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def text(self) -> bytes:
        fields = {"key": "k", "title": "t", "repetition": 1, "seed": 1, "build": "b", "host": {}, "schema": SCHEMA}
        return json.dumps({**fields, "document": self._document}, sort_keys=True).encode()


def typed_documents(found: list[dict[str, Any]]) -> list[Any]:
    """Documents as a report reads them: after the first one, tables with the same keys have classes."""
    reader = Reader()
    return [reader.read(cast("StoredRun", Stored(document))).document for document in (*found[:1], *found)][1:]


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
    fixed = {(part, name): keys for name in rows[0] if (keys := same_keys([row.get(name) for row in rows]))}
    for kind in (class_of(part), Classes(fixed).of(part)):
        typed = [msgspec.json.decode(json.dumps(row), type=kind) for row in rows]
        ours = pl.DataFrame(list(series(Transposed(part, typed), prefix, schema)))
        assert_same(ours.select(expected.columns), expected)


def same_keys(tables: list[Any]) -> tuple[str, ...]:
    """The keys of tables that all have the same ones in the same order; none for other values."""
    if not all(isinstance(table, dict) and set(table) <= set(TABLE_KEYS) for table in tables):
        return ()
    (keys, *others) = {tuple(table) for table in tables}
    return () if others else keys


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
        if batch := typed_documents(found[begin : begin + 2]):
            ours.add(points[begin : begin + len(batch)], DocumentParts(batch))
    ours.finish()
    for document, point in zip(found, points, strict=False):
        for metric, subject, value in read_all(document):  # type: ignore[arg-type]
            expected.setdefault((point, metric), {}).setdefault(subject, []).append(value)
    for point in "pq":
        for metric in METRICS:
            values = {subject: each.tolist() for subject, each in ours.of(point, metric).items()}
            assert list(values.items()) == list(expected.get((point, metric), {}).items())


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(found=documents)
def test_fixed_tables_have_the_values_of_documents(found: list[dict[str, Any]]) -> None:
    reader = Reader()
    for document in (*found, *found):
        stored = cast("StoredRun", Stored(document))
        ours, theirs = (msgspec.json.encode(record) for record in (reader.read(stored), read_typed(stored)))
        assert ours == theirs


def test_table_with_other_keys_becomes_a_dictionary() -> None:
    document = cast("dict[str, Any]", fake_simulator.simulate(Request(small_study.SCENARIO, "s.toml", (), 1)))
    reader = Reader()

    def kinds(drops: dict[str, int]) -> list[type]:
        """Classes of two tables of a link and a flow, of which the first one is given."""
        links = [{**link, "drops_by_cause": drops} for link in document["links"]]
        flows = [{**flow, "blocked_s": {"a": 1.0}} for flow in document["flows"]]
        found = reader.read(cast("StoredRun", Stored({**document, "links": links, "flows": flows}))).document
        return [type(found["links"][0]["drops_by_cause"]), type(found["flows"][0]["blocked_s"])]

    assert kinds({"loss": 1, "queue": 2}) == [dict, dict]
    assert all(issubclass(kind, FixedTable) for kind in kinds({"loss": 3, "queue": 4}))
    for drops in ({"loss": 1, "other": 2}, {"loss": 1, "queue": 2}, {"loss": 1}):
        links, flows = kinds(drops)
        assert links is dict
    assert issubclass(flows, FixedTable)


@pytest.mark.parametrize("sizes", [[2, 2], [0, 0], [None, None], [1, None, 0, 3, 1, 2, None, 0], []])
def test_lists_have_the_sizes_of_their_tables(sizes: list[int | None]) -> None:
    kind = frames._column_type("BTreeMap<String,u64>")
    assert kind is not None
    tables = [None if size is None else {f"k{i}": 10 * at + i for i in range(size)} for at, size in enumerate(sizes)]
    expected = [table and [{"key": k, "value": v} for k, v in table.items()] for table in tables]
    expected = [[] if table == {} else row for table, row in zip(tables, expected, strict=True)]
    assert table_series("counters", tables, kind).to_list() == expected


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
    column = table_series("counters", [{"tcpi_max_pacing_rate": 2**64 - 1}], kind)
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
    text = StoredRun.text

    def counted(stored: StoredRun) -> bytes:
        nonlocal count
        count += 1
        return text(stored)

    monkeypatch.setattr(StoredRun, "text", counted)
    frames.write(analysis, results)
    assert [c.ours for c in analysis.comparisons]
    assert (count, analysis.overloaded, analysis.silences) == (12, 0, [])
    # Values appear once, although an earlier reader was aborted.
    next(iter(apart.batches(1)))
    assert apart.comparisons == analysis.comparisons
