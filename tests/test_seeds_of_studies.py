"""Seeds: the key `name` keeps them when a folder is renamed, `paired` lets variants share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.stats import interval_of_difference
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.store import read

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.study.model import Study

CLAIM = """\
[[claim]]
id = "c"
text = "Reno gets less than CUBIC"
kind = "order"
of = ["F0"]
where = { congestion = "cubic", capacity = 10 }
against = { where = { congestion = "reno" } }
"""


def study(folder: Path, keys: str) -> Study:
    text = small_study.STUDY.replace("centre =", f"{keys}\ncentre =", 1)
    return load(small_study.write(folder, study=text, claims=CLAIM))


def seeds(found: Study) -> dict[tuple[object, object, int], int]:
    return {
        (r.point.values["capacity"], r.point.values["congestion"], r.repetition): r.seed for r in found.runs(found.full)
    }


def test_name_keeps_seeds_of_a_renamed_folder(tmp_path: Path) -> None:
    first, second = (study(tmp_path / name, 'name = "pair"') for name in ("one", "two"))
    assert seeds(first) == seeds(second)
    assert seeds(study(tmp_path / "one", "")) != seeds(study(tmp_path / "two", ""))


def test_paired_parameter_stays_out_of_the_seed(tmp_path: Path) -> None:
    found = seeds(study(tmp_path / "study", 'paired = ["congestion"]'))
    assert all(found[capacity, "reno", n] == found[capacity, "cubic", n] for capacity, _, n in found)
    assert len(set(found.values())) == 6


@pytest.mark.parametrize("is_paired", [True, False])
def test_claim_between_variants_is_paired(tmp_path: Path, is_paired: bool) -> None:
    found = study(tmp_path / "study", 'paired = ["congestion"]' if is_paired else "")
    small_study.execute_quietly(found, tmp_path / "results", fake_simulator.simulate)
    with read(tmp_path / "results") as store:
        analysis = Analysis(found, found.full, store.records)
        ((measured,),) = (verdict.measured for verdict in analysis.verdicts)
        reno, cubic = (analysis.samples(point, "goodput")["F0"] for point in analysis.points()[:2])
    assert measured.interval == interval_of_difference(cubic, reno, "mean", paired=is_paired)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('name = "a/b"', 'since it becomes a folder, not "a/b"'),
        ('name = ".."', 'since it becomes a folder, not ".."'),
        ('paired = ["congestoin"]', 'did you mean "congestion"'),
    ],
)
def test_wrong_key_is_reported(tmp_path: Path, keys: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        study(tmp_path / "study", keys)
    assert message in str(caught.value)
