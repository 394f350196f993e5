"""Makes the figures of single runs in the gallery again, by the commands that stand below them.

`make figures` writes docs/images.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
GALLERY = DOCS / "gallery.md"


def commands() -> list[str]:
    """The shell blocks of the gallery that draw one run, and need seconds."""
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", GALLERY.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if "--plot " in block]


def main() -> int:
    """Run the commands in the folder of the images; returns the exit status of the first that fails."""
    for command in commands():
        print(command.strip())
        done = subprocess.run(["sh", "-ec", command], cwd=DOCS / "images", stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
