"""The page of the laboratory, with a scenario that it opens."""

from __future__ import annotations

import json
from pathlib import Path

from anabranch.errors import InputError
from anabranch.paths import names_trace
from anabranch.scenario import Scenario

BUILT = Path(__file__).parent / "lab.html"
"""The page, as `make lab` builds it."""

MAX_SCENARIO_BYTES = 256 * 1024
"""Largest scenario that the page opens, in bytes of UTF-8."""

_PLACEHOLDER = '<script type="application/json" id="given">null</script>'


def page(scenario: str | None, seed: int | None, file: str = "scenario") -> str:
    """The page as HTML.

    Args:
        scenario: TOML text of the scenario that it opens; `None` for its first lesson.
        seed: Seed of the run; `None` for that of the scenario.
        file: Name of the scenario for messages.

    Raises:
        InputError: If the page was not built, or it cannot open the scenario.

    """
    if not BUILT.exists():
        raise InputError(
            "this installation has no laboratory; install Node.js 20 with npm, run: rustup target add "
            "wasm32-unknown-unknown, then: make lab"
        )
    built = BUILT.read_text(encoding="utf-8")
    if scenario is None:
        return built
    _check(scenario, file)
    # "<" could end the element; JSON allows its escape in texts, and has it nowhere else.
    given = json.dumps({"scenario": scenario, "seed": seed}).replace("<", "\\u003c")
    return built.replace(_PLACEHOLDER, _PLACEHOLDER.replace("null", given), 1)


def _check(scenario: str, file: str) -> None:
    size = len(scenario.encode())
    if size > MAX_SCENARIO_BYTES:
        raise InputError(
            f"has {-(-size // 1024)} KiB, but the page opens scenarios of at most {MAX_SCENARIO_BYTES // 1024} KiB; "
            "run it with: anabranch run", file,
        )  # fmt: skip
    if names_trace(scenario):
        raise InputError(
            "has a link that follows a trace, a file that the page cannot read; give the link constant values", file
        )
    Scenario.from_toml(scenario, file)
