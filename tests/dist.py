"""Tests a wheel without Rust: `python tests/dist.py WHEEL PROXY`, which `make dist` runs.

It installs the wheel with pip into new environments of temporary folders, with a path of system folders only, runs its
commands, and prints the size of each installed package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAX_RUN_MB = 150.0
"""Installed size for `run` and `lab`."""
MAX_FIRST_RUN_S = 60.0
"""Time from the installation to the result of the first run."""
SYSTEM = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("anabranch", "anabranch-proxy", "anabranch-endpoint", "anabranch-cc")

SIZES = """
import importlib.metadata, json, os
sizes = {}
for dist in importlib.metadata.distributions():
    files = [dist.locate_file(file) for file in dist.files or ()]
    sizes[dist.metadata["Name"]] = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
print(json.dumps(sizes))
"""


class Environment:
    """A new environment with a wheel and without Rust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bin = folder / "venv" / "bin"
        self._variables = {"PATH": f"{self._bin}:{SYSTEM}", "HOME": str(folder), "LANG": "C.UTF-8"}
        self._variables |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_CERT"))}
        for tool in ("cargo", "rustc", "maturin"):
            if shutil.which(tool, path=self._variables["PATH"]):
                raise SystemExit(f"this test needs an environment without {tool}")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def run(self, *command: str) -> str:
        """Run a command in an empty folder and return its output; a failure ends the test."""
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self._folder, env=self._variables, timeout=900
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self, wheel: Path, extra: str = "") -> None:
        """Install a wheel with its dependencies."""
        self.run(f"{self._bin}/pip", "install", "--quiet", "--no-cache-dir", f"{wheel}{extra}")

    def sizes_mb(self) -> dict[str, float]:
        """Size of each installed package in MB, with compiled modules and without pip."""
        found: dict[str, int] = json.loads(self.run(f"{self._bin}/python", "-c", SIZES))
        return {name: size * 1e-6 for name, size in found.items() if name not in ("pip", "setuptools")}


def print_sizes(title: str, sizes: dict[str, float]) -> float:
    """Print the packages from 1 MB, largest first, and return the total."""
    total = sum(sizes.values())
    print(f"{title}: {total:.0f} MB")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if size >= 1.0:
            print(f"  {size:6.1f} MB  {name}")
    return total


def check_run_and_lab(wheel: Path, folder: Path) -> None:
    """Check the package without extras."""
    environment = Environment(folder)
    began = time.monotonic()
    environment.install(wheel)
    installed = time.monotonic()
    environment.run("sh", "-c", "anabranch run $(anabranch examples two-flows)")
    ended = time.monotonic()
    print(f"installed in {installed - began:.0f} s, first run in {ended - installed:.1f} s")
    if ended - began > MAX_FIRST_RUN_S:
        print(f"the bar is {MAX_FIRST_RUN_S:.0f} s for both, on an idle machine")
    environment.run("anabranch", "lab", "--export", "lab.html")
    page = (folder / "lab.html").read_text(encoding="utf-8")
    if not page.startswith("<!doctype html>"):
        raise SystemExit("anabranch lab --export wrote no page")
    for program in PROGRAMS:
        if program not in environment.run(program, "--help"):
            raise SystemExit(f"{program} --help prints no commands")
    total = print_sizes("run and lab", environment.sizes_mb())
    if total > MAX_RUN_MB:
        raise SystemExit(f"run and lab need {total:.0f} MB, more than {MAX_RUN_MB:.0f} MB")


def check_all(wheel: Path, folder: Path) -> None:
    """Check the package with all extras."""
    environment = Environment(folder)
    environment.install(wheel, "[all]")
    environment.run("sh", "-c", "anabranch run $(anabranch examples two-flows) --plot windows.png")
    environment.run("sh", "-c", "anabranch fair $(anabranch examples two-flows)")
    environment.run("python", "-c", "import anabranch.gym, anabranch.study.cluster")
    print_sizes("all extras", environment.sizes_mb())


def check_static(program: Path, folder: Path) -> None:
    """Check that a program runs in a root folder with no file but itself, for which root is needed."""
    if os.geteuid() != 0:
        print(f"not tested: {program.name} in an empty root folder, which needs root")
        return
    shutil.copy(program, folder / program.name)
    done = subprocess.run(["chroot", folder, f"/{program.name}", "--help"], capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program.name} does not run in an empty root folder: {done.stderr.decode()}")


def main() -> None:
    """Run all checks."""
    wheel, proxy = (Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run", "all", "root"):
            (Path(folder) / name).mkdir()
        check_static(proxy, Path(folder) / "root")
        check_run_and_lab(wheel, Path(folder) / "run")
        check_all(wheel, Path(folder) / "all")
    print(f"{wheel.name} works without Rust")


if __name__ == "__main__":
    main()
