"""Interoperation with other stacks: named cases with both roles, and the generated page of their results.

`make interop` runs all cases and writes `docs/lab-notes/interoperation.md`. Cases with Linux are runs of the kernel's
world in which one end of a flow is Anabranch's own stack. The cases with usrsctp, curl and TUN interfaces are the tests
in Rust of `crates/net/tests/real` and `apps/endpoint-app/tests`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import delays
from anabranch import Scenario, run
from anabranch.errors import AnabranchError
from delays import Delays
from machine import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/lab-notes/interoperation.md"

ATTEMPTS = 5
"""Maximum number of runs of a case that fails while the machine delays it."""

Role = Literal["connects", "accepts"]
ROLES: dict[Role, dict[str, str]] = {"connects": {"from": "user"}, "accepts": {"to": "user"}}
"""The end of the flow that is Anabranch's."""


@dataclass(frozen=True)
class Case:
    """A transfer between Anabranch and Linux."""

    name: str
    protocol: str = "mptcp"
    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of the flow."""
    link: dict[str, Any] = field(default_factory=dict)
    """Keys of both links."""
    top: dict[str, Any] = field(default_factory=dict)
    """Keys of the scenario."""
    events: tuple[tuple[str, str, str], ...] = ()
    """Time, link and state."""
    paths: int = 1
    """Minimum number of paths that carry data."""
    is_whole: bool = True
    """True if the flow closes after all data was delivered; false if it is still open at the end of the run."""

    def scenario(self) -> Scenario:
        """A scenario with one flow for each role."""
        common = {"rate": "8 Mbit/s", "delay": "5 ms", "queue": {"limit": "40 packets"}, **self.link}
        flow = {"protocol": self.protocol, **self.settings}
        if self.protocol == "mptcp":
            flow = {"paths": "disjoint", "congestion": "reno", **flow}
        parts = [_table({"duration": "3 s", **self.top})]
        parts += [f"[[link]]\n{_table({'name': n, 'between': ['A', 'B'], **common})}" for n in ("one", "two")]
        for role, stack in ROLES.items():
            parts.append(f"[[flow]]\n{_table({'name': role, 'from': 'A', 'to': 'B', **flow, 'stack': stack})}")
        for at, link, state in self.events:
            parts.append(f"[[event]]\n{_table({'at': at, 'link': link, 'set': {'state': state}})}")
        return Scenario.from_toml("\n".join(parts))

    def failures(self) -> dict[str, str]:
        """Run the case: the reason of the failure of each role, empty if it passes.

        A case that fails while the machine delays it runs again.

        Raises:
            AnabranchError: If the run fails, for example because a byte changed.

        """
        for _ in range(ATTEMPTS):
            with Delays() as measured:
                document: dict[str, Any] = dict(run(self.scenario(), world="kernel").document)
            failures = {flow["name"]: self.failure(dict(flow)) for flow in document["flows"]}
            delayed = delays.reason(document, measured.longest_s)
            if not delayed or not any(failures.values()):
                return failures
            print(f"{self.name}: {delayed}: {failures}", file=sys.stderr, flush=True)
        return {role: failure and f"{failure}; {delayed}" for role, failure in failures.items()}

    def failure(self, flow: Mapping[str, Any]) -> str:
        """The reason why the result of a flow is a failure, empty if it is not."""
        if flow["state"] != ("closed" if self.is_whole else "open"):
            return f"the flow is {flow['state']} after {flow['delivered_bytes']} bytes"
        if flow["fallback"]:
            return "the connection fell back to TCP"
        used = sum(path["goodput_bps"] > 0 for path in flow["paths"])
        return "" if used >= self.paths else f"{used} paths carried data"


def _table(keys: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _file(size: str = "600 kB") -> dict[str, Any]:
    return {"workload": {"kind": "file", "size": size}}


_ENDLESS = {"workload": {"kind": "saturated"}}
_LONG = {"duration": "10 s"}
_LOSS_1 = {"loss": {"model": "bernoulli", "rate": 0.01}}
_LOSS_5 = {"loss": {"model": "bernoulli", "rate": 0.05}}
_REQUESTS = {"kind": "request-response", "request": "300 B", "response": "4 kB", "count": 30}
_MESSAGES = {"kind": "messages", "message": "90 B", "interval": "3 ms", "count": 200}


def _both(name: str, settings: dict[str, Any], **more: Any) -> list[Case]:
    """The case for TCP and for Multipath TCP."""
    return [Case(f"{name}, {protocol}", protocol, settings, **more) for protocol in ("tcp", "mptcp")]


def _over_two_paths(name: str, settings: dict[str, Any] | None = None, **more: Any) -> Case:
    """An endless flow over two paths: Linux makes no further subflows once its application has ended writing."""
    return Case(name, "mptcp", _ENDLESS | (settings or {}), **{"paths": 2, "is_whole": False} | more)


CASES: list[Case] = [
    *_both("1 byte", _file("1 B")),
    *_both("a file", _file()),
    *_both("a file from the accepting end", _file() | {"direction": "reverse"}),
    *_both("files both ways at once", _file() | {"direction": "both"}),
    *_both("requests and responses", {"workload": _REQUESTS}),
    *_both("small messages", {"workload": _MESSAGES}),
    *_both("IPv6", _file(), top={"ip": "v6"}),
    *_both("1 % loss", _file(), link=_LOSS_1, top=_LONG),
    *_both("5 % loss", _file("200 kB"), link=_LOSS_5, top=_LONG),
    *_both("reordering", _file(), link={"reorder": {"rate": 0.02, "delay": "8 ms"}}),
    *_both("duplicates", _file(), link={"duplicate": {"rate": 0.05}}),
    *_both("jitter", _file(), link={"jitter": "3 ms"}),
    *_both("a queue of 5 packets", _file(), link={"queue": {"limit": "5 packets"}}, top=_LONG),
    *_both("MTU 1280", _file(), link={"mtu": 1280}),
    *_both("without timestamps", _file() | {"timestamps": False}),
    *_both("ECN with CoDel", _file() | {"ecn": True}, link={"queue": {"kind": "codel", "limit": "100 packets"}}),
    *_both("every segment acknowledged", _file() | {"delayed_ack": False}),
    *_both("without Nagle", {"workload": _MESSAGES, "nagle": False}),
    *_both("recovery by SACK alone", _file() | {"recovery": "sack"}, link=_LOSS_1, top=_LONG),
    *_both("a receive buffer of 30 kB", _file() | {"receive_buffer": "30 kB"}),
    *_both(
        "an outage of one second", _file("1 MB"), top=_LONG, events=(("0.2 s", "one", "down"), ("1.2 s", "one", "up"))
    ),
    _over_two_paths("two subflows, disjoint"),
    _over_two_paths("two subflows with checksums", {"dss_checksum": True}),
    _over_two_paths("two subflows over IPv6", top={"ip": "v6"}),
    _over_two_paths("two subflows, both ways at once", {"direction": "both"}),
    _over_two_paths("two subflows, from the accepting end", {"direction": "reverse"}),
    _over_two_paths("two subflows with 1 % loss", link=_LOSS_1),
    _over_two_paths("two subflows without timestamps", {"timestamps": False}),
    _over_two_paths("a backup subflow", {"backup": ["two"]}, paths=1),
    _over_two_paths(
        "an outage of the first path", top={"duration": "5 s"}, events=(("1 s", "one", "down"), ("2 s", "one", "up"))
    ),
    _over_two_paths(
        "an outage of the second path", top={"duration": "5 s"}, events=(("1 s", "two", "down"), ("2 s", "two", "up"))
    ),
    _over_two_paths(
        "an outage of both paths",
        top={"duration": "6 s"},
        events=(("1 s", "one", "down"), ("1 s", "two", "down"), ("2 s", "one", "up"), ("2 s", "two", "up")),
    ),
    _over_two_paths("a lasting failure of the first path", top={"duration": "5 s"}, events=(("1.5 s", "one", "down"),)),
]

SAMPLE = ("a file, tcp", "files both ways at once, mptcp", "two subflows with checksums", "an outage of the first path")
"""Names of the cases that the tests run."""

RUST = (
    ("anabranch-net", "real", {"tcp": "Linux, TUN", "mptcp": "Linux, TUN", "sctp": "usrsctp, UDP"}),
    ("anabranch-endpoint-app", "live", {"linux": "Linux, TUN", "forward": "curl, Linux"}),
)
"""Tests in Rust: the package, the test binary, and the peer by module."""

_RESULT = re.compile(r"^test (\w+)::(\w+)(?: - should panic)? \.\.\. .*?(ok|FAILED|ignored)\b.*$", re.MULTILINE)

WITHOUT_PEER = ("refusals_and_signals_have_their_status",)
"""Tests of these modules that need no peer."""


def linux_results() -> list[tuple[str, str, str, str]]:
    """Peer, case, role and result of each case with Linux."""
    rows = []
    for case in CASES:
        print(case.name, file=sys.stderr, flush=True)
        try:
            failures = case.failures()
        except AnabranchError as error:
            failures = dict.fromkeys(ROLES, str(error))
        for role, failure in failures.items():
            rows.append(("Linux, emulated network", case.name, f"Anabranch {role}", failure or "pass"))
    return rows


def rust_results() -> list[tuple[str, str, str, str]]:
    """Peer, case, role and result of each test in Rust."""
    rows = []
    for package, binary, peers in RUST:
        command = ["cargo", "test", "--locked", "-p", package, "--test", binary, "--", "--test-threads=1"]
        for module, test, first in _results(command):
            if module in peers and test not in WITHOUT_PEER:
                role = "Anabranch " + ("accepts" if "accept" in test or "from_linux" in test else "connects")
                result = _repeated([*command, "--exact", f"{module}::{test}"]) if first == "FAILED" else first
                shown = {"ok": "pass", "FAILED": "fail", "ignored": "skipped"}[result]
                rows.append((peers[module], test.replace("_", " "), role, shown))
    return rows


def _results(command: list[str]) -> list[tuple[str, str, str]]:
    """Module, name and result of each test of a command."""
    environment = {**os.environ, "ANABRANCH_ALLOW_SKIP": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "test result" not in done.stdout:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return _RESULT.findall(done.stdout)


def _repeated(command: list[str]) -> str:
    """The result of a test that has failed once, and that runs again while the machine delays it."""
    result = "FAILED"
    for _ in range(ATTEMPTS - 1):
        with Delays() as measured:
            [(_, name, result)] = _results(command)
        delayed = delays.reason({}, measured.longest_s)
        if result != "FAILED" or not delayed:
            break
        print(f"{name}: {delayed}", file=sys.stderr, flush=True)
    return result


def page(rows: list[tuple[str, str, str, str]], date: str, commit: str) -> str:
    """The page of the results."""
    passed = sum(result == "pass" for *_, result in rows)
    table = "\n".join(f"| {' | '.join(row)} |" for row in sorted(rows, key=lambda row: row[0]))
    return f"""# Interoperation with other stacks

*Last measured {date} with `make interop` at {commit}, on Linux {os.uname().release}.*

For readers who want to know which cases were tried against which stack. {passed} of {len(rows)} cases pass. A case
passes if every byte arrived unchanged, the flow closed in order or ran until the end of the case, Multipath TCP did not
fall back, and the expected number of paths carried data. A case that fails while the machine delays packets, or threads
by more than {delays.LIMIT_S:g} s, runs again, at most {ATTEMPTS - 1} times.
[Real packets](../explanation/real-packets.md) has the setups.

| peer | case | role | result |
|---|---|---|---|
{table}
"""


def main() -> None:
    """Run all cases and write the page."""
    if reason := missing("ip"):
        raise SystemExit(f"the cases were not run: {reason}")
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    rows = linux_results() + rust_results()
    today = datetime.now(UTC).date().isoformat()
    PAGE.write_text(page(rows, today, commit.stdout.decode().strip()), encoding="utf-8")
    failed = [row for row in rows if row[-1] not in {"pass", "skipped"}]
    for row in failed:
        print(": ".join(row), file=sys.stderr)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
