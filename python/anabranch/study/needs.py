"""What a claim needs of the form of a study: a duration, a number of repetitions, or the full form."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import simulator
from anabranch.capacity import seconds
from anabranch.sweep import matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.study.claims import Claim, Quantity
    from anabranch.study.definition import Effort, Study
    from anabranch.study.document import Table
    from anabranch.sweep import Point

FULL = "full"


@dataclass(frozen=True)
class Needs:
    """Least duration and repetitions of the runs of a claim."""

    full: bool = False
    """Whether the claim needs the full form with all its repetitions."""
    duration: str = ""
    """Least duration of a run, as scenarios spell it; "" for any."""
    repetitions: int = 1

    def __str__(self) -> str:
        """What is needed, in a few words."""
        if self.full:
            return "the full form"
        parts = [f"runs of {self.duration}"] if self.duration else []
        parts += [f"{self.repetitions} repetitions"] if self.repetitions > 1 else []
        return " and ".join(parts)


def read_needs(table: Table) -> Needs:
    """Read the key "needs" of a claim; without it nothing is needed.

    Raises:
        InputError: If it is neither "full" nor a table of a duration and a number of repetitions.

    """
    if not table.has("needs"):
        return Needs()
    if table.holds("needs", str):
        table.choice("needs", (FULL,))
        return Needs(full=True)
    inner = table.table("needs")
    needs = Needs(duration=inner.get("duration", str, ""), repetitions=inner.get("repetitions", int, 1))
    inner.finish()
    if needs.duration:
        try:
            seconds(needs.duration)
        except (ValueError, KeyError):
            raise inner.error(
                f'"duration" has to be a time such as "300 s", not "{needs.duration}"', "duration"
            ) from None
    if needs.repetitions < 1:
        raise inner.error('"repetitions" has to be at least 1', "repetitions")
    if needs == Needs():
        raise inner.error('"needs" has to name a "duration", "repetitions" or both', "needs")
    return needs


def shortfall(study: Study, effort: Effort, claim: Claim) -> str:
    """What a form lacks of what a claim needs; empty if it falls short of nothing."""
    needs = claim.needs
    if needs == Needs() or claim.world != "run":
        return ""
    points = [p for p in study.points(effort) if any(_is_of(q, p) for q in (claim.quantity, claim.against) if q)]
    if needs.full:
        usual = study.full_real_time if effort.real_time else study.full
        fewer = any(effort.repetitions_of(point) < usual.repetitions_of(point) for point in points)
        return str(needs) if effort.quick or fewer else ""
    fewest = min((effort.repetitions_of(point) for point in points), default=needs.repetitions)
    lacks = [f"{needs.repetitions} repetitions, has {fewest}"] if fewest < needs.repetitions else []
    if needs.duration:
        shortest = min((duration_s(study, point) for point in points), default=seconds(needs.duration))
        lacks += [f"runs of {needs.duration}, has {shortest:g} s"] if shortest < seconds(needs.duration) else []
    return "; ".join(lacks)


def _is_of(quantity: Quantity, point: Point) -> bool:
    return point.experiment == quantity.experiment and matches(point.values, quantity.where)


def duration_s(study: Study, point: Point) -> float:
    """How long a run of a point lasts."""
    settings = dict(override.partition("=")[::2] for override in point.overrides)
    spelt_out: Mapping[str, object] = (
        tomllib.loads(f"duration = {settings['duration']}") if "duration" in settings else {}
    )
    if not spelt_out:
        text = study.scenarios[point.scenario]
        spelt_out = simulator.canonical(simulator.Request(text, str(study.folder / point.scenario), point.overrides))
    return seconds(str(spelt_out["duration"]))
