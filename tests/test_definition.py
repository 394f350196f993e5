"""Study files are read completely, and every error is reported with its file, line and remedy."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import small_study
from anabranch.errors import InputError
from anabranch.study.definition import load
from anabranch.study.document import line_of
from anabranch.study.library import find, shipped

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.sweep import Point


def _points(folder: Path) -> list[Point]:
    study = load(folder)
    return study.points(study.full)


def test_study_grid_is_read(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    assert len(study.points(study.full)) == 4
    assert len(study.runs(study.full)) == 12
    quick = study.runs(study.quick)
    assert len(quick) == 4
    assert quick[0].point.overrides[-2:] == ('duration="5 s"', 'warmup="1 s"')
    assert len(study.runs(study.effort(quick=False, repetitions=7))) == 28


def test_real_time_worlds_may_have_other_forms(tmp_path: Path) -> None:
    same = load(small_study.write(tmp_path / "same"))
    assert same.effort(quick=True, real_time=True) == dataclasses.replace(same.quick, real_time=True)
    more = '[quick.real_time]\nset = { duration = "3 s" }\nvalues = { capacity = [20] }\n\n[parameter.capacity]'
    text = small_study.STUDY.replace("[parameter.capacity]", more, 1)
    study = load(small_study.write(tmp_path / "other", study=text))
    assert len(study.runs(study.effort(quick=True))) == 4
    runs = study.runs(study.effort(quick=True, real_time=True))
    assert [run.point.values["capacity"] for run in runs] == [20, 20]
    assert runs[0].point.overrides[-1] == 'duration="3 s"'
    assert study.effort(quick=False, real_time=True) == dataclasses.replace(study.full, real_time=True)
    own = "[full.real_time]\nrepetitions = 2\nvalues = { capacity = [10] }\n\n[parameter.capacity]"
    study = load(small_study.write(tmp_path / "full", study=small_study.STUDY.replace("[parameter.capacity]", own, 1)))
    assert len(study.runs(study.effort(quick=False))) == 12
    runs = study.runs(study.effort(quick=False, real_time=True))
    assert [run.point.values["capacity"] for run in runs] == [10] * 4


def test_points_may_have_more_repetitions(tmp_path: Path) -> None:
    more = '[[full.more]]\nexperiment = "pair"\nwhere = { capacity = 20, congestion = "cubic" }\nrepetitions = 8\n\n'
    text = small_study.STUDY.replace("[quick]", more + "[quick]", 1)
    study = load(small_study.write(tmp_path, study=text))
    counts = Counter(tuple(run.point.values.values()) for run in study.runs(study.full))
    assert counts == {(10, "reno"): 3, (10, "cubic"): 3, (20, "reno"): 3, (20, "cubic"): 8}
    assert {len(study.runs(study.effort(quick=False, repetitions=2))) / 4, len(study.runs(study.quick)) / 4} == {2, 1}
    for right, wrong, message in (
        ("where = { capacity = 20", "where = { speed = 20", '"speed" is no parameter of "pair"'),
        ("where = { capacity = 20", "where = { capacity = 30", 'no point of "pair" in the full form has these values'),
        ("repetitions = 8", "repetitions = 0", '"repetitions" has to be a whole number from 1 to 100,000, not 0'),
    ):
        with pytest.raises(InputError, match=message):
            load(small_study.write(tmp_path, study=text.replace(right, wrong)))


def test_published_values_find_their_points(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    assert study.published is not None
    by_title = {p.title: study.published.at(p) for p in study.points(study.full)}
    assert by_title == {
        "pair: capacity = 10, congestion = reno": {"F0": 5.0, "F1": 4.0},
        "pair: capacity = 10, congestion = cubic": {},
        "pair: capacity = 20, congestion = reno": {},
        "pair: capacity = 20, congestion = cubic": {"F0": 11.0, "F1": 8.0},
    }


MISTAKES = [
    ("title = ", "titel = ", 'study.toml:1: "titel" is not known here (did you mean "title"?)'),
    ('title = "A study for tests"\n', "", 'study.toml: "title" is missing in the file'),
    ('centre = "mean"', 'centre = "meen"', 'study.toml:4: "centre" cannot be "meen" (did you mean "mean"?)'),
    ('centre = "mean"', 'centre = "mean"\ninterval = "order-statistics"',
     'study.toml:5: a mean cannot have the interval "order-statistics"; it can have t or bootstrap'),
    ('x = "capacity"', 'kind = "bars"\nx = "capacity"', '"kind" cannot be "bars" (did you mean "bar"?)'),
    ('x = "capacity"', 'kind = "box"', '"x" is missing'),
    ('x = "capacity"', 'width = "colum"\nx = "capacity"', '"width" cannot be "colum" (did you mean "column"?)'),
    ('metric = "goodput"', 'metric = "godput"', 'study.toml:5: "metric" cannot be "godput" (did you mean "goodput"?)'),
    ('about = "', 'abuot = "', 'study.toml:2: "abuot" is not known here (did you mean "about"?)'),
    ("repetitions = 3", "repetitions = 0",
     'study.toml:9: "repetitions" has to be a whole number from 1 to 100,000, not 0'),
    ("repetitions = 3", 'repetitions = "3"',
     'study.toml:9: "repetitions" has to be a whole number from 1 to 100,000, not "3"'),
    ("repetitions = 3", "repetitions = 3\nreps = 4", 'study.toml:10: "reps" is not known here'),
    ("repetitions = 3", 'repetitions = 3\n"" = 4', 'study.toml:8: "" is not known here (known: more,'),
    ("values = [10, 20]", "values = []",
     'study.toml:19: "values" has to be a list of numbers, texts or booleans (at least 1), not []'),
    ("values = [10, 20]", "values = [10, 10]", "study.toml:19: a value is listed twice"),
    ("values = [10, 20]", "values = 10", 'study.toml:19: "values" has to be a list of numbers'),
    ('over = ["capacity", "congestion"]', 'over = ["capcity"]',
     'study.toml:30: "capcity" is no parameter of this study (did you mean "capacity"?)'),
    ('scenario = "scenario.toml"', 'scenario = "other.toml"',
     'study.toml:29: the scenario "other.toml" cannot be read: No such file or directory'),
    ('values = { capacity = [10] }', 'values = { capcity = [10] }', '"capcity" is no parameter of this study'),
    ('file = "published.csv"', 'file = "missing.csv"', "missing.csv: published values cannot be read"),
    ('value_column = "mbps"', 'value_column = "mbs"', 'published.csv:1: has no column "mbs" (did you mean "mbps"?)'),
    ('match = { capacity = "{capacity}" }', 'match = { cap = "{capacity}" }', 'published.csv:1: has no column "cap"'),
    ('claims = "claims.toml"', 'claims = "claim.toml"', "claim.toml: cannot be read: No such file or directory"),
    ('x = "capacity"', 'x = "capazity"',
     'study.toml:48: "capazity" is no parameter of experiment "pair" (did you mean "capacity"?)'),
    ('x = "capacity"', "", 'study.toml:45: "x" is missing in figure.0'),
    ('title = "Goodput of two flows"', 'kind = "pie"', 'study.toml:47: "kind" cannot be "pie" (known: bar'),
    ('parameter = "capacity"', 'parameter = "delay"', 'study.toml:53: "delay" is no parameter of experiment "pair"'),
    ("[experiment.pair]", "[experiments.pair]",
     'study.toml:27: "experiments" is not known here (did you mean "experiment"?)'),
    ('title = "A study', 'title = A study', "study.toml:1: is not TOML"),
    ('about = "Two', 'about = "Two\n', "study.toml:2: is not TOML: a text is not closed at the end of its line"),
    ('title = "A study', '[figure]\ntitle = "A study', "[figure] in line 1 is one table, and there may be several"),
    ('set = { "flow.F0.congestion" = "{congestion}" }', 'set = { "flow.F0.congestion" = "{congesion}" }',
     'study.toml: "{congesion}" refers to "congesion", which is no parameter here (did you mean "congestion"?)'),
    ("values = { capacity = [10] }", "values = { capacity = [] }",
     'study.toml:14: without a value of "capacity" there is nothing to run'),
    ("values = { capacity = [10] }", "values = { capacity = [10, 10.0] }", "study.toml:14: a value is listed twice"),
    ("repetitions = 3", "repetitions = 100_001",
     'study.toml:9: "repetitions" has to be a whole number from 1 to 100,000, not 100001'),
    ('F1 = "reno" }', 'F1 = "{cogestion}" }',
     'study.toml:31: "{cogestion}" refers to "cogestion", which is no parameter here (did you mean "congestion"?)'),
    ('labels = { F0 = "{congestion}", F1', 'labels = { F0 = "{congestion}", FI',
     'study.toml:31: "labels" has to name flows, paths, links or hosts, not "FI" (known: F0, F1, bottleneck)'),
    ('over = ["capacity", "congestion"]', 'over = ["capacity"]\nset = { "flow.F1.congestion" = "cubic" }',
     'study.toml:32: "{congestion}" refers to "congestion", which is no parameter here'),
    ('relative_to = "capacity"', 'relative_to = "capacty"',
     'study.toml:37: "capacty" is no parameter of experiment "pair" (did you mean "capacity"?)'),
    ('relative_to = "capacity"', 'relative_to = "congestion"',
     'study.toml:37: "relative_to" needs a parameter whose values are numbers: "congestion" has "reno"'),
    ('group_by = "congestion"', 'group_by = "congstion"',
     'study.toml:38: "congstion" is no parameter of a compared experiment (did you mean "congestion"?)'),
    ('flows = { F0 = 0, F1 = 1 }', 'flows = { F0 = 0, F2 = 1 }',
     'study.toml:39: "flows" has to name a flow, not "F2"'),
    ('match = { capacity = "{capacity}" }', 'match = { capacity = "{zz}" }',
     'study.toml:40: "{zz}" refers to "zz", which is no parameter here'),
    ('pair = { cc = "{congestion}" }', 'pair = { cc = "{zz}" }', 'study.toml:43: "{zz}" refers to "zz"'),
    ('pair = { cc', 'piar = { cc', 'study.toml:43: there is no experiment "piar" (did you mean "pair"?)'),
    ('columns = "congestion"', 'series = "congesion"',
     'study.toml:49: "congesion" is no parameter of experiment "pair" (did you mean "congestion"?)'),
    ('parameter = "capacity"', 'parameter = "congestion"',
     'study.toml:53: "parameter" needs a parameter whose values are numbers: "congestion" has "reno"'),
    ('name = "goodput"', 'name = "../../evil"',
     'study.toml:46: "name" has to be a name of letters, digits, "-" and "_", since it becomes a file'),
    ('columns = "congestion"', 'where = { congestion = "cubix" }',
     'study.toml:49: "congestion" is never cubix in "pair" (did you mean "cubic"?)'),
    ('columns = "congestion"', 'where = { congestion = [{}] }',
     'study.toml:49: "congestion" has to be a value or a list of values, not [{}]'),
    ('columns = "congestion"', 'labels = { "F3/A" = "Path A" }',
     'study.toml:49: "labels" has to name flows, paths, links or hosts, not "F3/A"'),
    ('columns = "congestion"', 'subjects = ["F3"]', 'study.toml:49: "subjects" has to name a flow, not "F3"'),
    ('columns = "congestion"', 'metric = "path-cwnd"\nsubjects = ["F0"]',
     'study.toml:50: "subjects" has to name FLOW/PATH, not "F0"'),
    ('columns = "congestion"', 'metric = "drops"\nsubjects = ["bottleneck/foward"]',
     'study.toml:50: "subjects" has to name LINK/DIRECTION, not "bottleneck/foward"'),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES, ids=[m[1] or m[0] + " missing" for m in MISTAKES])
def test_wrong_study_is_reported(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert right in small_study.STUDY
    folder = small_study.write(tmp_path / "study", study=small_study.STUDY.replace(right, wrong, 1))
    with pytest.raises(InputError) as caught:
        _points(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_choice_for_a_missing_value_is_refused(tmp_path: Path) -> None:
    text = small_study.STUDY + '\n[parameter.capacity.choice.30]\nduration = "9 s"\n'
    folder = small_study.write(tmp_path / "study", study=text)
    with pytest.raises(InputError, match=r'the choice "30" is not among the values .known: 10, 20.'):
        load(folder)
    more = text.replace("labels = {", "values = { capacity = [10, 30] }\nlabels = {", 1)
    assert (
        len(load(small_study.write(tmp_path / "more", study=more, claims="")).points(load(tmp_path / "more").full)) == 4
    )


CLAIM_MISTAKES = [
    ('kind = "value"', 'kind = "valeu"', '"kind" cannot be "valeu" (did you mean "value"?)'),
    ("tolerance = 0.5", "", 'claims.toml:1: "tolerance" is missing'),
    ('against = { of = ["F1"] }', "", '"against" is missing in a claim of kind "ratio"'),
    ("expect = 90", "expct = 90", 'claims.toml:15: "expct" is not known here (did you mean "expect"?)'),
    ('id = "share"', 'id = "share"\nsource = 1', 'claims.toml:3: "source" is not known here'),
    ('id = "share"', 'id = ""', 'claims.toml:2: "id" is empty; write a name'),
    ('id = "equal"', 'id = "share"', 'claims.toml:18: there is another claim "share"; ids must be unique'),
    ('of = ["F0"]', 'of = ["F0", "Nope"]', 'claims.toml:5: "of" has to name a flow, not "Nope" (known: F0, F1)'),
    ('of = ["F0"]', "of = []", 'claims.toml:5: "of" has to name what the claim is about'),
    ('of = ["F0"]', "", 'claims.toml:1: "of" has to name a flow, not ""'),
    (
        "where = { capacity = 10 }",
        "where = { capcity = 10 }",
        'claims.toml:6: "capcity" is no parameter of experiment "pair" (did you mean "capacity"?)',
    ),
    ("where = { capacity = 10 }", "where = { capacity = [10, 17] }", 'claims.toml:6: "capacity" is never 17 in "pair"'),
    (
        "against = { where = { capacity = 10 } }",
        "against = { where = { capacity = [10, 20] } }",
        'claims.toml:32: "where" in "against" has to name one value of "capacity" to compare with',
    ),
    (
        'against = { of = ["F1"] }',
        'against = { of = ["F0", "F1"] }',
        'claims.toml:24: "of" in "against" has to name 1 or 1, one for each in the claim',
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), CLAIM_MISTAKES, ids=[m[2] for m in CLAIM_MISTAKES])
def test_wrong_claim_definition_is_reported(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    folder = small_study.write(tmp_path / "study", claims=small_study.CLAIMS.replace(right, wrong, 1))
    with pytest.raises(InputError) as caught:
        load(folder)
    assert message in str(caught.value)


def test_paths_and_links_have_labels(tmp_path: Path) -> None:
    labels = '"F0/A" = "Path A", "bottleneck/forward" = "{capacity}" }'
    text = small_study.STUDY.replace('F1 = "reno" }', labels)
    assert load(small_study.write(tmp_path / "study", study=text)).experiments["pair"].labels["F0/A"] == "Path A"


GROUP = """
[[published.group]]
name = "all"
experiment = "pair"
where = { capacity = 10 }
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"pair"', '"piar"', 'there is no experiment "piar" (did you mean "pair"?)'),
        ("capacity = 10", "capacity = 11", '"capacity" is never 11 in "pair"'),
        ("capacity = 10", "cap = 10", '"cap" is no parameter of experiment "pair"'),
    ],
)
def test_wrong_published_group_is_reported(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert load(small_study.write(tmp_path / "fine", study=small_study.STUDY + GROUP)).published
    folder = small_study.write(tmp_path / "study", study=small_study.STUDY + GROUP.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load(folder)
    assert message in str(caught.value)
    assert caught.value.line is not None


TWO_GRIDS = """
[parameter.rounds]
values = [1, 2]

[experiment.other]
scenario = "scenario.toml"
over = ["capacity", "congestion", "rounds"]
"""


def test_ambiguous_counterpart_is_refused(tmp_path: Path) -> None:
    study = small_study.STUDY.replace('x = "capacity"', 'experiment = "pair"\nx = "capacity"') + TWO_GRIDS
    claims = """
[[claim]]
id = "across"
text = "Compared with another experiment"
kind = "order"
experiment = "pair"
of = ["F0"]
against = { experiment = "other" }
"""
    folder = small_study.write(tmp_path / "study", study=study, claims=claims)
    with pytest.raises(InputError, match=r'claims.toml:8: "against" leaves open which "rounds" of "other" is meant'):
        load(folder)
    fixed = claims.replace('"other" }', '"other", where = { rounds = 2 } }')
    assert load(small_study.write(tmp_path / "study", study=study, claims=fixed)).claims


def test_duplicate_figure_name_is_refused(tmp_path: Path) -> None:
    text = small_study.STUDY + small_study.WINDOWS.replace('"windows"', '"goodput"', 1)
    with pytest.raises(InputError, match='there is another figure "goodput"'):
        load(small_study.write(tmp_path / "study", study=text))


def test_figure_over_foreign_parameter_is_refused(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('x = "capacity"', 'experiment = "pair"\nx = "rounds"') + TWO_GRIDS
    with pytest.raises(InputError, match=r'study.toml:49: "rounds" is no parameter of experiment "pair"'):
        load(small_study.write(tmp_path / "study", study=text))


def test_published_value_without_point_is_refused(tmp_path: Path) -> None:
    published = small_study.PUBLISHED.replace("0,11", "0,0")
    load(small_study.write(tmp_path / "fine", published=published))
    study = small_study.STUDY.replace('relative_to = "capacity"\n', "")
    with pytest.raises(InputError, match=r'published.csv:4: a deviation cannot be a share of 0.*"relative_to"'):
        load(small_study.write(tmp_path / "study", study=study, published=published))
    unused = small_study.PUBLISHED + "30,reno,0,0\n"
    load(small_study.write(tmp_path / "unused", study=study, published=unused))
    text = small_study.STUDY.replace("values = [10, 20]", "values = [0, 10, 20]")
    with pytest.raises(InputError, match=r'study.toml:37: a deviation cannot be a share of 0, a value of "capacity"'):
        load(small_study.write(tmp_path / "zero", study=text))


def test_template_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", scenario="title = Two flows\n")
    with pytest.raises(InputError, match=r"scenario.toml:1: not TOML"):
        load(folder)


def test_each_value_may_have_a_template(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('scenario = "scenario.toml"', 'scenario = "scenario-{capacity}.toml"')
    folder = small_study.write(tmp_path / "study", study=text)
    with pytest.raises(InputError, match=r'the scenario "scenario-10.toml" cannot be read'):
        load(folder)
    for capacity in (10, 20):
        (folder / f"scenario-{capacity}.toml").write_text(small_study.SCENARIO, encoding="utf-8")
    assert {p.scenario for p in _points(folder)} == {"scenario-10.toml", "scenario-20.toml"}


def test_published_value_must_be_a_number(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", published=small_study.PUBLISHED.replace("0,11", "0,much"))
    with pytest.raises(InputError, match=r'published.csv:4: "much" in column "mbps" is not a number'):
        load(folder)
    folder = small_study.write(tmp_path / "short", published=small_study.PUBLISHED.replace("cubic,0,11", "cubic,0"))
    with pytest.raises(InputError, match=r'published.csv:4: column "mbps" has no value'):
        load(folder)


def test_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'holds no "study.toml"'):
        load(tmp_path)


def test_studies_are_found_by_name_folder_and_file(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "mine")
    assert find(str(folder)).name == "mine"
    assert find(str(folder / "study.toml")).name == "mine"
    for name in shipped():
        assert find(name).name == name
    with pytest.raises(InputError, match='did you mean "lugowski2017-red"'):
        find("lugowski-red")


def test_nested_keys_have_line_numbers() -> None:
    text = "a = 1\n[[f]]\nx = 1\n[[f.r]]\ny = 1\n[[f]]\nx = 2\n[[f.r]]\ny = 2\n[[f.r]]\ny = 3\n"
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("f", 0, "x")) == 3
    assert line_of(text, ("f", 1, "x")) == 7
    assert line_of(text, ("f", 1, "r", 1, "y")) == 11
    assert line_of(text, ("f", 0, "r", 0, "z")) == 4
