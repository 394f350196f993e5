"""Arithmetic in studies: expressions over metrics and parameters, checked before a run and evaluated without `eval`.

`compile_text` replaces every name by a placeholder, parses the rest with `ast` and accepts numbers, + - * / **,
comparisons and the functions in `FUNCTIONS` only. The result is a list of steps over a stack, so that neither nesting
nor length can exhaust Python's own stack. Evaluation calls no attribute and opens no file. It ends after
`MAX_OPERATIONS`, which take less than 10 ms: a limit by a clock would make results depend on the load of the machine.

A value is a number, or a mapping from subjects to numbers. Operators and `abs`, `sqrt` and `log` apply to each subject;
the other functions compute one number from all of them.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import statistics
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Unit = Mapping[str, float] | None
    """Powers of units; `None` for a number, which fits every unit."""
    Value = float | dict[str, float]
    Data = Mapping[str, Mapping[str, float]]
    """Values of the named operands: by name, and within a name by subject."""
    Step = Callable[[list[Value], Data, Counter[str]], None]

MAX_NODES = 1_000
MAX_CHARACTERS = 10_000
MAX_OPERATIONS = 5_000
"""Values that the steps of one evaluation may produce."""
DIVISION = "division by 0"
OUT_OF_RANGE = "a number out of range"
TOO_LONG = f"more than {MAX_OPERATIONS:,} operations"

_TOKEN = re.compile(
    r"(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<word>[^\W\d][\w]*(?:-\w+)*)|(?P<other>.)", re.DOTALL
)


class ExpressionError(AnabranchError, ValueError):
    """A mistake in an expression; the message has neither file nor line."""


class NoValueError(AnabranchError):
    """An expression has no value for this data; the reason is one of the constants above, or "" if data is missing."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Kind:
    """Level and unit of a value, known before evaluation."""

    level: str = ""
    """Level of the subjects, such as "flow"; "" for one number."""
    unit: Unit = None
    constant: float | None = None
    """The value, if it is a number in the text of the expression."""


@dataclass(frozen=True)
class Operand:
    """A name in an expression."""

    kind: Kind
    load: Callable[[Data], Value]
    """Function from the data to the operand's value; raises `NoValueError` if the data has none."""


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str
    kind: Kind
    names: frozenset[str]
    """Names of the data fields that the expression reads."""
    steps: tuple[Step, ...] = field(repr=False)

    def evaluate(self, data: Data) -> tuple[Value, Counter[str]]:
        """The value for some data, and the number of subjects without a value by reason.

        Raises:
            NoValueError: If there is no value at all.

        """
        stack: list[Value] = []
        undefined: Counter[str] = Counter()
        operations = 0
        for step in self.steps:
            step(stack, data, undefined)
            value = stack[-1]
            operations += len(value) if isinstance(value, dict) else 1
            if operations > MAX_OPERATIONS:
                raise NoValueError(TOO_LONG)
        return stack[0], undefined


def compile_text(
    text: str, known: Sequence[str], resolve: Callable[[str, str | None], tuple[str, Operand]]
) -> Expression:
    """Check an expression and turn it into steps.

    Args:
        text: The expression.
        known: Names that may stand in it, for the spelling of unknown ones.
        resolve: Function from a known name and the text in its parentheses, `None` without parentheses, to the name in
            the data and the operand.

    Raises:
        ExpressionError: If the text is not an expression, names something unknown, is too large, or combines units or
            levels that do not fit.

    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"has more than {MAX_CHARACTERS:,} characters")
    plain, found = _replaced(text, known)
    operands: dict[str, Operand] = {}
    names = set()
    for place, (name, argument) in found.items():
        source, operands[place] = resolve(name, argument)
        names.add(source)
    tree = _tree(plain)
    if sum(isinstance(node, ast.expr) for node in ast.walk(tree)) > MAX_NODES:
        raise ExpressionError(f"has more than {MAX_NODES:,} nodes")
    steps, kind = _Compiler(operands).compile(tree.body)
    return Expression(text, kind, frozenset(names), tuple(steps))


def unit_of(text: str) -> Unit:
    """The powers of a unit that is written as `text`; an empty text has no powers."""
    return {text: 1.0} if text else {}


def unit_text(unit: Unit) -> str:
    """A unit for people, such as "Mbit/s" or "kB·ms^-1"."""
    return "·".join(name if power == 1.0 else f"{name}^{power:g}" for name, power in (unit or {}).items())


def words(text: str, known: Sequence[str]) -> list[str]:
    """The names in a text without those of functions; an unknown name is returned whole."""
    names = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            break
        position = match.end()
        if match.lastgroup == "word":
            word = _longest(match[0], known) or match[0]
            position = match.start() + len(word)
            if word not in FUNCTIONS or word in known:
                names.append(word)
    return names


def _longest(word: str, known: Sequence[str]) -> str:
    """The longest prefix, up to a hyphen of `word`, among the names and functions; "" without any."""
    while word and word not in known and word not in FUNCTIONS:
        word = word.rpartition("-")[0]
    return word


def _replaced(text: str, known: Sequence[str]) -> tuple[str, dict[str, tuple[str, str | None]]]:
    """The text with placeholders for names and their parentheses, and the name and argument of each placeholder."""
    parts: list[str] = []
    found: dict[str, tuple[str, str | None]] = {}
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        position = match.end()
        if match.lastgroup != "word":
            parts.append(match[0])
            continue
        word = _longest(match[0], known)
        if not word:
            raise ExpressionError(f'unknown name "{match[0]}" ({nearest(match[0], [*known, *FUNCTIONS])})')
        position = match.start() + len(word)
        if word in FUNCTIONS and word not in known:
            parts.append(word)
            continue
        argument, position = _parenthesis(text, position)
        place = f"_{len(found)}"
        found[place] = (word, argument)
        parts.append(f" {place} ")
    return "".join(parts), found


def _parenthesis(text: str, position: int) -> tuple[str | None, int]:
    """The text within the parentheses that follow a name, and the position after them."""
    begin = position
    while begin < len(text) and text[begin] == " ":
        begin += 1
    if begin == len(text) or text[begin] != "(":
        return None, position
    depth = 0
    for end in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin + 1 : end].strip(), end + 1
    raise ExpressionError(f'a parenthesis after "{text[:position].rsplit(maxsplit=1)[-1]}" is not closed')


def _tree(text: str) -> ast.Expression:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"is not an arithmetic expression: {error.msg}") from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError("is not an arithmetic expression, or is nested too deeply") from None


class _Compiler:
    """Turns a tree into steps, with an explicit stack in place of recursion."""

    def __init__(self, operands: Mapping[str, Operand]) -> None:
        self._operands = operands
        self._steps: list[Step] = []
        self._kinds: list[Kind] = []

    def compile(self, root: ast.expr) -> tuple[list[Step], Kind]:
        waiting: list[tuple[ast.expr, bool]] = [(root, False)]
        while waiting:
            node, ready = waiting.pop()
            if ready:
                self._combine(node)
                continue
            inner = self._inner(node)
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(inner)]
        return self._steps, self._kinds[0]

    def _inner(self, node: ast.expr) -> list[ast.expr]:
        """The operands of a node.

        Raises:
            ExpressionError: If the node is not among the allowed ones.

        """
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                return []
            case ast.Name(id=name) if name in self._operands:
                return []
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [left, right]
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                return [operand]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return [left, right]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
                return args
        raise ExpressionError(
            "may have numbers, names, + - * / **, one comparison at a time, and the functions "
            f"{', '.join(FUNCTIONS)} only"
        )

    def _combine(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=int() | float() as number):
                self._number(number)
            case ast.Name(id=name):
                operand = self._operands[name]
                self._push(operand.kind, lambda stack, data, _: stack.append(operand.load(data)))
            case ast.BinOp(op=op):
                self._binary(_BINARY[type(op)], type(op))
            case ast.Compare(ops=[op]):
                self._binary(_COMPARE[type(op)], type(op))
            case ast.UnaryOp(op=op):
                if isinstance(op, ast.USub):
                    kind = self._kinds.pop()
                    constant = None if kind.constant is None else -kind.constant
                    self._push(Kind(kind.level, kind.unit, constant), _each(operator.neg))
            case ast.Call(func=ast.Name(id=name), args=args):
                self._call(name, len(args))

    def _push(self, kind: Kind, step: Step) -> None:
        self._kinds.append(kind)
        self._steps.append(step)

    def _number(self, number: float) -> None:
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            raise ExpressionError("has a number that is too large")
        self._push(Kind(constant=value), lambda stack, _data, _undefined: stack.append(value))

    def _binary(self, function: Callable[[float, float], float], op: type) -> None:
        second, first = self._kinds.pop(), self._kinds.pop()
        if first.level and second.level and first.level != second.level:
            raise ExpressionError(
                f"combines values of {first.level}s with values of {second.level}s: make one number of them, "
                "for instance with sum(…)"
            )
        self._push(Kind(first.level or second.level, _unit(op, first, second)), _pairwise(function))

    def _call(self, name: str, count: int) -> None:
        function = FUNCTIONS[name]
        kinds = [self._kinds.pop() for _ in range(count)][::-1]
        if name in _ELEMENTWISE_FUNCTIONS:
            if count != 1:
                raise ExpressionError(f'"{name}" takes one value, not {count}')
            (kind,) = kinds
            half = {n: p / 2.0 for n, p in kind.unit.items()} if kind.unit is not None else None
            unit = {"abs": kind.unit, "sqrt": half, "log": {}}[name]
            self._push(Kind(kind.level, unit), _each(function))
            return
        unit = kinds[0].unit
        for kind in kinds[1:]:
            unit = _same(unit, kind.unit, f'"{name}" combines')
        self._push(Kind("", unit), _of_all(function, count))


def _unit(op: type, first: Kind, second: Kind) -> Unit:
    """Unit of the result of an operator."""
    if op is ast.Pow:
        if not first.unit:
            return first.unit
        if second.constant is None:
            raise ExpressionError(f"raises {unit_text(first.unit)} to a power that is not a number")
        return {name: power * second.constant for name, power in first.unit.items()}
    if op in (ast.Mult, ast.Div):
        if first.unit is None and second.unit is None:
            return None
        sign = 1.0 if op is ast.Mult else -1.0
        powers = Counter[str]()
        for unit, factor in ((first.unit, 1.0), (second.unit, sign)):
            for name, power in (unit or {}).items():
                powers[name] += factor * power  # type: ignore[assignment]  # powers may be fractions
        return {name: power for name, power in powers.items() if power}
    unit = _same(first.unit, second.unit, "adds or compares")
    return {} if op in _COMPARE else unit


def _same(first: Unit, second: Unit, verb: str) -> Unit:
    if first is None or second is None:
        return second if first is None else first
    if dict(first) != dict(second):
        one, other = (unit_text(unit) or "a number without a unit" for unit in (first, second))
        raise ExpressionError(f"{verb} {one} and {other}")
    return first


def _checked(function: Callable[..., Any], *values: Any) -> float:
    """The value of a function.

    Raises:
        NoValueError: If the function has no value.

    """
    try:
        result = function(*values)
    except ZeroDivisionError:
        raise NoValueError(DIVISION) from None
    except (OverflowError, ValueError, statistics.StatisticsError):
        raise NoValueError(OUT_OF_RANGE) from None
    if isinstance(result, complex) or not math.isfinite(result):
        raise NoValueError(OUT_OF_RANGE)
    return float(result)


def _mapped(
    function: Callable[..., Any], values: Mapping[str, tuple[float, ...]], undefined: Counter[str]
) -> dict[str, float]:
    found = {}
    for subject, arguments in values.items():
        try:
            found[subject] = _checked(function, *arguments)
        except NoValueError as error:
            undefined[error.reason] += 1
    return found


def _each(function: Callable[[float], float]) -> Step:
    def step(stack: list[Value], _data: Data, undefined: Counter[str]) -> None:
        value = stack.pop()
        if isinstance(value, dict):
            stack.append(_mapped(function, {s: (v,) for s, v in value.items()}, undefined))
        else:
            stack.append(_checked(function, value))

    return step


def _pairwise(function: Callable[[float, float], float]) -> Step:
    def step(stack: list[Value], _data: Data, undefined: Counter[str]) -> None:
        second, first = stack.pop(), stack.pop()
        if not isinstance(first, dict) and not isinstance(second, dict):
            stack.append(_checked(function, first, second))
            return
        if isinstance(first, dict) and isinstance(second, dict):
            pairs = {s: (v, second[s]) for s, v in first.items() if s in second}
        elif isinstance(first, dict):
            pairs = {s: (v, second) for s, v in first.items()}  # type: ignore[misc]  # second is a number here
        else:
            pairs = {s: (first, v) for s, v in second.items()}  # type: ignore[union-attr]  # second is a mapping
        stack.append(_mapped(function, pairs, undefined))

    return step


def _of_all(function: Callable[..., float], count: int) -> Step:
    def step(stack: list[Value], _data: Data, _undefined: Counter[str]) -> None:
        taken = stack[-count:]
        del stack[-count:]
        values = [v for value in taken for v in (value.values() if isinstance(value, dict) else [value])]
        if not values:
            raise NoValueError
        stack.append(_checked(function, values))

    return step


_BINARY: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type, Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_ELEMENTWISE_FUNCTIONS = ("abs", "sqrt", "log")
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min, "max": max, "sum": math.fsum, "mean": statistics.fmean, "median": statistics.median,
    "std": statistics.stdev, "abs": abs, "sqrt": math.sqrt, "log": math.log,
}  # fmt: skip
"""Functions by name; `std` is the standard deviation of a sample, `log` the natural logarithm."""
