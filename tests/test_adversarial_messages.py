"""Hostile messages to meter, proxies and status page block no honest client and take no memory.

`ANABRANCH_LONG=1` sends a million messages to each service instead of a thousand, which takes about an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adversarial import SERVER_PORT
from anabranch.testbed.proxies import PROXY
from machine import missing

ADVERSARY = Path(__file__).with_name("adversarial.py")
MESSAGES = 1_000_000 if os.environ.get("ANABRANCH_LONG") else 1_000
MAX_GROWTH_BYTES = 32_000_000
TIMEOUTS_S = {"convert": 10.0, "meter": 5.0, "reverse": 10.0, "socks": 10.0, "watch": 2.0}
"""`REPLY_TIMEOUT` of the meter, `handshake_timeout` of the proxies, `REQUEST_TIMEOUT` of the status page."""
SOCKS = '[socks]\nlisten = ["127.0.0.1:0"]\nallow = ["127.0.0.0/8"]\n'
CONFIGS = {
    "convert": SOCKS.replace("socks", "convert"),
    "reverse": f'[[reverse]]\nname = "web"\nlisten = ["127.0.0.1:0"]\nto = ["127.0.0.1:{SERVER_PORT}"]\n',
    "socks": SOCKS,
    "watch": f'{SOCKS}[watch]\nlisten = "127.0.0.1:0"\n',
}

pytestmark = [pytest.mark.machine, pytest.mark.skipif(bool(missing("ip", "unshare")), reason=missing("ip", "unshare"))]


def command(service: str, folder: Path) -> list[str]:
    if service == "meter":
        return [sys.executable, "-u", "-m", "anabranch", "meter", "serve", "--port", "0"]
    program = PROXY.find()
    if program is None:
        pytest.skip(f"{PROXY.name} is not installed")
    config = folder / "proxy.toml"
    config.write_text(CONFIGS[service], encoding="utf-8")
    return [str(program), "socks" if service == "watch" else service, "--config", str(config)]


@pytest.mark.slow
@pytest.mark.parametrize("service", TIMEOUTS_S)
def test_adversarial_messages_block_no_honest_client(tmp_path: Path, service: str) -> None:
    called = ["unshare", "--net", sys.executable, str(ADVERSARY), service, str(MESSAGES), "--"]
    done = subprocess.run([*called, *command(service, tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(done.stdout)
    assert found["longest_s"] < TIMEOUTS_S[service]
    assert found["most_bytes"] - found["before_bytes"] < MAX_GROWTH_BYTES
