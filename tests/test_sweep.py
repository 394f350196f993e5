"""Grids and seeds."""

from __future__ import annotations

import hashlib
import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InputError
from anabranch.sweep import Parameter, Point, Setting, Value, cross, fill, matches, plain, seed_of, seeds_of, setting

CAPACITY = Parameter("capacity", (10, 20), {"link.b.rate": "{capacity} Mbit/s"})
CONTROL = Parameter(
    "control", ("lia", "reno"), {"flow.F0.congestion": "{control}"}, {"reno": {"flow.F0.protocol": "tcp"}}
)

scalars = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.text("ab \"'\\\n\t\x00\x7f=é€😀", max_size=20))
settings = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abcdefgh_", min_size=1, max_size=5), inner, max_size=3),
    ),
    max_leaves=6,
)


def test_points_vary_the_last_parameter_fastest() -> None:
    points = list(cross("e", "s.toml", [CAPACITY, CONTROL], {"duration": "9 s"}))
    assert [tuple(p.values.values()) for p in points] == [(10, "lia"), (10, "reno"), (20, "lia"), (20, "reno")]
    assert points[1].overrides == (
        'duration="9 s"',
        'link.b.rate="10 Mbit/s"',
        'flow.F0.congestion="reno"',
        'flow.F0.protocol="tcp"',
    )


def test_a_lone_placeholder_keeps_the_type() -> None:
    assert fill("{n}", {"n": 5}) == 5
    assert fill("{n} ms", {"n": 0.5}) == "0.5 ms"


def test_unknown_placeholder_is_refused() -> None:
    with pytest.raises(InputError, match=r'"capcity".*did you mean "capacity"'):
        fill("{capcity} Mbit/s", {"capacity": 5})


def test_seeds_depend_on_parameter_values_only() -> None:
    one = Point("e", "s.toml", {"a": 1, "b": "x"}, ())
    other = Point("e", "other.toml", {"b": "x", "a": 1}, ("k=1",))
    assert seed_of("study", one, 1) == seed_of("study", other, 1)
    different = {
        seed_of("study", one, 1),
        seed_of("study", one, 2),
        seed_of("other", one, 1),
        seed_of("study", Point("f", "s.toml", one.values, ()), 1),
        seed_of("study", Point("e", "s.toml", {"a": 2, "b": "x"}, ()), 1),
    }
    assert len(different) == 5


def test_seeds_are_the_same_on_every_machine() -> None:
    assert seed_of("lugowski2017-bottleneck", Point("e", "s", {"delay": 20}, ()), 1) == 4262147892931659700


def test_repetitions_have_the_seeds_of_single_ones() -> None:
    point = Point("e", "s", {"delay": 20, "name": 'é"'}, ())
    assert [*seeds_of("study", point, range(1, 4))] == [seed_of("study", point, n) for n in (1, 2, 3)]
    texts = [json.dumps(["study", point.key, n]) for n in (1, 2, 3)]
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    assert [*seeds_of("study", point, range(1, 4))] == [int.from_bytes(d[:8], "big") >> 1 for d in digests]


def test_selection_keeps_matching_points() -> None:
    values: dict[str, Value] = {"a": 1, "b": "x"}
    assert matches(values, {"a": 1})
    assert matches(values, {"a": [1, 2], "b": "x"})
    assert not matches(values, {"a": [2, 3]})
    assert not matches(values, {"c": 1})


@given(st.dictionaries(st.text("abcdefgh_", min_size=1, max_size=5), settings, max_size=3))
def test_settings_are_written_as_toml(value: dict[str, Setting]) -> None:
    assert tomllib.loads(setting("key", value))["key"] == value


def test_values_have_a_plain_text() -> None:
    assert [plain(v) for v in (20, 0.1, True, "x")] == ["20", "0.1", "true", "x"]
    assert [plain(v) for v in (10.0, 0.25, 1e-5, 1234567.0)] == ["10", "0.25", "1e-05", "1234567"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_keeps_all_digits(value: float) -> None:
    assert tomllib.loads(setting("key", value))["key"] == value
    assert float(str(fill("{n} Mbit/s", {"n": value})).split()[0]) == value


def test_values_differing_in_the_seventh_digit_differ() -> None:
    choices = {"1.0000001": {"k": 1}, "1.0000002": {"k": 2}}
    points = list(cross("e", "s.toml", [Parameter("n", (1.0000001, 1.0000002), {"n": "{n} ms"}, choices)], {}))
    assert [p.overrides for p in points] == [('n="1.0000001 ms"', "k=1"), ('n="1.0000002 ms"', "k=2")]
    assert not matches(points[0].values, {"n": 1.0000002})
