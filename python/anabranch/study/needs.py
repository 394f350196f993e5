"""Requirements of a claim on the form of a study: a duration, a number of repetitions, or the full form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.fairness.capacity import seconds
from anabranch.study.keys import NeedsKeys

if TYPE_CHECKING:
    from anabranch.study.document import Table
    from anabranch.study.keys import ClaimKeys

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
        """The requirements, in a few words."""
        if self.full:
            return "the full form"
        parts = [f"runs of {self.duration}"] if self.duration else []
        parts += [f"{self.repetitions} repetitions"] if self.repetitions > 1 else []
        return " and ".join(parts)


def read_needs(table: Table[ClaimKeys]) -> Needs:
    """Read the key "needs" of a claim; without it nothing is needed.

    Raises:
        InputError: If the key names neither a duration nor repetitions, or its duration is not a time.

    """
    keys = table.keys.needs
    if not isinstance(keys, NeedsKeys):
        return Needs(full=keys == FULL)
    needs, inner = Needs(duration=keys.duration, repetitions=keys.repetitions), table.inner("needs", keys)
    if needs.duration:
        try:
            seconds(needs.duration)
        except (ValueError, KeyError):
            raise inner.error(
                f'"duration" has to be a time such as "300 s", not "{needs.duration}"', "duration"
            ) from None
    if needs == Needs():
        raise inner.error('"needs" has to name a "duration", "repetitions" or both', "needs")
    return needs
