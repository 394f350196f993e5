"""The router tutorial, step by step, in network namespaces of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.testbed.proxies import PROXY

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs/tutorials/router.md"
HOSTS = ("phone", "router", "far", "server")
READY_TIMEOUT_S = 60.0
PAYLOAD = b"anabranch " * 100_000

pytestmark = [pytest.mark.machine, pytest.mark.slow]


def block(language: str, start: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(text for text in found if text.startswith(start))


def missing() -> str:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "root on Linux"
    lacking = [program for program in ("ip", "tc", "nft", "curl") if shutil.which(program) is None]
    return ", ".join(lacking) or ("anabranch-proxy" if PROXY.find() is None else "")


def inside(host: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", f"lab-{host}", *command]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Path]:
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    (tmp_path / "router-lab.sh").write_text(block("sh", "#!/bin/sh"), encoding="utf-8")
    for file, start in (("far.toml", "[socks]"), ("router.toml", "[router]")):
        (tmp_path / file).write_text(block("toml", start), encoding="utf-8")
        (tmp_path / file).chmod(0o600)
    (tmp_path / "www").mkdir()
    (tmp_path / "www/big").write_bytes(PAYLOAD)
    try:
        up = subprocess.run(["sh", "router-lab.sh", "up"], cwd=tmp_path, capture_output=True, text=True, check=False)
        if "Specified qdisc kind is unknown" in up.stderr:
            pytest.skip("needs the kernel's tbf")
        assert up.returncode == 0, up.stderr
        yield tmp_path
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", f"lab-{host}"], capture_output=True, check=False)


def test_router_tutorial_works(lab: Path) -> None:
    program = str(PROXY.find())
    commands = [
        inside("server", sys.executable, "-m", "http.server", "--directory", "www", "80"),
        inside("far", program, "socks", "--config", "far.toml"),
        inside("router", program, "uplinks", "--config", "router.toml"),
        inside("router", program, "router", "--config", "router.toml"),
    ]
    forwarding = inside("router", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    subprocess.run(forwarding, check=True, capture_output=True)
    running = [subprocess.Popen(c, cwd=lab, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    try:
        check = wait_for(inside("router", program, "check", "--config", "router.toml"), lab)
        assert check.count("with Multipath TCP and 2 subflows") == 2, check
        fetch = inside("phone", "curl", "--silent", "--fail", "--max-time", "30", "http://44.7.0.2/big")
        wait_for(fetch, lab)
        assert subprocess.run(fetch, capture_output=True, check=True).stdout == PAYLOAD
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(READY_TIMEOUT_S)


def wait_for(command: list[str], folder: Path) -> str:
    """The output of a command once it succeeds."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        output = done.stdout.decode(errors="replace")
        if done.returncode == 0:
            return output
        assert time.monotonic() < deadline, output + done.stderr.decode(errors="replace")
        time.sleep(0.2)
