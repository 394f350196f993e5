"""Labelled runs as a Parquet file: scenario, result, captures, and the measured gain of each remedy.

Answers can be scored on these runs without running anything again, by this package and by other tools. The splits are
drawn from different random streams: rules are written with "build", chosen with "validation", and "test" is for the
published figures only.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch._core.simulator import Capture
from anabranch.bench.explain import FAULTS, TIME_LIMIT_S, TOLERANCE, draw_case
from anabranch.bench.seven_rules import votes
from anabranch.errors import InputError
from anabranch.execution import run
from anabranch.explain.captured import read_captures
from anabranch.explain.explanation import Options, measure_remedies
from anabranch.explain.finding import MIN_GAIN
from anabranch.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anabranch._core.document import Document
    from anabranch.bench.explain import Case

SPLITS = ("build", "validation", "test")
PLACES: dict[str, tuple[str, ...]] = {"sender": ("S",), "middle": ("Ma", "Mb"), "receiver": ("D",)}
"""Nodes whose interfaces are captured, by the position of the capture on the path."""
SNAPLEN_BYTES = 96
TWO_FAULTS = "two at random"
_TWO_FAULTS_CASES = 3
"""Cases with two random faults for each case of every single fault."""
_MAX_DRAWS = 100


@dataclass(frozen=True)
class Remedy:
    """A remedy that was run, with its gain."""

    kind: str
    settings: tuple[str, ...]
    """Settings as for `--set`."""
    gain: float
    """Gain in speed less the loss of other flows, as a share; infinite if the flow had delivered nothing."""


@dataclass(frozen=True)
class LabelledRun:
    """A run with a planted fault and its label."""

    split: str
    """One of `SPLITS`."""
    seed: int
    number: int
    fault: str
    scenario: str
    """The scenario as TOML, without the settings of the fault."""
    overrides: tuple[str, ...]
    """Settings of the fault and the distractor."""
    result: Document
    captures: Mapping[str, Mapping[str, Any]]
    """The report on the capture at each of `PLACES`, without the pieces of data."""
    votes: Mapping[str, int]
    """Round trips by the cause that the seven rules name."""
    remedies: tuple[Remedy, ...]

    @property
    def best(self) -> float:
        """Largest gain of all remedies."""
        return max((0.0, *(each.gain for each in self.remedies)))

    @property
    def is_capacity(self) -> bool:
        """Whether no remedy helps."""
        return self.best <= MIN_GAIN + TOLERANCE

    def gain_of_kinds(self, kinds: Sequence[str]) -> float:
        """Largest gain of the remedies of some kinds; minus infinity if none ran."""
        return max((each.gain for each in self.remedies if each.kind in kinds), default=-math.inf)

    def gain_of_settings(self, settings: Sequence[str]) -> float:
        """Gain of the remedy with exactly these settings, in any order; minus infinity if it did not run."""
        wanted = set(settings)
        return max((each.gain for each in self.remedies if set(each.settings) == wanted), default=-math.inf)

    def row(self) -> dict[str, object]:
        """The run as a row of the Parquet file."""
        return {
            "split": self.split, "seed": self.seed, "number": self.number, "fault": self.fault,
            "scenario": self.scenario, "overrides": list(self.overrides), "result": json.dumps(self.result),
            "captures": json.dumps(self.captures), "votes": json.dumps(self.votes),
            "remedies": [
                {"kind": each.kind, "settings": list(each.settings), "gain": each.gain} for each in self.remedies
            ],
        }  # fmt: skip

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> LabelledRun:
        """Read a row of the Parquet file."""
        return cls(
            split=row["split"],
            seed=row["seed"],
            number=row["number"],
            fault=row["fault"],
            scenario=row["scenario"],
            overrides=tuple(row["overrides"]),
            result=json.loads(row["result"]),
            captures=json.loads(row["captures"]),
            votes=json.loads(row["votes"]),
            remedies=tuple(Remedy(each["kind"], tuple(each["settings"]), each["gain"]) for each in row["remedies"]),
        )


def cases(split: str, count: int, seed: int) -> Iterator[Case]:
    """Cases of a split: every fault in turn, then two random ones together."""
    names = [*FAULTS, *[TWO_FAULTS] * _TWO_FAULTS_CASES]
    for number in range(count):
        draw = random.Random(f"{split}/{seed}/{number}")
        fault = names[number % len(names)]
        if fault != TWO_FAULTS:
            yield draw_case(draw, fault, FAULTS[fault], f"case {number}", with_middle=True)
        else:
            yield _with_two_faults(draw, number)


def _with_two_faults(draw: random.Random, number: int) -> Case:
    """A case with two different faults that a scenario accepts together."""
    known = [name for name in FAULTS if name != "none"]
    for _ in range(_MAX_DRAWS):
        pair = draw.sample(known, 2)
        settings = tuple(setting for name in pair for setting in FAULTS[name])
        case = draw_case(draw, TWO_FAULTS, settings, f"case {number}", with_middle=True)
        try:
            case.scenario.validate()
        except InputError:
            continue
        return case
    raise AssertionError("no two faults fit together")


def labelled(split: str, count: int, seed: int) -> Iterator[LabelledRun]:
    """Run, capture and label the cases of a split.

    The seed of the cases is that of their runs, too, so that runs with the same fault draw different losses. A label
    belongs to its run: the remedies run with the same seed and the same start.
    """
    for number, case in enumerate(cases(split, count, seed)):
        found = measure_remedies(case.scenario, Options(seed=seed, reps=1, time_limit_s=TIME_LIMIT_S))
        remedies = tuple(Remedy(each.kind, each.settings, each.net) for each in found)
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
            result = run(case.scenario, seed=seed, trace=Path(folder) / "traces").document
            yield LabelledRun(
                split=split,
                seed=seed,
                number=number,
                fault=case.fault,
                scenario=case.scenario.text,
                overrides=case.scenario.overrides,
                result=result,
                captures={place: _captured(case, seed, place, Path(folder)) for place in PLACES},
                votes=votes(Path(folder) / "traces", result),
                remedies=remedies,
            )


def _captured(case: Case, seed: int, place: str, folder: Path) -> dict[str, object]:
    """The report on a capture, without its pieces of data, which are many."""
    file = str(folder / f"{place}.pcapng")
    run(case.scenario, seed=seed, pcap=Capture(file, SNAPLEN_BYTES, PLACES[place], ()))
    document = read_captures(file).document
    for connection in document["connections"]:
        for direction in connection["directions"]:
            direction["pieces"] = []
    return dict(document)


def write(runs: Iterable[LabelledRun], file: str) -> int:
    """Write runs to a Parquet file, and return their number.

    Raises:
        InputError: If the file cannot be written.

    """
    require("frames", "a file of labelled runs")
    import polars as pl

    rows = [each.row() for each in runs]
    try:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file) from None
    return len(rows)


def read(files: Sequence[str], split: str | None = None) -> list[LabelledRun]:
    """Read runs from Parquet files, of one split or of all.

    Raises:
        InputError: If a file cannot be read or contains no labelled runs, or no run is of the split.

    """
    require("frames", "a file of labelled runs")
    import polars as pl

    found: list[LabelledRun] = []
    for file in files:
        try:
            frame = pl.read_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(f"cannot be read as Parquet: {error}", file) from None
        missing = [name for name in LabelledRun.__dataclass_fields__ if name not in frame.columns]
        if missing:
            raise InputError(f'lacks the column "{missing[0]}" of labelled runs; write it with --export', file)
        found += [LabelledRun.of(row) for row in frame.iter_rows(named=True) if split in (None, row["split"])]
    if not found:
        which = "" if split is None else f' of the split "{split}"'
        raise InputError(f"there is no labelled run{which}; write some with --export")
    return found
