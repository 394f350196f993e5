"""`anabranch proxy` starts the proxy program; tests of the program are in apps/proxy/tests."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from anabranch.cli.proxy import proxy
from anabranch.testbed.proxies import PROXY
from command import anabranch

ROOT = Path(__file__).parents[1]

pytestmark = [pytest.mark.machine, pytest.mark.skipif(sys.platform != "linux", reason="the proxies are Linux's")]


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        ("socks", 'listen = ["0.0.0.0:1080"]', "0.0.0.0:1080 is open to everyone"),
        ("convert", 'listen = ["0.0.0.0:1082"]\ncookies = true', "0.0.0.0:1082 is open to everyone"),
    ],
)
def test_program_returns_its_exit_status(tmp_path: Path, command: str, settings: str, said: str) -> None:
    if PROXY.find() is None:
        pytest.skip(f"{PROXY.name} is not installed")
    file = tmp_path / "proxy.toml"
    file.write_text(f"[{command}]\n{settings}\n", encoding="utf-8")
    done = anabranch("proxy", command, "--config", str(file))
    assert done.returncode == 2
    assert f"{file}:2: {said}" in done.stderr


def test_missing_program_is_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROXY.override, str(tmp_path / "nothing"))
    done = anabranch("proxy", "socks")
    assert done.returncode == 2
    assert "which is not an executable file" in done.stderr


def test_router_prints_its_planned_rules(tmp_path: Path) -> None:
    if PROXY.find() is None:
        pytest.skip(f"{PROXY.name} is not installed")
    file = tmp_path / "router.toml"
    text = '[router]\ninterfaces = ["lan0"]\nvia = { proxy = "192.0.2.1:1080" }\n'
    file.write_text(text, encoding="utf-8")
    done = anabranch("proxy", "router", "--config", str(file), "--print")
    assert done.returncode == 0
    assert 'iifname != { "lan0" } return' in done.stdout
    assert "ip -4 rule add priority 500 fwmark 0x8000000/0x8000000 lookup 1081 protocol 197" in done.stdout


def test_documented_proxy_commands_exist() -> None:
    page = (ROOT / "docs" / "how-to" / "proxies.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\banabranch proxy (\w+)", page))
    assert {"socks", "uplinks", "check"} <= named
    assert named <= set(proxy.commands)


def test_uplinks_print_the_planned_state(tmp_path: Path) -> None:
    if PROXY.find() is None:
        pytest.skip(f"{PROXY.name} is not installed")
    file = tmp_path / "uplinks.toml"
    file.write_text('[[uplink]]\ninterface = "none-such"\n', encoding="utf-8")
    done = anabranch("proxy", "uplinks", "--config", str(file), "--print")
    assert done.returncode == 0
    assert "# none-such: waiting for the interface, which does not exist" in done.stdout
