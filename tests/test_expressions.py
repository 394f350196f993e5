"""Arithmetic in studies: values, units, refused expressions, and arbitrary text."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch.study
import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.expressions import (
    DIVISION,
    FUNCTIONS,
    MAX_NODES,
    OUT_OF_RANGE,
    TOO_LONG,
    ExpressionError,
    NoValueError,
    compile_text,
)  # fmt: skip
from anabranch.metrics import METRICS
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.document import Table
from anabranch.study.engine import Plan
from anabranch.study.keys import MetricKeys, Metrics
from anabranch.study.own_metrics import OwnMetric, read_own_metrics
from anabranch.study.schema import schema
from anabranch.study.scope import Scope
from anabranch.study.store import read
from anabranch.sweep import fill, placeholders
from test_schema import errors

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.sweep import Value

SCOPES = {"pair": Scope("pair", {}, ("F0", "F1", "G"), ("bottleneck", "b-2"), ("S", "D"))}
DATA = {
    "goodput": {"F0": 6.0, "F1": 2.0, "G": 4.0},
    "setup-time": {"F0": 0.0, "F1": 2.0},
    "path-srtt": {"F0/a": 10.0, "F0/b": 30.0, "F1/a": 20.0},
    "drops": {"bottleneck/forward": 3.0, "bottleneck/reverse": 1.0, "b-2/forward": 5.0},
    "host-drops": {"S": 1.0, "D": 2.0},
    "jain": {"": 0.9},
}


def own(text: str, *, more: str = "") -> OwnMetric:
    table = Table.parse(f"[x]\nexpr = '''{text}'''\n{more}", "study.toml", Metrics)
    found = read_own_metrics(table, SCOPES)["x"]
    assert isinstance(found, OwnMetric)
    return found


def value(text: str) -> float:
    values, undefined = own(text).values(DATA)
    assert not undefined
    return values[""]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("goodput(F0) / sum(goodput(flows))", 0.5),
        ("sum(goodput(F*)) - goodput(F1)", 6.0),
        ("mean(goodput(F0, G))", 5.0),
        ("max(goodput(F0), goodput(F1), 7)", 7.0),
        ("path-srtt(F0/b)-path-srtt(F0/a)", 20.0),
        ("median(path-srtt(paths(F0)))", 20.0),
        ("max(path-srtt(paths))/min(path-srtt(*/a))", 3.0),
        ("sum(drops(links))", 9.0),
        ("host-drops(D) / sum(host-drops(hosts))", 2.0 / 3.0),
        ("drops(b-2/forward) - sum(drops(*/reverse))", 4.0),
        ("std(goodput(flows))", 2.0),
        ("sqrt(abs(-goodput(G))) ** 2 * 1e-1", 0.4),
        ("log(jain) < 0", 1.0),
        ("goodput(F0) == goodput(F1)", 0.0),
        ("-2 ** 2 + .5 * 4.", -2.0),
        ("jain-1", -0.1),
    ],
)
def test_expression_has_value(text: str, wanted: float) -> None:
    assert value(text) == pytest.approx(wanted)


def test_expression_of_a_set_has_subjects() -> None:
    share = own("goodput(flows) / sum(goodput(flows))")
    assert (share.level, share.unit) == ("flow", "")
    values, undefined = share.values(DATA)
    assert values == pytest.approx({"F0": 0.5, "F1": 1 / 6, "G": 1 / 3})
    values, undefined = own("goodput(flows) / setup-time(flows)").values(DATA)
    assert (values, undefined) == ({"F1": 1.0}, Counter({DIVISION: 1}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("1 / setup-time(F0)", DIVISION), ("0 ** -1", DIVISION), ("9 ** 999 * jain", OUT_OF_RANGE),
     ("(-1) ** 0.5", OUT_OF_RANGE),
     ("sqrt(-jain)", OUT_OF_RANGE), ("log(0)", OUT_OF_RANGE), ("std(goodput(G))", OUT_OF_RANGE)],
)  # fmt: skip
def test_missing_value_is_counted(text: str, reason: str) -> None:
    assert own(text).values(DATA) == ({}, Counter({reason: 1}))


def test_absent_data_is_not_counted() -> None:
    for text in ("setup-time(G)", "sum(path-srtt(paths(G)))", "answers(F0)"):
        assert own(text).values(DATA) == ({}, Counter())


@pytest.mark.parametrize(
    ("text", "unit"),
    [("goodput(F0) + goodput(F1)", "Mbit/s"), ("2 * goodput(F0) + 1", "Mbit/s"), ("goodput(F0) / goodput(F1)", ""),
     ("goodput(F0) * path-srtt(F0/a)", "Mbit/s·ms"), ("sqrt(goodput(F0) ** 2)", "Mbit/s"),
     ("1 / path-srtt(F0/a)", "ms^-1"),
     ("goodput(F0) > 3", ""), ("log(goodput(F0))", ""), ("mean(utilisation(links))", "%")],
)  # fmt: skip
def test_unit_follows_from_the_expression(text: str, unit: str) -> None:
    assert own(text).unit == unit
    assert own(text, more='unit = "x"\nlabel = "L"').axis == "L [x]"


MISTAKES = [
    ("godput(F0)", 'unknown name "godput" (did you mean "goodput"?)'),
    ("goodput(F9)", 'there is no "F9" ('),
    ("goodput(X*)", 'there is no "X*"'),
    ("host-drops(T)", 'there is no "T"'),
    ("host-drops(links)", '"host-drops" has values of hosts, not of links: write host-drops(hosts)'),
    ("drops(botleneck/forward)", 'there is no "botleneck/forward" (did you mean "bottleneck/forward"?)'),
    ("path-srtt(F0)", "write paths(F0)"),
    ("path-srtt(F7/a)", 'there is no "F7"'),
    ("goodput(paths)", '"goodput" has values of flows, not of paths'),
    ("goodput", '"goodput" needs subjects: goodput(flows), or one of them'),
    ("jain(F0)", '"jain" has one value per run: omit "(F0)"'),
    ("goodput(F0) + path-srtt(F0/a)", "adds or compares Mbit/s and ms"),
    ("goodput(F0) < path-timeouts(F0/a)", "adds or compares Mbit/s and a number without a unit"),
    ("sum(goodput(F0), drops(links))", '"sum" combines Mbit/s and packets'),
    ("goodput(flows) / path-goodput(paths)", "combines values of flows with values of paths"),
    ("goodput(F0) ** goodput(F1)", "raises Mbit/s to a power that is not a number"),
    ("abs(1, 2)", '"abs" takes one value, not 2'),
    ("goodput(F0", "is not closed"),
    ("1 +", "is not an arithmetic expression"),
    ("", "is not an arithmetic expression"),
    ("1e999", "has a number that is too large"),
    ("sum", "may have numbers, names"),
    ("1 if jain else 2", 'unknown name "if"'),
    ("().y", 'unknown name "y"'),
    ("'a'", 'unknown name "a"'),
    ("True", 'unknown name "True"'),
    ("1 < 2 < 3", "one comparison at a time"),
    ("~1", "may have numbers"),
    ("[1]", "may have numbers"),
    ("sum(*[1])", "may have numbers"),
    ("__import__(1)", 'unknown name "__import__"'),
    ("+".join(["1"] * (MAX_NODES // 2 + 2)), "has more than 1,000 nodes"),
    ("1" * 10_001, "has more than 10,000 characters"),
    ("-" * 9_000 + "1", "nested too deeply|more than 1,000 nodes|is not an arithmetic expression"),
    ("(" * 300 + "1" + ")" * 300, "is not an arithmetic expression"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[text[:30] for text, _ in MISTAKES])
def test_wrong_expression_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        own(text.replace("'", '"'))
    assert any(part in str(caught.value) for part in message.split("|"))
    assert str(caught.value).startswith("study.toml:2: ")


def test_cycle_and_taken_names_are_refused() -> None:
    text = '[a]\nexpr = "b + 1"\n[b]\nexpr = "2 * c"\n[c]\nexpr = "a"\n[d]\nexpr = "a"\n'
    with pytest.raises(InputError, match=r"study.toml:2: metrics need one another in a cycle: a → b → c → a"):
        read_own_metrics(Table.parse(text, "study.toml", Metrics), SCOPES)
    with pytest.raises(InputError, match="in a cycle: a → a"):
        read_own_metrics(Table.parse('[a]\nexpr = "a"', "study.toml", Metrics), SCOPES)
    for name in ("goodput", "sum", "flows"):
        with pytest.raises(InputError, match=f'the name "{name}" is taken'):
            read_own_metrics(Table.parse(f'[{name}]\nexpr = "1"', "study.toml", Metrics), SCOPES)


def test_long_chain_of_operators_is_evaluated() -> None:
    assert value("+".join(["1"] * 500)) == 500.0
    assert value("jain*0+" + "-" * 90 + "1") == 1.0


# ---- arbitrary texts and syntax trees

_LEAVES = [
    "1",
    "0",
    "2.5",
    "1e308",
    "goodput(F0)",
    "goodput(flows)",
    "path-srtt(paths(F0))",
    "drops(*/forward)",
    "jain",
]
_OPERATORS = ["+", "-", "*", "/", "**", "<", ">=", "=="]
_TREES = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(_OPERATORS), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, min_size=1, max_size=3)).map(
            lambda t: f"{t[0]}({', '.join(t[1])})"
        ),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=12,
)
_TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="goodput(F01)flows+-*/<>=.,'\"[]{}_ \n\\x:@lambda#", max_size=60),
    st.lists(st.sampled_from([*_LEAVES, *FUNCTIONS, *"+-*/()<>=.,:[]'\n", "**", "jain-", "_0", "__class__"])).map(
        "".join
    ),
)


def evaluated(text: str) -> None:
    """Every text is refused with an `InputError`, or has finite values only."""
    table: Table[Metrics] = Table({"x": MetricKeys(expr=text)}, {}, (), ("", "study.toml"))
    try:
        metric = read_own_metrics(table, SCOPES)["x"]
    except InputError:
        return
    assert isinstance(metric, OwnMetric)
    values, undefined = metric.values(DATA)
    assert all(type(v) is float and math.isfinite(v) for v in values.values())
    assert metric.level != "run" or set(values) <= {""}
    assert all(undefined.values())


@given(_TEXTS)
def test_any_text_is_refused_or_has_values(text: str) -> None:
    evaluated(text)


@given(_TREES)
def test_any_tree_is_refused_or_has_values(text: str) -> None:
    evaluated(text)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), st.sampled_from("+-*"), st.sampled_from("+-*"))
def test_numbers_agree_with_python(numbers: list[float], first: str, second: str) -> None:
    a, b, c = (repr(abs(number)) for number in numbers)
    assert value(f"{a} {first} {b} {second} {c}") == eval(f"{a} {first} {b} {second} {c}")


def test_long_evaluation_ends() -> None:
    many = {f"F{number}": 1.0 for number in range(2_000)}
    assert own("sum(goodput(flows))").values({"goodput": many}) == ({"": 2000.0}, Counter())
    assert own("sum(goodput(flows) + 1 + 1)").values({"goodput": many}) == ({}, Counter({TOO_LONG: 1}))


# ---- arithmetic in braces


def test_braces_compute_with_parameters() -> None:
    values: dict[str, Value] = {"capacity": 20, "path-count": 3, "name": "reno"}
    assert fill("{0.4 * capacity} Mbit/s", values) == "8 Mbit/s"
    assert fill("{capacity/path-count}", values) == 6.66666666667
    assert fill("{path-count - 1}", values) == 2
    assert type(fill("{2 * capacity}", values)) is int
    assert fill("{name} {max(capacity, 30)}", values) == "reno 30"
    assert placeholders("{0.4 * capacity} {name} {max(path-count, 1)}") == ["capacity", "name", "path-count"]
    for text, message in (
        ("{0.4 * capcity}", 'did you mean "capacity"'), ("{2 * name}", "which is not a number"),
        ("{capacity / 0}", "has no value: division by 0"), ("{capacity +}", "is not an arithmetic expression"),
        ("{capacity.real}", "unknown name"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            fill(text, values)


# ---- metrics of a study

OWN = """
[metric]
default = "goodput"

[metric.share]
label = "Share of the first flow"
expr = "goodput(F0) / sum(goodput(flows))"

[metric.percent]
unit = "%"
expr = "100 * share"

[metric.impossible]
expr = "goodput(F0) / (goodput(F0) - goodput(F0))"
"""
FIGURES = """
[[figure]]
name = "share"
metric = "percent"
x = "capacity"
series = "congestion"

[[figure]]
name = "all"
x = "capacity"
columns = "congestion"
subjects = ["F*"]
together = "sum"
"""
CLAIM = """
[[claim]]
id = "half"
text = "The first flow has about half"
kind = "value"
metric = "share"
expect = 0.5
tolerance = 0.3

[[claim]]
id = "code"
text = "A function counts flows"
kind = "value"
metric = "flows-counted"
expect = 2
tolerance = 0
"""


def with_own(text: str = OWN) -> str:
    return small_study.STUDY.replace('metric = "goodput"\n', "", 1).replace("\n[full]", f"{text}\n[full]", 1) + FIGURES


def test_study_uses_its_own_metrics(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", study=with_own(), claims=CLAIM)
    study = load(folder, {"flows-counted": lambda document: len(document["flows"])})
    plan = Plan(study, study.full, tmp_path / "results", fake_simulator.simulate, "b1")
    small_study.execute_quietly(study, plan.folder, fake_simulator.simulate)
    with read(plan.folder) as store:
        found = Analysis(study, study.full, store.records)
        report = write_all(found, plan).read_text(encoding="utf-8")
        point = found.points()[0]
        goodputs = found.samples(point, "goodput")
        shares = [a / (a + b) for a, b in zip(goodputs["F0"], goodputs["F1"], strict=True)]
        assert found.samples(point, "share") == {"": pytest.approx(shares)}
        assert found.samples(point, "percent")[""] == pytest.approx([100 * share for share in shares])
        assert {v.claim.id: v.outcome for v in found.verdicts} == {"half": "pass", "code": "pass"}
        assert found.undefined == ["impossible: 12 values left out: division by 0."]
    assert "- impossible: 12 values left out: division by 0." in report
    assert (plan.folder / "figures" / "all.png").is_file()
    points = (plan.folder / "points.csv").read_text(encoding="utf-8")
    assert ",percent,%," in points
    svg = (plan.folder / "figures" / "all.svg").read_text(encoding="utf-8")
    assert "sum of F0, F1" in svg


def test_wrong_own_metric_of_a_study_is_refused(tmp_path: Path) -> None:
    for right, wrong, message in (
        ("goodput(F0) / sum", "goodput(F5) / sum", 'study.toml:12: "goodput(F5)'),
        (
            'default = "goodput"',
            'default = "shere"',
            'study.toml:8: "default" cannot be "shere" (did you mean "share"?)',
        ),
        ('unit = "%"', 'units = "%"', '"units" is not known here (did you mean "unit"?)'),
        ('expr = "100 * share"', "", '"expr" is missing in metric.percent'),
        ('metric = "percent"', 'metric = "percnt"', '"metric" cannot be "percnt" (did you mean "percent"?)'),
        ('subjects = ["F*"]', 'subjects = ["X*"]', '"subjects" has to name a flow, not "X*"'),
    ):
        text = with_own()
        assert right in text
        with pytest.raises(InputError) as caught:
            load(small_study.write(tmp_path, study=text.replace(right, wrong, 1), claims=""))
        assert message in str(caught.value)


def test_schema_has_own_metrics() -> None:
    content = tomllib.loads(with_own())
    assert errors(content, schema()) == []
    content["metric"]["percent"]["units"] = "%"
    assert errors(content, schema())
    del content["metric"]["percent"]
    del content["metric"]["share"]["expr"]
    assert errors(content, schema())


def test_own_metric_may_use_fair_shares() -> None:
    assert own("over-max-min(F0) + fill").expression.names == {"over-max-min", "fill"}
    assert set(METRICS) > {"over-max-min", "fill"}


def test_reader_of_expressions_names_its_operands() -> None:
    with pytest.raises(ExpressionError, match="unknown name"):
        compile_text("a", [], lambda name, _: (_ for _ in ()).throw(KeyError(name)))
    assert not str(NoValueError())


def test_study_runs_with_functions_as_metrics(tmp_path: Path) -> None:
    folder = small_study.write(tmp_path / "study", study=with_own(), claims=CLAIM)
    counted = {"flows-counted": lambda document: len(document["flows"]) or None}
    found = anabranch.study.run(
        folder, quick=True, results=tmp_path / "results", jobs=1, metrics=counted, backend=fake_simulator.simulate
    )
    assert [found.samples(point, "flows-counted") for point in found.points()] == [{"": [2.0, 2.0]}] * 2
    assert {v.claim.id: v.outcome for v in found.verdicts} == {"half": "pass", "code": "pass"}
    with pytest.raises(InputError, match='"metric" cannot be "flows-counted"'):
        anabranch.study.run(folder, results=tmp_path / "results")
    with pytest.raises(InputError, match='the name "goodput" is taken'):
        anabranch.study.run(folder, results=tmp_path / "results", metrics={"goodput": lambda _: 1.0})
