"""The result of a run as polars frames."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.capacity import possible_bps
from anabranch.silence import silences

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from anabranch.simulator import Document


class Result:
    """What came out of one run.

    The frames hold one row per flow, per flow and path, and per link and direction. Tables within the result become
    columns with joined names, such as `delivery_delay_s_p95`. Units are part of a column's name: `_bps` is bits per
    second, `_s` seconds, `_bytes` bytes.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        """The result as the simulator wrote it."""

    def __repr__(self) -> str:
        return f"Result(seed={self.seed}, digest={self.digest!r}, flows={[f['name'] for f in self.document['flows']]})"

    @property
    def seed(self) -> int:
        """Seed of all random streams of the run."""
        return int(self.document["seed"])

    @property
    def digest(self) -> str | None:
        """Digest of all that happened: equal digests mean equal runs, packet by packet. Only simulations have one."""
        value: str | None = self.document["digest"]
        return value

    @property
    def jain(self) -> float | None:
        """Jain's fairness index over the goodputs of the flows; `None` if nothing was delivered."""
        value: float | None = self.document["jain"]
        return value

    def possible_bps(self, *flows: str) -> float | None:
        """What the links on the paths of some flows, or of all, could carry together if nothing else used them.

        In bit/s, headers and framing included, by the rates of the scenario; see `anabranch.capacity`. `None` if a
        link follows a trace of delivery opportunities.
        """
        return possible_bps(self.document, flows or [flow["name"] for flow in self.document["flows"]])

    @cached_property
    def silences(self) -> list[str]:
        """A sentence for each flow that never connected or delivered nothing to speak of, with the reason."""
        return silences(self.document)

    @cached_property
    def flows(self) -> pl.DataFrame:
        """One row per flow."""
        return _frame([flatten({k: v for k, v in f.items() if k != "paths"}) for f in self.document["flows"]])

    @cached_property
    def paths(self) -> pl.DataFrame:
        """One row per flow and path; the flow's name is in column `flow`."""
        return _frame(
            [{"flow": flow["name"], **flatten(path)} for flow in self.document["flows"] for path in flow["paths"]]
        )

    @cached_property
    def links(self) -> pl.DataFrame:
        """One row per link and direction."""
        return _frame([flatten(link) for link in self.document["links"]])


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables within a table as keys joined with "_"; lists stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}".replace("-", "_")
        if isinstance(value, dict):
            flat.update(flatten(value, f"{name}_"))
        else:
            flat[name] = value
    return flat


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
