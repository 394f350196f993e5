"""The tutorials of the router and of the kernel, step by step, in network namespaces of this machine."""

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

from anabranch.testbed.loader import LOADER
from anabranch.testbed.proxies import PROXY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/tutorials/router.md"
KERNEL_PAGE = ROOT / "docs/tutorials/kernel.md"
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


# The kernel


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the scenario, and with the command that the page calls."""
    if lacking := missing() or ("anabranch-cc" if LOADER.find() is None else "") or unsupported():
        pytest.skip(f"needs {lacking}")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    scenario = next(t for t in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if t.startswith("title"))
    (tmp_path / "half-bottleneck.toml").write_text(scenario, encoding="utf-8")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/anabranch"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anabranch "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return tmp_path


def unsupported() -> str:
    """The part of the kernel that a coupled control needs and this one lacks."""
    done = subprocess.run([str(LOADER.find()), "status"], capture_output=True, text=True, check=False)
    return next((line for line in done.stdout.splitlines() if re.search(r"  +no  +", line)), "")


def steps() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", KERNEL_PAGE.read_text(encoding="utf-8"), re.DOTALL)


def shell(home: Path, script: str) -> str:
    """Output of a step with runs of 4 s in place of 25."""
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-mec", script.replace('duration="25 s"', 'duration="4 s" --set warmup="1 s"')], cwd=home,
        env=environment, capture_output=True, text=True, check=False, timeout=READY_TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernel_tutorial_works(home: Path) -> None:
    check, both, adapted, loaded, _ = steps()
    assert "coupled controls" in shell(home, check)
    for script in (both, adapted):
        tables = shell(home, script)
        assert tables.count("Half bottleneck") == script.count("anabranch run")
        goodputs = [float(g) for g in re.findall(r"^ multipath +mptcp lia +([\d.]+)", tables, re.MULTILINE)]
        assert len(goodputs) == script.count("anabranch run")
        assert min(goodputs) > 1.0
    shown = shell(home, loaded)
    assert re.search(r"^lia +0 sockets open, 1 opened in total", shown, re.MULTILINE)
    assert shown.count("unloaded") == 2
