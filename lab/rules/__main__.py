"""Translates the rules of `anabranch explain` for the page: `python lab/rules OUT.js`."""

from __future__ import annotations

import sys
from pathlib import Path

from translation import ENTRIES, Translation

if __name__ == "__main__":
    (out,) = sys.argv[1:]
    Path(out).write_text(Translation().text(ENTRIES), encoding="utf-8")
