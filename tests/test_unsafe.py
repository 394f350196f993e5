"""Unsafe code of this repository: each block is listed here, so that a new block has to be added deliberately."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCKS = {
    "apps/proxy/src/original_destination.rs": 2,
    "apps/proxy/src/sockopt.rs": 3,
    "apps/proxy/src/upstream/getaddrinfo.rs": 6,
    "crates/kernel/src/inherited.rs": 1,
    "crates/kernel/src/link.rs": 1,
    "crates/lab/src/abi.rs": 12,
    "crates/packetdrill/src/abi/calls.rs": 21,
    "crates/packetdrill/src/abi/memory.rs": 10,
    "crates/packetdrill/src/abi/mod.rs": 1,
    "crates/packetdrill/src/abi/network.rs": 3,
    "crates/packetdrill/src/abi/options.rs": 6,
    "crates/packetdrill/src/abi/readiness.rs": 1,
    "crates/packetdrill/src/abi/table.rs": 3,
    "crates/packetdrill/src/abi/tests.rs": 1,
}
"""Number of unsafe blocks by file."""

_UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)")
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"')


def test_unsafe_blocks_are_listed() -> None:
    found = {}
    for folder in ("crates", "apps", "fuzz"):
        for file in (ROOT / folder).rglob("*.rs"):
            if "target" in file.parts:
                continue
            count = len(_UNSAFE.findall(_COMMENT_OR_TEXT.sub("", file.read_text(encoding="utf-8"))))
            if count:
                found[file.relative_to(ROOT).as_posix()] = count
    assert found == BLOCKS


def test_unsafe_blocks_state_why_they_are_sound() -> None:
    for name in BLOCKS:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if _UNSAFE.search(_COMMENT_OR_TEXT.sub("", line)):
                before = "\n".join(lines[max(0, number - 5) : number])
                assert "SAFETY:" in before, f"{name}:{number + 1}"
