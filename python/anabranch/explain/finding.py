"""One finding: a cause with its numbers, a remedy to type, and the measured gain."""

from __future__ import annotations

import math
import shlex
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.coverage import named
from anabranch.stats import Bounds, interval_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.explain.objective import Gain, Objective
    from anabranch.explain.proposals import Proposal

MIN_GAIN = 0.10
"""Minimum gain of a remedy, after the loss of other flows."""


@dataclass(frozen=True)
class Measured:
    """Gains of a remedy over several seeds, each against the unchanged run with the same seed."""

    objective: Objective
    gains: tuple[Gain, ...]

    @property
    def net(self) -> float:
        """Mean gain in speed less the loss of other flows, as a share; infinite if the flow had delivered nothing."""
        return statistics.fmean(gain.net for gain in self.gains)

    @property
    def relative(self) -> float:
        """Mean gain in speed as a share."""
        return statistics.fmean(gain.relative for gain in self.gains)

    @property
    def interval(self) -> Bounds | None:
        """Student's t interval of `relative` from pairs of runs; `None` for a single pair or an infinite gain."""
        values = [gain.relative for gain in self.gains]
        if len(values) < 2 or not all(map(math.isfinite, values)):  # noqa: PLR2004  no spread
            return None
        return interval_of(values, "mean", "t") or Bounds(values[0], values[0], math.nan)

    @property
    def others_bps(self) -> float:
        """Mean change of the goodput of all other flows, bit/s."""
        return statistics.fmean(gain.others_bps for gain in self.gains)

    @property
    def ends(self) -> tuple[float, float]:
        """Mean of the objective without and with the remedy, in its unit."""
        scale = self.objective.scale
        before = scale * statistics.fmean(gain.before for gain in self.gains)
        return before, scale * statistics.fmean(gain.after for gain in self.gains)

    @property
    def sentence(self) -> str:
        """The gain as the second half of a sentence."""
        before, after = self.ends
        name, unit = self.objective.name, self.objective.unit
        bounds = self.interval
        if bounds is None:
            certainty = ""
        elif bounds.low == bounds.high:
            certainty = f", equal for {len(self.gains)} seeds"
        else:
            low, high = sorted(map(self._change, (bounds.low, bounds.high)))
            certainty = f", {named(bounds.coverage)} interval {_percent(low)} to {_percent(high)}"
        if math.isinf(before):
            text = f"the flow delivers its data, {name} {_number(after)} {unit}"
        else:
            verb = "changes" if math.isinf(after) else "rises" if after > before else "falls"
            change = _percent(self._change(self.relative))
            first, last = _number(before), _number(after)
            course = f"stays at {last}" if first == last else f"{verb} from {first} to {last}"
            text = f"{name} {course} {unit} ({change}{certainty})"
        others = self.others_bps * 1e-6
        if any(gain.cost for gain in self.gains):
            text += f"; other flows lose {_number(-others)} Mbit/s"
        return text

    def _change(self, relative: float) -> float:
        """The change of the number itself: half the time is −50 %, which is twice the speed."""
        return 1.0 / (1.0 + relative) - 1.0 if self.objective.is_time else relative

    def document(self) -> dict[str, object]:
        """All numbers as a value for JSON."""
        before, after = self.ends
        bounds = self.interval
        return {
            "objective": self.objective.name,
            "unit": self.objective.unit,
            "before": _finite(before),
            "after": _finite(after),
            "relative": _finite(self.relative),
            "relative_interval": None if bounds is None else [bounds.low, bounds.high],
            "coverage": None if bounds is None else _finite(bounds.coverage),
            "net": _finite(self.net),
            "others_bps": self.others_bps,
            "seeds": len(self.gains),
        }


@dataclass(frozen=True)
class Finding:
    """A cause and its remedy."""

    kind: str
    flow: str
    proposals: tuple[Proposal, ...]
    """The remedies that belong together; none if there is nothing to mend."""
    cause: str
    """Sentence with the numbers that point to the cause, without its full stop."""
    measured: Measured | None = None
    """The gain of the remedy; `None` if it was not run."""

    @property
    def subject(self) -> str:
        """The affected path or link; empty for the whole flow."""
        return ", ".join(dict.fromkeys(each.subject for each in self.proposals if each.subject))

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of the remedy, "key=value" as for `--set`."""
        return tuple(dict.fromkeys(setting for each in self.proposals for setting in each.settings))

    @property
    def evidence(self) -> float:
        """Estimate of the gain without a run, 0 to 1."""
        return max((each.evidence for each in self.proposals), default=0.0)

    @property
    def net(self) -> float:
        """The verified gain less the loss of other flows, as a share; NaN if the remedy was not run."""
        return math.nan if self.measured is None else self.measured.net

    @property
    def speed(self) -> float:
        """The objective with the remedy, the larger the better; ranks remedies of a flow that stood still."""
        if self.measured is None:
            return -math.inf
        after = self.measured.ends[1]
        return -after if self.measured.objective.is_time else after

    @property
    def is_remedy(self) -> bool:
        """Whether the gain is verified and large enough to count."""
        return self.net >= MIN_GAIN

    @property
    def command(self) -> str:
        """The remedy as options to type."""
        return " ".join(f"--set {_quoted(setting)}" for setting in self.settings)

    @property
    def sentence(self) -> str:
        """Cause, remedy and gain in plain English."""
        if not self.proposals:
            return f"{self.cause}."
        if self.measured is None:
            return f"{self.cause}. Not verified: try {self.command}."
        return f"{self.cause}. With {self.command} {self.measured.sentence}."

    def document(self) -> dict[str, object]:
        """All fields as a value for JSON."""
        return {
            "kind": self.kind,
            "flow": self.flow,
            "subject": self.subject or None,
            "cause": f"{self.cause}.",
            "settings": list(self.settings),
            "verified": self.measured is not None,
            "evidence": self.evidence,
            "gain": None if self.measured is None else self.measured.document(),
        }


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Findings by verified gain; of equal ones the faster, then that with fewer settings first."""
    return sorted(findings, key=lambda each: (-each.net, -each.speed, len(each.settings), -each.evidence))


def _quoted(setting: str) -> str:
    """A setting for a shell; a plain text keeps the form of the documents, key="value"."""
    key, _, value = setting.partition("=")
    inner = value[1:-1] if value.startswith('"') and value.endswith('"') else value
    if inner and all(sign.isalnum() or sign in " ._-" for sign in inner):
        return setting if " " in inner else f"{key}={inner}"
    return shlex.quote(setting)


def _number(value: float) -> str:
    """Three or more digits of a number; words for a time without an end."""
    if math.isinf(value):
        return "no end"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004


def _percent(share: float) -> str:
    return "from nothing" if math.isinf(share) else f"{100 * share:+.0f} %"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
