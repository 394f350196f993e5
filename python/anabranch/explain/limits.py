"""Limits and aims of an explanation, in a module that loads fast: each start of the command line imports it."""

from __future__ import annotations

from typing import Literal, get_args

REPS = 5
TIME_LIMIT_S = 8.0
Aim = Literal["goodput", "delay"]
AIMS: tuple[str, ...] = get_args(Aim)
