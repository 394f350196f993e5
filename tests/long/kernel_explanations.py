"""Explains runs of Linux's own Multipath TCP with planted faults, and runs the remedies there.

`python tests/long/kernel_explanations.py RUNS SEED` plants eight kinds of faults in turn at random pairs of links. A
case is right if one of the first two findings is of a kind that mends the fault, and its remedy makes the flow faster
in the kernel's world, too. A case during which the machine did not keep up runs again, at most twice. Prints one line
for each case and the totals. Needs root, as runs in the kernel's world do.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import InputError, Scenario, run
from anabranch.explain.explanation import Options, explain_document
from anabranch.explain.objective import Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.explain.finding import Finding
    from anabranch.results import Result

MIN_GAIN = 0.02
MAX_REPETITIONS = 2
DURATION = 'duration = "7 s"\nwarmup = "1.5 s"\n'
LOSS = '{{model="bernoulli",rate={rate}}}'
FLOW = '[[flow]]\nname = "F"\nfrom = "S"\nto = "D"\nprotocol = "mptcp"\ncongestion = "cubic"\n'


@dataclass(frozen=True)
class Case:
    """A scenario with a planted fault, and the kinds of findings that mend it."""

    fault: str
    kinds: tuple[str, ...]
    scenario: Scenario


def cases(count: int, seed: int) -> Iterator[Case]:
    """Cases over random pairs of links, each kind of fault in turn.

    Args:
        count: Number of cases.
        seed: Seed of the links and of the faults' sizes.

    """
    draw = random.Random(seed)
    for number in range(count):
        rates = [draw.choice((4, 6, 8, 12)) for _ in "ab"]
        delays = [draw.choice((10, 15, 20, 30)) for _ in "ab"]
        base = Scenario.from_toml(_network(rates, delays, draw), f"case {number}")
        faults = _faults(draw, sum(rates) * 1e3 * max(delays) * 2 / 8)
        fault = list(faults)[number % len(faults)]
        kinds, settings = faults[fault]
        yield Case(fault, kinds, base.with_settings(settings))


def _faults(draw: random.Random, product_bytes: float) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """For each fault, the kinds of findings that mend it, and its settings; `product_bytes` fill the links."""
    short = tuple(f"link.{name}.queue.limit=2 packets" for name in "ab")
    small = f"{max(8, round(draw.uniform(0.3, 0.6) * product_bytes / 1000))} kB"
    rate = draw.choice((1, 2, 3))
    never_open = draw.choice((("flow.F.paths=default",), ("link.b.state=down",)))
    way_back = draw.choice((20, 30, 40))
    loss = LOSS.format(rate=draw.choice((0.01, 0.02, 0.03)))
    return {
        "receive buffer": (("receive-buffer", "buffers"), (f"flow.F.receive_buffer={small}",)),
        "send buffer": (("send-buffer", "buffers"), (f"flow.F.send_buffer={small}",)),
        "application": (("application",), (f'flow.F.workload={{kind="rate",rate="{rate} Mbit/s"}}',)),
        "backup": (("backup",), ('flow.F.backup=["b"]',)),
        "path never opened": (("path-not-used", "path-down"), never_open),
        "reverse path": (
            ("reverse-path",),
            tuple(f"link.{name}.reverse.rate={way_back} kbit/s" for name in "ab"),
        ),
        "short queue": (("queue-too-short", "control"), short),
        "loss": (("random-loss", "control"), (f"link.a.loss={loss}", f"link.b.loss={loss}")),
    }


def _network(rates: list[int], delays: list[int], draw: random.Random) -> str:
    """Two links whose queues hold one to two round trips."""
    text = DURATION
    for name, rate, delay in zip("ab", rates, delays, strict=True):
        packets = round(draw.uniform(1.0, 2.0) * max(20.0, rate * 1e6 * 2e-3 * delay / 8.0 / 1500.0))
        text += (
            f'[[link]]\nname = "{name}"\nbetween = ["S", "D"]\nrate = "{rate} Mbit/s"\ndelay = "{delay} ms"\n'
            f'queue = {{ kind = "fifo", limit = "{packets} packets" }}\nreverse = {{ rate = "{rate} Mbit/s" }}\n'
        )
    return text + FLOW


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    case: Case
    named: tuple[str, ...]
    """Kinds of the first two findings."""
    remedy: Finding | None
    """The finding that mends the fault."""
    gain: float
    """Its gain in the kernel's world; 0 without one."""
    is_overloaded: bool

    @property
    def is_named(self) -> bool:
        """Whether one of the first two findings mends the fault."""
        return self.remedy is not None

    @property
    def is_right(self) -> bool:
        """Whether it also makes the flow faster on the kernel."""
        return self.gain >= MIN_GAIN

    def __str__(self) -> str:
        remedy = "–" if self.remedy is None else self.remedy.command
        late = " (machine too slow)" if self.is_overloaded else ""
        verdict = "right" if self.is_right else "wrong"
        return f"{verdict} {self.case.fault}: {', '.join(self.named)}; {100 * self.gain:+.0f} % by {remedy}{late}"


def examine(case: Case, jobs: int = 1) -> Outcome:
    """Run a case on the kernel, explain the result, and run the remedy on the kernel.

    Args:
        case: The case.
        jobs: Worker processes of the explanation.

    """
    before = run(case.scenario, world="kernel", seed=1)
    found = explain_document(before.document, Options(reps=2, jobs=jobs, time_limit_s=60.0), case.scenario.file)
    first = found.findings[:2]
    named = tuple(each.kind for each in first)
    remedy = next((each for each in first if each.kind in case.kinds and each.settings), None)
    results: list[Result] = [before]
    gain = 0.0
    if remedy is not None:
        try:
            results.append(run(case.scenario.with_settings(remedy.settings), world="kernel", seed=1))
        except InputError as error:
            print(f"the kernel's world refuses {remedy.command}: {error}")
        else:
            objective = Objective.of(before.document, "F", "goodput")
            gain = objective.gain(before.document, results[1].document).relative
    late = any(host["lateness"]["overloaded"] for each in results if (host := each.document["host"]) is not None)
    return Outcome(case, named, remedy, gain, late)


def examine_in_time(case: Case) -> Outcome:
    """Examine a case again while the machine does not keep up, at most `MAX_REPETITIONS` times.

    Args:
        case: The case.

    """
    outcome = examine(case)
    for _ in range(MAX_REPETITIONS):
        if not outcome.is_overloaded:
            break
        print(f"again: {outcome}", flush=True)
        outcome = examine(case)
    return outcome


def main() -> None:
    """Examine all cases and print the totals."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    right: Counter[str] = Counter()
    named: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case in cases(count, seed):
        outcome = examine_in_time(case)
        total[case.fault] += 1
        named[case.fault] += outcome.is_named
        right[case.fault] += outcome.is_right
        print(outcome, flush=True)
    for fault in total:
        print(f"{fault}: {right[fault]} of {total[fault]} right, {named[fault]} named")
    print(f"{right.total()} of {total.total()} right, {named.total()} named")


if __name__ == "__main__":
    main()
