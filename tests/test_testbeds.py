"""Several testbeds at a time, set up, removed and killed at any moment: none leaves remains or affects another.

`ANABRANCH_LONG=1` sets them up and removes them a hundred times and kills twenty, which takes some minutes.

"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from anabranch.cli.examples import shipped
from command import anabranch
from machine import missing

TIMES, KILLED = (100, 20) if os.environ.get("ANABRANCH_LONG") else (5, 2)

SCENARIO = """
title = "A link"
duration = "2 s"
[[link]]
name = "wire"
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "1 ms"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"
workload = { kind = "saturated" }
"""


pytestmark = [pytest.mark.machine, pytest.mark.skipif(bool(missing("ip")), reason=missing("ip"))]


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def started(scenario: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch", "emulate", scenario, "--", *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def traces(mark: str) -> dict[str, list[str]]:
    """Possible remains of a testbed on this machine: devices, routes and rules; processes of the test by their mark."""

    def said(*command: str) -> list[str]:
        lines = subprocess.run(["ip", *command], capture_output=True, text=True, check=True).stdout.splitlines()
        # Counters and the states of other links are not remains of a testbed.
        return sorted(re.sub(r"^\d+: |(state|mode|qlen|link-netns(id)?) \S+", "", line) for line in lines)

    processes = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in entry.read_text(encoding="utf-8", errors="replace"):
                processes.append(entry.parent.name)
        except OSError:
            continue
    return {
        "devices": [line.split(":")[0] for line in said("-o", "link")],
        "routes": said("route", "show", "table", "all"),
        "rules": said("rule"),
        "processes": processes,
    }


def of_testbeds() -> set[str]:
    """Namespaces and locks of testbeds without an owner process."""
    from anabranch.testbed.bed import LOCKS, existing, holder

    names = {name for name, _ in existing()} | {lock.stem for lock in LOCKS.glob("*.lock")}
    return {name for name in names if holder(name) is None}


def test_ended_testbed_leaves_no_traces(scenario: str) -> None:
    mark = f"mark-{os.getpid()}"
    sleeper = ("sh", "-c", f"sleep 60; : {mark}")
    # The first testbed creates the lock file and its folder, which stay.
    assert anabranch("emulate", scenario, "--", "true").returncode == 0
    before = traces(mark)
    moments = random.Random(7)
    killed = set(moments.sample(range(TIMES), KILLED))
    for turn in range(TIMES):
        if turn not in killed:
            done = anabranch("emulate", scenario, "--", "ip", "-brief", "address")
            assert "10.0.0.1/32" in done.stdout, done.stderr
            # Include the remains of the previous testbed.
            assert of_testbeds() == set()
            continue
        process = started(scenario, *sleeper)
        time.sleep(moments.uniform(0.0, 2.5))
        process.kill()
        process.communicate()
    assert anabranch("emulate", scenario, "--", "true").returncode == 0
    assert of_testbeds() == set()
    after = traces(mark)
    assert after == before
    assert after["processes"] == []


@pytest.mark.parametrize(("offload", "most"), [("true", 65535), ("false", 1)])
def test_offload_sets_the_segmentation_limit(scenario: str, offload: str, most: int) -> None:
    done = anabranch("emulate", scenario, "--set", f"offload={offload}", "--", "ip", "-json", "-details", "link")
    links = {link["ifname"]: link["gso_max_segs"] for link in json.loads(done.stdout)}
    links.pop("lo")
    assert set(links.values()) == {most}


SERVE = (
    "import socket, sys; s = socket.create_server(('', 9)); print('listens', flush=True); sys.stdin.read(); s.close()"
)
CONNECT = "import socket, sys\ns = socket.socket(); s.settimeout(5)\nprint(s.connect_ex((sys.argv[1], 9)))\n"


def test_testbeds_with_equal_addresses_are_isolated(scenario: str) -> None:
    within = "ip netns exec ${ANABRANCH_HOSTS##*B=}"
    first = started(scenario, "sh", "-c", f'{within} {sys.executable} -c "{SERVE}"')
    assert first.stdout is not None
    assert first.stdin is not None
    assert first.stdout.readline() == "listens\n"
    try:
        own = f'{within} {sys.executable} -c "{CONNECT}" 127.0.0.1; {sys.executable} -c "{CONNECT}" B; ip -o link'
        second = anabranch("emulate", scenario, "--", "sh", "-c", own)
        assert second.returncode == 0, second.stderr
        loopback, across, *devices = second.stdout.splitlines()
        refused = str(__import__("errno").ECONNREFUSED)
        # The second testbed's host B has the same address, but no program listens there.
        assert (loopback, across) == (refused, refused)
        assert sorted(line.split(": ")[1] for line in devices) == ["lo", "wire"]
        # The first testbed continues to run.
        assert first.poll() is None
    finally:
        first.stdin.close()
        assert first.wait(20) == 0


def test_testbed_does_not_start_twice(scenario: str) -> None:
    up = anabranch("testbed", "up", scenario)
    assert up.returncode == 0, up.stderr
    try:
        again = anabranch("testbed", "up", scenario)
        assert (again.returncode, "is up already" in again.stderr) == (2, True)
        unknown = anabranch("testbed", "shell", scenario, "--in", "C", "true")
        assert (unknown.returncode, 'no host "C"' in unknown.stderr) == (2, True)
        absent = anabranch("testbed", "shell", scenario, "no-such-program")
        assert (absent.returncode, "cannot be run" in absent.stderr) == (127, True)
    finally:
        assert anabranch("testbed", "down", scenario).returncode == 0


def test_foreign_namespaces_stay() -> None:
    for command in ("add", "delete"):
        subprocess.run(["ip", "netns", command, "ab-other-host"], check=True)
        if command == "add":
            assert "ab-other-host" not in anabranch("testbed", "down").stdout
            assert Path("/run/netns/ab-other-host").exists()


def test_held_lock_is_never_removed_as_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.testbed import bed, controls, namespaces

    monkeypatch.setattr(bed, "LOCKS", tmp_path)
    monkeypatch.setattr(namespaces, "names", list)
    monkeypatch.setattr(controls, "sweep", lambda: None)
    over = threading.Event()

    def sweeping() -> None:
        while not over.is_set():
            bed.sweep()

    sweepers = [threading.Thread(target=sweeping) for _ in range(3)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for number in range(300):
            with bed._locked(f"{number:06x}", {"pid": number}):
                assert bed.holder(f"{number:06x}") == {"pid": number}
    finally:
        over.set()
        for sweeper in sweepers:
            sweeper.join()
    assert [path.name for path in tmp_path.iterdir()] == ["turn"]


def _session_nice(process: int) -> str:
    return Path(f"/proc/{process}/autogroup").read_text(encoding="ascii").split()[-1]


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel knows no priorities of sessions")
def test_session_regains_its_priority_after_a_kill(scenario: str) -> None:
    from anabranch.testbed.bed import kept

    script = f"{sys.executable} -m anabranch emulate {scenario} -- sleep 60; read line"
    session = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True)
    try:
        before = _session_nice(session.pid)
        deadline = time.monotonic() + 300
        found: list[int] = []
        while (not found or _session_nice(session.pid) == before) and time.monotonic() < deadline:
            found = [content["pid"] for content in kept().values() if content.get("session") == session.pid]
            time.sleep(0.02)
        if _session_nice(session.pid) == before:
            pytest.skip("this kernel does not let a session come before others")
        os.kill(found[0], signal.SIGKILL)
        while any(content.get("session") == session.pid for content in kept().values()):
            time.sleep(0.02)
        assert anabranch("testbed", "down").returncode == 0
        assert _session_nice(session.pid) == before
    finally:
        session.communicate(timeout=300)


def in_another_way(*prefix: str) -> subprocess.CompletedProcess[str]:
    if reason := missing(prefix[0]):
        pytest.skip(reason)
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{prefix[0]} may not do this here")
    file = shipped()["two-flows"]
    command = [*prefix, sys.executable, "-m", "anabranch", "emulate", str(file), "--", "true"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_root_without_namespace_rights_gets_the_reason() -> None:
    done = in_another_way("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")
    assert (done.returncode, "capabilities SYS_ADMIN" in done.stderr) == (2, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_machine_without_locks_is_reported() -> None:
    script = 'mount -t tmpfs -o ro none /run && exec "$@"'
    done = in_another_way("unshare", "--mount", "sh", "-c", script, "sh")
    assert (done.returncode, "cannot be written: Read-only" in done.stderr) == (1, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_terminated_run_removes_testbed_and_processes(scenario: str) -> None:
    process = started(scenario, sys.executable, "-c", "import time; print('runs', flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGTERM)
    # Returns when all processes that inherited the output have closed it.
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert of_testbeds() == set()


def unprivileged(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new user namespace, as an unprivileged user who is root there."""
    namespace = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private"]
    command = [*namespace, sys.executable, "-m", "anabranch", *arguments]
    environment = {**os.environ, "ANABRANCH_WITHIN_USER_NAMESPACE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


def user_namespaces() -> bool:
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(bool(missing("unshare")), reason=missing("unshare"))
@pytest.mark.parametrize("example", sorted(shipped()))
def test_examples_run_or_explain_failure_without_root(example: str) -> None:
    if not user_namespaces():
        pytest.skip("this kernel makes no user namespaces")
    done = unprivileged(
        "run", str(shipped()[example]), "--world", "kernel", "--json",
        "--set", 'duration="1.5 s"', "--set", 'warmup="0.5 s"',
    )  # fmt: skip
    if done.returncode == 0:
        assert json.loads(done.stdout)["flows"]
        return
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert re.search(r"; |use |choose |run: ", done.stderr), done.stderr


@pytest.mark.skipif(bool(missing("unshare")), reason=missing("unshare"))
def test_program_runs_over_the_network_without_root(scenario: str) -> None:
    if not user_namespaces():
        pytest.skip("this kernel makes no user namespaces")
    done = unprivileged("emulate", scenario, "--", "ip", "-brief", "address", "show", "wire")
    assert (done.returncode, "10.0.0.1/32" in done.stdout) == (0, True), done.stderr
    assert of_testbeds() == set()


ROUTED = """
title = "Links of the kernel's own parts"
duration = "30 s"
[[link]]
name = "left"
between = ["A", "R"]
rate = "50 Mbit/s"
[[link]]
name = "slow"
between = ["R", "S"]
rate = "4 Mbit/s"
queue = { kind = "fifo", limit = "30 packets" }
[[link]]
name = "right"
between = ["S", "B"]
rate = "50 Mbit/s"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
workload = { kind = "saturated" }
"""

COUNT_RECEIVED = """
import socket, sys, threading, time
counted = [0, 0.0]
def count(server):
    connection = server.accept()[0]
    begun = time.monotonic()
    while read := len(connection.recv(1 << 16)):
        counted[0] += read
        counted[1] = time.monotonic() - begun
"""
RECEIVER = (
    COUNT_RECEIVED + "server = socket.create_server(('', 9)); server.settimeout(20)\n"
    "print('listens', flush=True)\ncount(server); print(*counted)"
)
SENDER = (
    "import socket, time; s = socket.create_connection(('B', 9)); until = time.monotonic() + 3\n"
    "while time.monotonic() < until: s.sendall(bytes(4096))"
)


def _parts() -> str | None:
    """The missing kernel modules for links without delay."""
    script = "ip link add dev v0 type veth peer name v1 && tc qdisc add dev v0 root tbf rate 1mbit burst 4k limit 9k"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"veth or tbf (or tc, package iproute2): {tried.stderr.strip()}"


def test_netem_links_carry_their_rate(tmp_path: Path) -> None:
    if missing := _parts():
        pytest.skip(f"this kernel lacks {missing}")
    file = tmp_path / "routed.toml"
    file.write_text(ROUTED, encoding="utf-8")
    take, give = tmp_path / "take.py", tmp_path / "give.py"
    take.write_text(RECEIVER, encoding="utf-8")
    give.write_text(SENDER, encoding="utf-8")
    script = (
        f"ip netns exec ${{ANABRANCH_HOSTS##*B=}} {sys.executable} {take} > {tmp_path}/taken & "
        f"sleep 1; {sys.executable} {give}; wait; ip -o link"
    )
    done = anabranch("emulate", str(file), "--links", "netem", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    _, numbers = (tmp_path / "taken").read_text(encoding="utf-8").split("\n", 1)
    taken, seconds = (float(number) for number in numbers.split())
    # 1448 bytes of 1500 are payload; the machine may be slow, and tbf begins with a burst.
    assert 2e6 < 8 * taken / seconds < 1.05 * 4e6 * 1448 / 1500
    assert "left@" in done.stdout
    assert of_testbeds() == set()


def test_netem_is_named_where_it_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    done = anabranch("emulate", str(file), "--links", "netem", "--", "ping", "-c", "1", "B")
    if done.returncode == 0:
        # A kernel that has netem.
        assert "1 received" in done.stdout
    else:
        assert (done.returncode, "modprobe sch_netem" in done.stderr) == (2, True), done.stderr
    assert of_testbeds() == set()
