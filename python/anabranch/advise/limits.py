"""Limits and choices of a search, in a module that loads fast: each start of the command line imports it."""

from __future__ import annotations

from typing import Literal, get_args

REPS = 5
TIME_LIMIT_S = 30.0
May = Literal["linux", "all"]
MAY: tuple[str, ...] = get_args(May)
WORKLOADS: dict[str, tuple[str, str | None]] = {
    "bulk": ("Bulk transfer", None),
    "stream": ("Video stream", '{ kind = "rate", rate = "5 Mbit/s" }'),
    "call": ("Call", '{ kind = "rate", rate = "64 kbit/s", message = "160 B" }'),
    "web": ("Web pages", '{ kind = "request-response", response = { exponential = "200 kB" }, think = "100 ms" }'),
}
"""By name, the title and the workload of a scenario; `None` is a saturated application."""
