"""Limits of studies, apart from their keys: every start of the command line imports them."""

from __future__ import annotations

MAX_REPETITIONS = 100_000
