"""Evaluates random expressions of studies, and counts refusals, values and errors.

`python tests/long/fuzzed_expressions.py SECONDS [SEED]` draws texts of characters, of tokens and syntax trees. Each
text must be refused with an `InputError`, or have finite values only; another exception ends the program. An audit
hook ends it if an expression opens a file or a socket, starts a program or imports or executes code. Afterwards the
program measures the time for the values of a million runs.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from anabranch.errors import InputError
from anabranch.expressions import FUNCTIONS
from anabranch.study.document import Table
from anabranch.study.keys import MetricKeys, Metrics
from anabranch.study.own_metrics import OwnMetric, read_own_metrics
from test_expressions import DATA, SCOPES, own

LEAVES = ["1", "0", "2.5", "1e308", "goodput(F0)", "goodput(flows)", "path-srtt(paths(F0))", "drops(*/forward)", "jain"]
OPERATORS = ["+", "-", "*", "/", "**", "<", ">=", "=="]
TOKENS = [*LEAVES, *FUNCTIONS, *"+-*/()<>=.,:[]'\n", "**", "jain-", "_0", "__class__", "lambda", "open", "import os"]
CHARACTERS = "goodput(F01)flows+-*/<>=.,'\"[]{}_ \n\\x:@lambda#é٣\0"
FORBIDDEN = ("open", "socket.", "subprocess.", "os.", "import", "exec")
MAX_LEAVES = 12
RUNS = 1_000_000
CHECK_INTERVAL = 1000
"""Expressions between two checks of the time."""


def tree(draw: random.Random, leaves: int) -> str:
    """A syntax tree with at most this number of leaves."""
    if leaves <= 1:
        return draw.choice(LEAVES)
    match draw.randrange(3):
        case 0:
            first = draw.randint(1, leaves - 1)
            return f"({tree(draw, first)} {draw.choice(OPERATORS)} {tree(draw, leaves - first)})"
        case 1:
            arguments = [tree(draw, leaves // 2) for _ in range(draw.randint(1, 3))]
            return f"{draw.choice(sorted(FUNCTIONS))}({', '.join(arguments)})"
        case _:
            return "-" + tree(draw, leaves - 1)


def text(draw: random.Random) -> str:
    """An expression: characters, tokens, or a tree."""
    match draw.randrange(4):
        case 0:
            return "".join(draw.choices(CHARACTERS, k=draw.randint(0, 60)))
        case 1:
            return "".join(draw.choices(TOKENS, k=draw.randint(0, 20)))
        case _:
            return tree(draw, draw.randint(1, MAX_LEAVES))


def outcome(expression: str) -> str:
    """Evaluate an expression: `refused`, `no value` or `value`."""
    table: Table[Metrics] = Table({"x": MetricKeys(expr=expression)}, {}, (), ("", "study.toml"))
    try:
        metric = read_own_metrics(table, SCOPES)["x"]
    except InputError:
        return "refused"
    assert isinstance(metric, OwnMetric)
    values, _ = metric.values(DATA)
    assert all(type(value) is float and math.isfinite(value) for value in values.values())
    return "value" if values else "no value"


def main() -> None:
    """Run the two measurements."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    draw = random.Random(seed)
    found: Counter[str] = Counter(outcome(text(draw)) for _ in range(CHECK_INTERVAL))  # imports what it needs
    evaluates = True

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if evaluates and event.startswith(FORBIDDEN):
            raise SystemExit(f"an expression caused {event} {arguments!r}")

    sys.addaudithook(audit)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(CHECK_INTERVAL):
            expression = text(draw)
            try:
                found[outcome(expression)] += 1
            except Exception:
                evaluates = False
                print(f"seed {seed}, after {found.total():,} expressions: {expression!r}")
                raise
    evaluates = False
    print(f"{found.total():,} expressions, seed {seed}: {dict(found)}")
    metric = own("goodput(F0) / sum(goodput(flows))")
    begun = time.process_time()
    for _ in range(RUNS):
        metric.values(DATA)
    print(f"values of {RUNS:,} runs: {time.process_time() - begun:.1f} s of processor time")


if __name__ == "__main__":
    main()
