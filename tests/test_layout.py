"""Stored records and tables: records of another layout are left out and counted; tables have one schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.report.terminal import unreadable
from anabranch.report.write import write_all
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.layout import SCHEMA, fault
from anabranch.study.store import FILE, line_of, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.study.model import Study

    Change = Callable[[dict[str, Any]], object]

EARLIER = Path(__file__).parent / "stores" / "earlier.jsonl"
"""Two runs of the quick form, as stored before records had the number of their layout."""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load(small_study.write(tmp_path / "study"))


def changed(study: Study, results: Path, change: Change, *, every: int = 1) -> Analysis:
    """The runs of a study; each n-th stored run is changed."""
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    header, *lines = (results / FILE).read_bytes().splitlines(keepends=True)
    records = [json.loads(line.split(b" ", 1)[1]) for line in lines]
    for record in records[::every]:
        change(record)
    (results / FILE).write_bytes(header + b"".join(map(line_of, records)))
    with read(results) as store:
        return Analysis(study, study.full, store.records)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: r["document"].pop("version"), "document lacks version"),
        (lambda r: r["document"].pop("jain"), "document lacks jain"),
        (lambda r: [flow.pop("paths") for flow in r["document"]["flows"]], "document.flows[0] lacks paths"),
        (lambda r: r["document"]["flows"][1]["paths"][0].pop("data_packets"), "flows[1].paths[0] lacks data_packets"),
        (lambda r: r["document"]["flows"][0].update(goodput_bps="5"), "flows[0].goodput_bps is '5', not a number"),
        (lambda r: r["document"]["flows"][0].update(goodput_bps=None), "flows[0].goodput_bps is None, not a number"),
        (lambda r: r["document"]["flows"][0].update(speed=1), "flows[0] has 'speed', which is not known"),
        (lambda r: r["document"]["links"][0]["drops_by_cause"].update(queue="x"), "drops_by_cause.queue is 'x'"),
        (lambda r: r["document"]["links"][0].update(drops=-1), "links[0].drops is -1, not a whole number from 0 to"),
        (lambda r: r["document"]["links"][0].update(drops=1.5), "links[0].drops is 1.5, not a whole number"),
        (lambda r: r["document"]["links"][0].update(drops=2**64), "drops is 18446744073709551616, not a whole number"),
        (lambda r: r.update(repetition=-1), "record: invalid type: integer `-1`, expected a whole"),
        (lambda r: r.update(document=[]), "record.document is not of type dict"),
        (lambda r: r.update(new=1), "record has 'new'"),
        (lambda r: r.pop("host"), "record lacks host"),
        (lambda r: r.update(schema=SCHEMA + 1), f"layout {SCHEMA + 1}, not {SCHEMA}"),
    ],
)
def test_record_of_another_layout_is_left_out(tmp_path: Path, study: Study, change: Change, named: str) -> None:
    results = tmp_path / "results"
    analysis = changed(study, results, change, every=4)
    plan = Plan(study, study.full, results, fake_simulator.simulate, "b1")
    report = write_all(analysis, plan).read_text()
    assert (len(analysis.runs), analysis.missing, len(analysis.unreadable)) == (9, 3, 3)
    assert named in unreadable(analysis)
    assert "3 stored runs have another layout than this version's and are left out" in report
    again = small_study.execute_quietly(study, results, fake_simulator.simulate, resume=True)
    assert (again.reused, again.finished) == (9, 3)


def test_store_without_readable_runs_is_an_error(tmp_path: Path, study: Study) -> None:
    results = tmp_path / "results"
    analysis = changed(study, results, lambda record: record["document"].pop("jain"))
    with pytest.raises(InputError, match="holds no run that this version can read; 12 stored runs have another layout"):
        write_all(analysis, Plan(study, study.full, results, fake_simulator.simulate, "b1"))


def test_store_of_an_earlier_version_is_read(tmp_path: Path, study: Study) -> None:
    (tmp_path / FILE).write_bytes(EARLIER.read_bytes())
    with read(tmp_path) as store:
        analysis = Analysis(study, study.quick, store.records)
        assert all(b'"schema"' not in line for line in EARLIER.read_bytes().splitlines())
        assert (len(analysis.runs), analysis.unreadable) == (2, [])


def test_blocked_times_of_earlier_paths_are_left_out(tmp_path: Path, study: Study) -> None:
    (tmp_path / FILE).write_bytes(EARLIER.read_bytes())
    assert b'"paths":[{' in EARLIER.read_bytes()
    with read(tmp_path) as store:
        for stored in store.records.values():
            for flow in stored.checked().document["flows"]:
                assert flow["blocked_s"]
                assert all("blocked_s" not in path for path in flow["paths"])


def test_rows_keep_their_order_among_earlier_layouts(tmp_path: Path, study: Study) -> None:
    def make_earlier(record: dict[str, Any]) -> None:
        record.update(schema=2, host={**record["host"], "cpu": record["host"].get("cpu", "")})
        for flow in record["document"]["flows"]:
            for path in flow["paths"]:
                path["blocked_s"] = {"pacing": 1.0}

    found = []
    for name, change in (("present", lambda _: None), ("earlier", make_earlier)):
        results = tmp_path / name
        analysis = changed(study, results, change, every=3)
        frames.write(analysis, results)
        assert (len(analysis.runs), analysis.unreadable) == (12, [])
        found.append([(results / file).read_bytes() for file in ("runs.parquet", "links.parquet", "points.csv")])
    assert found[0] == found[1]


def test_machine_with_a_number_is_read(tmp_path: Path, study: Study) -> None:
    analysis = changed(study, tmp_path / "results", lambda record: record["host"].update(cpu=7), every=4)
    frames.write(analysis, tmp_path / "results")
    cpus = pl.read_parquet(tmp_path / "results" / "runs.parquet")["host_cpu"]
    assert (cpus == "7").sum() * 4 == len(cpus)


def test_document_of_the_simulator_fits_the_layout(study: Study) -> None:
    from anabranch._core import simulator
    from anabranch.study.engine import request_of

    document = simulator.simulate(request_of(study, study.runs(study.quick)[0]))
    assert fault(document) == ""
    wrong: Any = copy.deepcopy(document)
    wrong["flows"][0]["paths"][0]["links"] = [1]
    assert fault(wrong) == ".flows[0].paths[0].links[0] is 1, not of type str"


def test_tables_have_one_schema(tmp_path: Path, study: Study) -> None:
    found = []
    for name, backend in (("plain", fake_simulator.simulate), ("recovering", fake_simulator.sometimes_recovering)):
        results = tmp_path / name
        small_study.execute_quietly(study, results, backend)
        with read(results) as store:
            frames.write(Analysis(study, study.full, store.records), results)
        found.append([pl.read_parquet(results / table) for table in ("runs.parquet", "links.parquet")])
    for first, second in zip(*found, strict=True):
        assert first.schema == second.schema
        assert pl.Null() not in first.schema.values()
        assert pl.concat([first, second]).height == first.height + second.height
        assert first["schema"].unique().to_list() == [SCHEMA]
    runs = found[0][0]
    assert runs.schema["capacity"] == pl.Float64()
    assert runs.schema["flow_completion_s"] == pl.Float64()
    assert runs["flow_blocked_s"][0].to_list() == [{"key": "send-buffer", "value": 0.0}]
