"""Missing extras: one sentence with the command that installs them, before anything runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anabranch.extras import PACKAGES, Extra

ROOT = Path(__file__).parent.parent
SCENARIO = str(ROOT / "examples" / "two-flows.toml")
HIDDEN = sorted({package for packages in PACKAGES.values() for package in packages})


def without(packages: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that cannot import some packages."""
    hide = f"import sys\nfor name in {packages!r}:\n    sys.modules[name] = None\n"
    return subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False, timeout=120)


def command(packages: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return without(packages, f"from anabranch.cli import main\nmain({list(arguments)!r})")


def declared() -> dict[str, set[str]]:
    """Packages of each extra in pyproject.toml, by the names under which Python imports them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(extra: str) -> set[str]:
        found: set[str] = set()
        for line in extras[extra]:
            own = re.fullmatch(r"anabranch\[(.*)\]", line)
            found |= set[str]().union(*map(packages, own[1].split(","))) if own else {re.split("[<>=]", line)[0]}
        return found

    return {extra: {name.replace("-", "_") for name in packages(extra)} for extra in extras}


def test_table_of_extras_matches_the_package() -> None:
    found = declared()
    assert {extra: set(packages) for extra, packages in PACKAGES.items()} == {e: found[e] for e in PACKAGES}
    assert set(found) == {*PACKAGES, "all", "dev"}
    assert found["all"] == set(HIDDEN)


@pytest.mark.parametrize(
    ("arguments", "task", "extra"),
    [
        (("run", SCENARIO, "--plot", "windows.png"), "a figure", "plot"),
        (("run", SCENARIO, "--html", "page.html"), "--html", "plot"),
        (("fair", SCENARIO), "a fair allocation", "statistics"),
        (("explain", SCENARIO), "a measured gain", "statistics"),
        (("compare", SCENARIO, SCENARIO), "a comparison", "statistics"),
        (("advise", "--link", "a:20/20Mbit,20ms", "--link", "b:9/9Mbit,40ms"), "a choice of settings", "statistics"),
        (("study", "run", "lugowski2017-bottleneck", "--quick"), "a study", "studies"),
        (("study", "report", "lugowski2017-bottleneck", "--quick"), "a study", "studies"),
        (("schema", "study"), "a figure", "plot"),
    ],
)
def test_missing_extra_is_one_sentence(
    arguments: tuple[str, ...], task: str, extra: Extra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(HIDDEN, *arguments)
    sentence = f"{task} needs the package {PACKAGES[extra][0]}, which is not installed"
    assert done.stderr == f'anabranch: {sentence}; run: pip install "anabranch[{extra}]"\n'
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", SCENARIO),
        ("explain", SCENARIO, "--no-run"),
        ("buffers", SCENARIO),
        ("study", "list"),
        ("study", "run", "--help"),
        ("list", "congestion"),
        ("examples",),
    ],
)
def test_command_needs_no_extra(arguments: tuple[str, ...]) -> None:
    done = command(HIDDEN, *arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["windows", "goodput", "rtt"])
def test_figure_of_a_run_needs_no_statistics(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "figure.svg"
    done = command(["scipy"], "run", SCENARIO, "--plot", str(file), "--plot-kind", kind)
    assert (done.returncode, done.stderr, file.exists()) == (0, "", True)


def test_json_of_a_run_needs_no_extra() -> None:
    done = command(HIDDEN, "run", SCENARIO, "--json")
    assert (json.loads(done.stdout)["title"], done.stderr) == ("Two TCP flows on one bottleneck", "")


def test_frames_name_their_extra() -> None:
    code = f"""
import anabranch
result = anabranch.run(anabranch.Scenario.from_file({SCENARIO!r}))
assert result.possible_bps() > 0.0
try:
    result.flows
except anabranch.InputError as error:
    print(error)
"""
    done = without(["polars"], code)
    sentence = "a frame of results needs the package polars, which is not installed"
    assert done.stdout == f'{sentence}; run: pip install "anabranch[frames]"\n', done.stderr


def test_package_loads_no_extra() -> None:
    code = f"import anabranch.cli, anabranch.results\nprint([name for name in {HIDDEN!r} if name in sys.modules])"
    assert without([], "import sys\n" + code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (("run", SCENARIO), ["numpy", "highspy", "msgspec", "anabranch.cli.study", "anabranch.study.claims"]),
        (("study", "list"), ["numpy", "highspy", "rich", "anabranch.cli.testbed", "anabranch.cli.meter"]),
    ],
)
def test_command_imports_only_its_modules(arguments: tuple[str, ...], unused: list[str]) -> None:
    found = command(unused, *arguments)
    assert (found.returncode, found.stderr) == (0, "")
