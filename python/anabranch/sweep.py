"""Grids: the points of a parameter sweep and the seeds of their repetitions.

A parameter has values, and each value sets keys of the scenario. The points of a sweep are all combinations of values;
the last parameter changes fastest. Seeds depend only on the values of a point: new or reordered values do not change
the runs of other points.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError, nearest
from anabranch.expressions import ExpressionError, Kind, NoValueError, Operand, compile_text, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Value = str | int | float | bool
"""Value of a parameter."""

Setting = Value | list[Any] | dict[str, Any]
"""Value of a scenario key: a plain value, or a list or table of settings."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ARITHMETIC = re.compile(r"[^\w-]|^\d")
"""Matches text in braces that is not a parameter's name: a sign other than "_" and "-", or a digit at the start."""


@dataclass(frozen=True)
class Parameter:
    """One dimension of a sweep."""

    name: str
    values: tuple[Value, ...]
    sets: Mapping[str, Setting] = field(default_factory=dict)
    """Scenario keys that each value sets; "{name}" is replaced by the value of the parameter of that name."""
    choices: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    """Further scenario keys of single values, by the value's text."""
    label: str = ""
    unit: str = ""

    @property
    def axis(self) -> str:
        """Label of an axis: the label, or else the name, with the unit."""
        label = self.label or self.name
        return f"{label} [{self.unit}]" if self.unit else label

    def show(self, value: Value) -> str:
        """The value with its unit, for tables and figures.

        Args:
            value: A value of the parameter.

        """
        return f"{plain(value)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Point:
    """One combination of values of an experiment."""

    experiment: str
    scenario: str
    """File name of the scenario template within the study."""
    values: Mapping[str, Value]
    overrides: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """Canonical text of experiment and values; it does not depend on the order of parameters."""
        return json.dumps([self.experiment, dict(sorted(self.values.items()))], sort_keys=True)

    @property
    def title(self) -> str:
        """Experiment and values, for tables and messages."""
        return f"{self.experiment}: " + ", ".join(f"{k} = {plain(v)}" for k, v in self.values.items())


def plain(value: Value) -> str:
    """Text of a value as in TOML, with all digits: 20 instead of 20.0, true instead of True."""
    if isinstance(value, bool):
        return "true" if value else "false"
    # repr gives the shortest text that parses to the same number; a format such as :g would round it.
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def placeholders(template: Setting) -> list[str]:
    """Names of the parameters that a text refers to, also within arithmetic such as "{0.4 * capacity}"."""
    inner = _PLACEHOLDER.findall(template) if isinstance(template, str) else []
    return [name for text in inner for name in (words(text, ()) if _ARITHMETIC.search(text) else [text])]


def fill(template: Value, values: Mapping[str, Value]) -> Value:
    """Replace each "{name}" by the value of that name; a template of one placeholder keeps the value's type.

    Braces may hold arithmetic with parameters, such as "{0.4 * capacity} Mbit/s" (see `anabranch.expressions`).

    Raises:
        InputError: If a placeholder is neither the name of a parameter nor arithmetic with a value.

    """
    if not isinstance(template, str):
        return template

    def look_up(name: str) -> Value:
        if name not in values and _ARITHMETIC.search(name):
            return _computed(template, name, values)
        if name not in values:
            known = nearest(name, list(values))
            raise InputError(f'"{template}" refers to "{name}", which is no parameter here ({known})')
        return values[name]

    whole = _PLACEHOLDER.fullmatch(template)
    if whole:
        return look_up(whole[1])
    return _PLACEHOLDER.sub(lambda found: plain(look_up(found[1])), template)


def _computed(template: str, text: str, values: Mapping[str, Value]) -> Value:
    """The value of arithmetic with parameters, with 12 digits; whole numbers without a fraction.

    Raises:
        InputError: If the text is not arithmetic, a parameter is not a number, or there is no value, such as for 1 / 0.

    """

    def resolve(name: str, argument: str | None) -> tuple[str, Operand]:
        value = values[name]
        if argument is not None or isinstance(value, str | bool):
            raise ExpressionError(f'"{name}" is {plain(value)!r} here, which is not a number')
        number = float(value)
        return name, Operand(Kind(constant=number), lambda _: number)

    try:
        found, _ = compile_text(text, list(values), resolve).evaluate({})
    except ExpressionError as error:
        raise InputError(f'"{template}": {error}') from None
    except NoValueError as error:
        raise InputError(f'"{template}" has no value: {error}') from None
    number = float(f"{found:.12g}")
    return int(number) if number.is_integer() else number


def fill_setting(template: Setting, values: Mapping[str, Value]) -> Setting:
    """Fill the placeholders of a setting, also those within lists and tables."""
    if isinstance(template, dict):
        return {k: fill_setting(v, values) for k, v in template.items()}
    if isinstance(template, list):
        return [fill_setting(v, values) for v in template]
    return fill(template, values)


def setting(key: str, value: Setting) -> str:
    """A setting "key=value" with the value as TOML; numbers and arrays of numpy are accepted.

    Raises:
        InputError: If TOML cannot represent the value or a part of it.

    """
    return f"{key}={literal(value)}"


def literal(value: Setting) -> str:
    """A value as TOML.

    Raises:
        InputError: If TOML cannot represent the value or a part of it.

    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return "{ " + ", ".join(setting(k, v) for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(v) for v in value) + "]"
    if not isinstance(value, str | int | float):
        raise InputError(
            f"{value!r} cannot be a setting; use texts, numbers, true or false, and lists and tables of these"
        )
    if isinstance(value, str):
        # A JSON string is a TOML string, except for DEL, which JSON does not escape.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return plain(value)


class _Settings:
    """The texts of settings, each made once: the points of a grid share most of them."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[str, ...]] = {}
        self._texts: dict[tuple[str, int, tuple[Value | None, ...]], str] = {}

    def text(self, key: str, template: Setting, values: Mapping[str, Value]) -> str:
        """A setting with its placeholders filled in; the template outlives this object."""
        names = self._names.get(id(template))
        if names is None:
            names = self._names[id(template)] = tuple(all_placeholders(template))
        # True and 1 are equal, and so are 1 and 1.0, but their texts differ.
        place = (key, id(template), tuple(plain(values[n]) if n in values else None for n in names))
        text = self._texts.get(place)
        if text is None:
            text = self._texts[place] = setting(key, fill_setting(template, values))
        return text


def all_placeholders(template: Setting) -> Iterator[str]:
    """Names of the parameters that a setting refers to, also within lists and tables."""
    if isinstance(template, dict):
        for value in template.values():
            yield from all_placeholders(value)
    elif isinstance(template, list):
        for value in template:
            yield from all_placeholders(value)
    else:
        yield from placeholders(template)


def cross(
    experiment: str, scenario: str, parameters: Sequence[Parameter], base: Mapping[str, Setting]
) -> Iterator[Point]:
    """All points of a grid, one after the other.

    If two parameters set the same key, the later one wins.

    Args:
        experiment: Name of the experiment, which each point carries.
        scenario: The scenario's file; "{name}" in it is replaced by the value of that parameter.
        parameters: The axes of the grid, the slowest first.
        base: Settings of all points, by key.

    Raises:
        InputError: If a placeholder is not the name of a parameter of the grid.

    """
    settings = _Settings()
    for combination in itertools.product(*(p.values for p in parameters)):
        values = {p.name: v for p, v in zip(parameters, combination, strict=True)}
        keys: dict[str, Setting] = dict(base)
        for parameter, value in zip(parameters, combination, strict=True):
            keys.update(parameter.sets)
            keys.update(parameter.choices.get(plain(value), {}))
        overrides = tuple(settings.text(k, v, values) for k, v in keys.items())
        yield Point(experiment, plain(fill(scenario, values)), values, overrides)


def seed_of(study: str, point: Point, repetition: int) -> int:
    """Seed of a repetition: 63 bits of a hash of study, point and repetition; equal on all machines."""
    return next(seeds_of(study, point, (repetition,)))


def seeds_of(study: str, point: Point, repetitions: Iterable[int]) -> Iterator[int]:
    """Seeds of repetitions of a point, as by `seed_of`."""
    # A JSON list of which the last entry is open: it is all that differs.
    begun = json.dumps([study, point.key])[:-1]
    for repetition in repetitions:
        text = f"{begun}, {repetition}]"
        yield int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def matches(values: Mapping[str, Value], where: Mapping[str, Value | Iterable[Value]]) -> bool:
    """Whether a point's values match a selection: by parameter, one value or a list of allowed values."""
    for name, wanted in where.items():
        allowed = [wanted] if isinstance(wanted, str | int | float | bool) else list(wanted)
        if name not in values or all(plain(values[name]) != plain(a) for a in allowed):
            return False
    return True
