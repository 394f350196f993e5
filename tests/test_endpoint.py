"""`anabranch endpoint` starts the endpoint program; tests of the program are in apps/endpoint-app/tests."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anabranch.cli.endpoint import ENDPOINT, endpoint
from command import anabranch

if TYPE_CHECKING:
    from anabranch._core.program import Program

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the endpoint needs Linux")


class _Started(Exception):  # noqa: N818
    """Raised instead of starting the program."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments with which the program is started."""
    words: list[str] = []

    def become(_: Program, *arguments: str) -> None:
        words.extend(arguments)
        raise _Started

    monkeypatch.setattr(type(ENDPOINT), "become", become)
    return words


def test_options_reach_the_program(started: list[str]) -> None:
    arguments = ["send", "f", "10.0.1.1:7", "--tun", "a,10.0.1.1/24,10.0.1.2", "--tun", "b,10.0.2.1/24,10.0.2.2"]
    done = CliRunner().invoke(endpoint, [*arguments, "--set", "congestion=olia", "--peer-udp-port", "99", "--json"])
    assert isinstance(done.exception, _Started)
    assert started[:3] == ["send", "f", "10.0.1.1:7"]
    assert set(started[3:]) == {
        "--tun=a,10.0.1.1/24,10.0.1.2",
        "--tun=b,10.0.2.1/24,10.0.2.2",
        "--set=congestion=olia",
        "--peer-udp-port=99",
        "--json",
    }


def test_commands_and_options_are_those_of_the_program() -> None:
    usage = (ROOT / "apps/endpoint-app/src/arguments.rs").read_text(encoding="utf-8").split('";\n', 1)[0]
    assert set(re.findall(r"^anabranch-endpoint (\w+)", usage, re.MULTILINE)) == set(endpoint.commands)
    options = {name for command in endpoint.commands.values() for option in command.params for name in option.opts}
    assert {name for name in options if name.startswith("--")} == set(re.findall(r"^(--[a-z-]+)", usage, re.MULTILINE))
    page = (ROOT / "docs/reference/endpoint.md").read_text(encoding="utf-8")
    assert all(f"`{name}" in page for name in options if name.startswith("--"))


@pytest.mark.machine
def test_program_returns_its_exit_status() -> None:
    if ENDPOINT.find() is None:
        pytest.skip(f"{ENDPOINT.name} is not installed")
    done = anabranch("endpoint", "listen", "7")
    assert done.returncode == 2
    assert "no network is given; add --tun or --udp" in done.stderr
