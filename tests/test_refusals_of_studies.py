"""Study definitions that would give wrong numbers are refused; the error names file and line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.scenario import Scenario
from anabranch.study import frames
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.layout import reserved
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = """\
[[claim]]
id = "c"
text = "t"
of = ["F0"]
{more}
"""


def test_parameter_listed_twice_is_refused(tmp_path: Path) -> None:
    text = small_study.STUDY.replace(
        'over = ["capacity", "congestion"]', 'over = ["capacity", "capacity", "congestion"]'
    )
    with pytest.raises(InputError, match=r"study\.toml:\d+: a value is listed twice"):
        load(small_study.write(tmp_path / "study", study=text))


@pytest.mark.parametrize(
    "name", ["seed", "experiment", "subject", "repetition", "flow_goodput_bps", "ours", "kernel_low"]
)
def test_parameter_with_the_name_of_a_column_is_refused(tmp_path: Path, name: str) -> None:
    text = small_study.STUDY.replace("[parameter.capacity]", f"[parameter.{name}]\nvalues = [1]\n[parameter.capacity]")
    with pytest.raises(InputError, match=rf'study\.toml:\d+: "{name}" is a column of the tables of results'):
        load(small_study.write(tmp_path / "study", study=text))


def test_all_columns_of_tables_are_reserved(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    results = tmp_path / "results"
    small_study.execute_quietly(study, results, fake_simulator.simulate)
    with read(results) as store:
        files = frames.write(Analysis(study, study.full, store.records), results)
    columns = {c for f in files for c in (pl.read_csv(f) if f.suffix == ".csv" else pl.read_parquet(f)).columns}
    assert columns - {"capacity", "congestion"} <= reserved()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            'kind = "value"\nexpect = 1\ntolerance = -0.1',
            '"tolerance" has to be a finite number of at least 0, not -0.1',
        ),
        ('kind = "value"\nexpect = 1\ntolerance = nan', '"tolerance" has to be a finite number of at least 0, not nan'),
        ('kind = "value"\nexpect = nan\ntolerance = 1', '"expect" has to be a finite number, not nan'),
        ('kind = "at_least"\nexpect = inf', '"expect" has to be a finite number, not inf'),
        ('kind = "order"\nagainst = {}', '"against" is the quantity of the claim itself for F0'),
        ('kind = "order"\nagainst = { of = ["F0"] }', '"against" is the quantity of the claim itself for F0'),
        (
            'kind = "order"\nwhere = { capacity = 10 }\nagainst = { where = { capacity = 10 } }',
            "the claim itself for F0",
        ),
        ('kind = "order"\nagainst = { where = { capacity = 10 } }', "the claim itself for F0"),
    ],
)
def test_claim_that_cannot_be_judged_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(small_study.write(tmp_path / "study", claims=CLAIM.format(more=more)))
    assert message in str(caught.value)
    assert "claims.toml:" in str(caught.value)


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    mark = "\ufeff"
    changes = {"study": small_study.STUDY, "scenario": small_study.SCENARIO, "published": small_study.PUBLISHED,
               "claims": small_study.CLAIMS}  # fmt: skip
    plain = load(small_study.write(tmp_path / "study"))
    marked = load(small_study.write(tmp_path / "marked" / "study", **{k: mark + v for k, v in changes.items()}))
    assert (marked.claims, marked.published, marked.scenarios) == (plain.claims, plain.published, plain.scenarios)
    assert Scenario.from_file(tmp_path / "marked" / "study" / "scenario.toml").text == small_study.SCENARIO


@pytest.mark.parametrize("name", ["study.toml", "scenario.toml", "claims.toml", "published.csv"])
def test_fifo_is_refused(tmp_path: Path, name: str) -> None:
    folder = small_study.write(tmp_path / "study")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=r'it is not a regular file|holds no "study\.toml"'):
        load(folder)
    if name == "scenario.toml":
        with pytest.raises(InputError, match="it is not a regular file"):
            Scenario.from_file(folder / name)
