"""Programs of this project that do not need Python and are installed with the package."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from anabranch.errors import InputError


@dataclass(frozen=True)
class Program:
    """A program in the folder of this interpreter or on the path."""

    name: str
    override: str
    """Environment variable with the path of another program to use instead."""
    task: str
    """Purpose of the program, as in "..., which loads congestion controls"."""
    elsewhere: str
    """Message on systems other than Linux, where the program cannot run."""
    folder: str
    needs: str = ""
    """Further requirements of a build beyond Rust, in parentheses."""

    def find(self) -> Path | None:
        """The program; `None` if it is not installed."""
        if os.environ.get(self.override):
            return Path(os.environ[self.override])
        sibling = Path(sys.executable).parent / self.name
        if sibling.exists():
            return sibling
        found = shutil.which(self.name)
        return Path(found) if found else None

    def path(self) -> Path:
        """The program.

        Raises:
            InputError: If the program is not installed, with the command to install it, or its file is not executable.

        """
        if platform.system() != "Linux":
            raise InputError(self.elsewhere)
        found = self.find()
        if found is not None and not (found.is_file() and os.access(found, os.X_OK)):
            named = f"{self.override} names {found}, which" if os.environ.get(self.override) else str(found)
            raise InputError(f"{named} is not an executable file")
        if found is None:
            raise InputError(
                f"the program {self.name}, which {self.task}, is not installed; build it with: make build"
                f"{self.needs}, or: cargo install --path apps/{self.folder}"
            )
        return found

    def become(self, *arguments: str) -> NoReturn:
        """Replace this process by the program.

        Raises:
            InputError: As `path`.

        """
        program = self.path()
        os.execv(program, [str(program), *arguments])
