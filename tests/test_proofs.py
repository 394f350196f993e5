"""The page of proofs lists every theorem with its statement."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
_THEOREM = re.compile(r"^ *(?:anabranch_proof::)?theorem! \{\n((?: *///.*\n)+) *fn (\w+)\(", re.MULTILINE)


def theorems() -> dict[str, str]:
    """The statements of all theorems by name, without the false ones and the example of the macro."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "crates").rglob("*.rs")
        if "proof" not in path.relative_to(ROOT / "crates").parts[0]
    ]
    return {
        name: " ".join(line.strip().removeprefix("///").strip() for line in lines.strip().splitlines())
        for text in texts
        for lines, name in _THEOREM.findall(text)
    }


def test_page_lists_every_theorem_with_its_statement() -> None:
    page = (ROOT / "crates/proof/README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    stated = {
        name: statement.rstrip(".").replace("[`", "`").replace("`]", "`") for name, statement in theorems().items()
    }
    assert len(stated) > 30
    assert rows == stated
