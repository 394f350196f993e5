"""Comparison of scenarios, results, stores of studies and builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.comparison.conditions import Condition, check_all
from anabranch.comparison.differences import Difference, Missing, differences
from anabranch.comparison.recorded import is_recorded, read_side, side_of
from anabranch.comparison.runs import Plan, Variant, run_all
from anabranch.comparison.samples import Side
from anabranch.errors import InputError, nearest
from anabranch.extras import require
from anabranch.metrics import METRICS
from anabranch.quantities import counted
from anabranch.results import Result
from anabranch.scenario import Scenario
from anabranch.study.engine import Silent

if TYPE_CHECKING:
    from collections.abc import Collection

    import polars as pl

    from anabranch._core.worlds import World
    from anabranch.comparison.conditions import Check
    from anabranch.study.engine import Observer

FORMAT = 1
"""Version of the format of `Comparison.document`."""

Source = Variant | Path | tuple[str, Sequence[Result]]
"""A scenario to run, a file or folder with results, or named results in memory."""


@dataclass(frozen=True)
class Comparison:
    """Differences of all metrics between a baseline and other sides."""

    sides: tuple[Side, ...]
    """The baseline, then the others."""
    differences: tuple[Difference, ...]
    missing: tuple[Missing, ...]
    """Metrics of subjects that only one of two sides has."""

    def __repr__(self) -> str:
        names = " and ".join(repr(side.name) for side in self.sides)
        return f"Comparison({names}, {len(self.differences)} differences)"

    def frame(self) -> pl.DataFrame:
        """One row per side, point, metric and subject, with the columns of the table of differences in JSON."""
        require("frames", "a frame of differences")
        import polars as pl

        return pl.DataFrame([difference.document() for difference in self.differences], infer_schema_length=None)

    def check(self, *conditions: str) -> list[Check]:
        """Apply conditions such as "goodput<-2%" to all differences.

        Args:
            conditions: Conditions of the form METRIC[@SUBJECT]<NUMBER[%]; ">" is possible too.

        Raises:
            InputError: If a condition is not valid, or there is no value of its metric.

        """
        return check_all([Condition.parse(text) for text in conditions], self.differences, self.missing)

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader of the differences must know."""
        return [note for side in self.sides for note in self._notes_of(side)]

    def _notes_of(self, side: Side) -> list[str]:
        found = [f"{side.name}: {note}" for note in side.notes]
        if side.overloaded:
            found.append(
                f"{side.name}: {side.overloaded} of {side.count} runs were on a machine that did not keep up; their "
                "results are not valid for this network"
            )
        if any(len(group.seeds) > 1 and not group.varies for group in side.groups.values()):
            found.append(
                f"{side.name}: the runs do not depend on the seed, and a comparison of such runs has no intervals; "
                "give the scenario a random part, such as start = { uniform = [...] } of a flow"
            )
        baseline = self.sides[0]
        if side.spans != baseline.spans:
            found.append(
                f"{side.name}: duration or warm-up differ from {baseline.name}; counts such as drops are not comparable"
            )
        alone = [point for point in side.groups if point not in baseline.groups]
        absent = [point for point in baseline.groups if point not in side.groups]
        for points, owner in ((alone, side), (absent, baseline)):
            if points:
                found.append(
                    f"{counted(len(points), 'point is', 'points are')} in {owner.name} only, the first: {points[0]}"
                )
        lacking = [part for part in self.missing if side.name == part.side and side is not baseline]
        if lacking:
            first = lacking[0]
            found.append(
                f"{side.name}: no counterpart for {counted(len(lacking), 'value')} of {baseline.name}, the first: "
                f"{first.metric} of {first.subject or 'the run'}"
            )
        return found

    def document(self) -> dict[str, object]:
        """The comparison as a value for JSON; `anabranch compare --json` prints it."""
        return {
            "format": FORMAT,
            "confidence": min((d.interval.coverage for d in self.differences if d.interval is not None), default=None),
            "sides": [
                {"name": side.name, "runs": side.count, "worlds": sorted(side.worlds)} for side in self.sides
            ],
            "differences": [difference.document() for difference in self.differences],
            "missing": [
                {"side": part.side, "point": part.point, "metric": part.metric, "subject": part.subject}
                for part in self.missing
            ],
            "notes": self.notes,
        }  # fmt: skip


def compare(
    *sides: Scenario | Result | Sequence[Result] | str | Path,
    names: Sequence[str] = (),
    metrics: Collection[str] = (),
    reps: int = 10,
    seed: int = 1,
    jobs: int = 1,
    world: World = "sim",
) -> Comparison:
    """Compare all metrics of the first side with those of each other side.

    Args:
        sides: Scenarios, which are run with the same seeds; results or lists of results with different seeds; or paths
            of scenarios, of files with results, of folders with such files and of folders with the store of a study.
        names: A name for each side; by default the name of the file.
        metrics: Names of the metrics to compare; all if empty.
        reps: Number of runs of each scenario.
        seed: Seed of the first run; the others follow.
        jobs: Number of worker processes. With two or more, a script needs `if __name__ == "__main__"` around its calls.
        world: World of the runs, as for `anabranch.run`; runs in real time take place one at a time.

    Returns:
        Means, differences and intervals over seeds; runs are paired where both sides have the same seeds.

    Raises:
        InputError: If there are fewer than two sides, a side is not valid, or an argument is out of its range.
        RunFailed: If a run fails.

    """
    if names and len(names) != len(sides):
        raise InputError(f"names must have one name for each of {len(sides)} sides, but has {len(names)}")
    sources = [_source(side, number) for number, side in enumerate(sides, 1)]
    return compare_sources(sources, names or _names(sources), Plan(reps, seed, jobs, world), metrics)


def compare_sources(
    sources: Sequence[Source],
    names: Sequence[str],
    plan: Plan,
    metrics: Collection[str] = (),
    observer: Observer | None = None,
) -> Comparison:
    """Read or run all sides and compare them.

    Raises:
        InputError: As for `compare`.
        RunFailed: As for `compare`.

    """
    if len(sources) < 2:  # noqa: PLR2004
        raise InputError("a comparison needs two sides or more; add a side, or settings for another side")
    require("statistics", "a comparison")
    _check_metrics(metrics)
    sides: dict[int, Side] = {}
    for number, source in enumerate(sources):
        if isinstance(source, Path):
            sides[number] = read_side(source, metrics)
        elif isinstance(source, tuple):
            sides[number] = side_of(names[number], source[1], metrics)
    variants = {number: source for number, source in enumerate(sources) if isinstance(source, Variant)}
    if variants:
        found = run_all(list(variants.values()), plan, observer or Silent())
        for number, documents in zip(variants, found, strict=True):
            sides[number] = Side(names[number], metrics)
            for document in documents:
                sides[number].add(document, f"{names[number]}, seed {document['seed']}")
    ordered = [sides[number] for number in range(len(sources))]
    for side, name in zip(ordered, _distinct(names), strict=True):
        side.name = name
    return _compared(ordered)


def _check_metrics(metrics: Collection[str]) -> None:
    for metric in metrics:
        if metric not in METRICS:
            raise InputError(f'unknown metric "{metric}"; {nearest(metric, list(METRICS))}')


def _compared(sides: Sequence[Side]) -> Comparison:
    baseline = sides[0]
    for side in sides[1:]:
        if not side.groups.keys() & baseline.groups.keys():
            raise InputError(
                f"{baseline.name} and {side.name} have no point in common; compare stores of the same study, or "
                "results of single scenarios"
            )
    parts = [part for side in sides[1:] for part in differences(baseline, side)]
    return Comparison(
        tuple(sides),
        tuple(part for part in parts if isinstance(part, Difference)),
        tuple(part for part in parts if isinstance(part, Missing)),
    )


def _source(side: object, number: int) -> Source:
    """The source that an argument of `compare` means."""
    if isinstance(side, Scenario):
        return Variant(" ".join([side.file, *side.overrides]), side)
    if isinstance(side, Result):
        return f"result {number}", [side]
    if isinstance(side, str | Path):
        return source_of(Path(side))
    if isinstance(side, Sequence) and side and all(isinstance(result, Result) for result in side):
        return f"results {number}", side
    raise InputError(f"side {number} must be a scenario, a result, a list of results or a path, not {side!r}")


def source_of(path: Path, *, allow_paths: bool = False) -> Source:
    """The scenario or the results at a path.

    Raises:
        InputError: If the file cannot be read, or is neither a scenario nor a result.

    """
    return path if is_recorded(path) else Variant(str(path), Scenario.from_file(path, allow_paths=allow_paths))


def _names(sources: Sequence[Source]) -> list[str]:
    """Default names of sources."""
    return [
        source.name if isinstance(source, Variant) else str(source) if isinstance(source, Path) else source[0]
        for source in sources
    ]


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; a name that occurs again gets a number."""
    found: list[str] = []
    for name in names:
        number, distinct = 1, name
        while distinct in found:
            number += 1
            distinct = f"{name} ({number})"
        found.append(distinct)
    return found
