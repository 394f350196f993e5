"""Builds the documentation site and fails on any warning and on any link that leads nowhere.

`make docs` writes target/docs/site; open its index.html, no server is needed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from links import broken, count
from sphinx.cmd.build import build_main
from stage import ROOT, stage

SOURCE = ROOT / "target/docs/source"
SITE = ROOT / "target/docs/site"


def main() -> int:
    """Stage, build, check; returns the exit status."""
    begin = time.monotonic()
    stage(SOURCE)
    here = Path(__file__).parent
    options = ["--quiet", "--fresh-env", "--write-all", "--fail-on-warning", "--keep-going", "--jobs", "2"]
    status = build_main([*options, "--conf-dir", str(here), "--builder", "html", str(SOURCE), str(SITE)])
    if status != 0:
        return status
    if faults := broken(SITE):
        print("\n".join(faults), file=sys.stderr)
        print(f"docs: {len(faults)} links lead nowhere", file=sys.stderr)
        return 1
    pages, links = count(SITE)
    print(f"{SITE.relative_to(ROOT)}/index.html: {pages} pages, {links} links in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
