"""Scripts of packetdrill against the stack, and the generated page of their results.

`make packetdrill TCP=DIR MPTCP=DIR` runs the scripts of two checkouts in which packetdrill is built, google/packetdrill
and multipath-tcp/packetdrill, and writes `docs/lab-notes/packetdrill.md`. Scripts and program stay outside this
repository. Each script runs in a network namespace, since it sets values of the kernel that the library reads; no
packet reaches the kernel.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/lab-notes/packetdrill.md"
LOCAL, REMOTE = "192.168.0.1", "192.0.2.1"
TIMEOUT = 30
"""Longest real time of a script, in seconds. Its own times are virtual."""

NEEDS: dict[str, tuple[tuple[str, str], ...]] = {
    "tcp": (
        (r"fastopen|FASTOPEN|\bFO\b", "TCP Fast Open (RFC 7413)"),
        (r"ZEROCOPY", "writes with `MSG_ZEROCOPY`"),
        (r"epoll_", "epoll"),
        (r"splice\(", "splice"),
        (r"sendfile\(", "sendfile"),
        (r"TIMESTAMPING", "packet timestamps (`SO_TIMESTAMPING`)"),
        (r"md5", "TCP MD5 signatures (RFC 2385)"),
        (r"TCP_INQ", "`TCP_INQ`"),
        (r"notsent.lowat|NOTSENT_LOWAT", "`TCP_NOTSENT_LOWAT`"),
        (r"MSG_MORE|TCP_CORK", "corked writes (`MSG_MORE`, `TCP_CORK`)"),
        (r"MSG_EOR", "writes with `MSG_EOR`"),
        (r"mtu_probing", "Linux's path MTU probing"),
        (r"IP_TOS", "routes by type of service"),
        (r"tc qdisc.* limit 0", "a queue discipline that drops the packets of the host"),
        (r"root fq", "the queue discipline fq, which paces packets"),
        (r"hystart", "HyStart of Linux's CUBIC"),
        (r"tcpi_(rwnd_limited|busy_time|last_data_recv)", "Linux's times in `tcp_info`"),
        (r"tcpi_rcv_mss", "Linux's estimate of the peer's segment size"),
        (r"tcpi_reordering", "Linux's estimate of reordering"),
        (r"TCP_CA_CWR", "Linux's state CWR"),
        (r"SO_SNDBUF,\s+\[21000\]", "Linux's accounting of memory in send buffers"),
        (r"EFAULT|invalid-buf-ptr", "checks of pointers, which only a kernel makes"),
    ),
    "mptcp": ((r"common/(server|client)\.sh|ip mptcp", "the path manager by netlink"),),
}
"""Patterns of a script's path and text that show a requirement beyond the protocol, and the requirement."""

KNOWN: dict[str, str] = {
    "tcp/cubic/cubic-rto-ss-ca-cwnd-bump.pkt": (
        "the threshold after a timeout is a share of the data in flight (RFC 5681 §3.1); "
        "Linux takes a share of the window"
    ),
    "tcp/fast_retransmit/fr-4pkt-fack-last-byte.pkt": (
        "a SACK of a part of a segment counts, and only the rest is retransmitted; in Linux only whole segments count"
    ),
    "tcp/fast_retransmit/fr-4pkt-fack-last-mss.pkt": (
        "RACK's timer expires after a quarter of the round-trip time (RFC 8985 §6.2); Linux adds two ticks of its clock"
    ),
    "tcp/ts_recent/invalid_ack.pkt": (
        "an acknowledgement of data that was not sent is answered (RFC 9293 §3.10.7.4); Linux drops it silently"
    ),
    "mptcp/dss/dss_fin_server.pkt": (
        "a `DATA_FIN` with a number of 8 bytes gets a `DATA_ACK` of 8 bytes (RFC 8684 §3.3.1); Linux sends 4 bytes"
    ),
    "mptcp/dss/dss_ssn_specified_server.pkt": (
        "a mapping of length zero without payload is an infinite mapping, which means fallback (RFC 8684 §3.7); "
        "Linux ignores it"
    ),
}
"""Reasons for which scripts that apply do not pass."""


@dataclass(frozen=True)
class Result:
    """A script and its result."""

    script: str
    needs: str | None
    """A requirement beyond the protocol; then the script was not run."""
    message: str | None = None
    """The message of a failure."""

    @property
    def row(self) -> str:
        """The row of the table."""
        if self.needs:
            return f"| {self.script} | no: {self.needs} | |"
        reason = KNOWN.get(self.script, self.message)
        return f"| {self.script} | yes | {'passes' if self.message is None else f'no: {reason}'} |"


def applicable(kind: str, script: str, text: str) -> str | None:
    """The requirement of the script beyond the protocol, if there is one."""
    looked = f"{script}\n{text}"
    return next((reason for pattern, reason in NEEDS[kind] if re.search(pattern, looked)), None)


def stubs(folder: Path) -> None:
    """Write programs that do nothing in place of those that configure interfaces: the namespace has none."""
    for name in ("ip", "tc", "ethtool"):
        path = folder / name
        path.write_text("#!/bin/sh\nexit 0\n", encoding="ascii")
        path.chmod(0o755)


def execute(binary: Path, library: Path, script: Path, path: str) -> str | None:
    """Run a script; return the message of its failure."""
    command = ["unshare", "-n", str(binary), "--send_omit_free", f"--so_filename={library}"]
    command += [f"--so_flags={LOCAL},mtu=1500,sysctls=/proc/sys/net/ipv4", "--ip_version=ipv4"]
    command += [f"--local_ip={LOCAL}", f"--gateway_ip={LOCAL}", "--netmask_ip=255.255.0.0"]
    command += [f"--remote_ip={REMOTE}", script.name]
    environment = {**os.environ, "LD_PRELOAD": str(library), "PATH": path}
    try:
        done = subprocess.run(
            command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if ".pkt" in line or "Assertion" in line]
    return lines[-1].rpartition(".pkt:")[2].strip() if lines else f"exit status {done.returncode}"


def run_all(kind: str, checkout: Path, library: Path) -> list[Result]:
    """Run the scripts of a checkout in which packetdrill is built."""
    net = checkout / "gtests/net"
    binary, scripts = net / "packetdrill/packetdrill", sorted((net / kind).rglob("*.pkt"))
    if not binary.exists() or not scripts:
        sys.exit(f"{checkout}: no scripts of {kind}, or packetdrill is not built; run configure and make there")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        stubs(Path(folder))
        path = f"{folder}:{os.environ['PATH']}"
        for script in scripts:
            name = str(script.relative_to(net))
            needs = applicable(kind, name, script.read_text(encoding="utf-8"))
            message = None if needs else execute(binary, library, script, path)
            results.append(Result(name, needs, message))
            print(results[-1].row, flush=True)
    return results


def summary(kind: str, results: list[Result]) -> str:
    """Counts of a set of scripts."""
    applied = [result for result in results if not result.needs]
    passed = sum(result.message is None for result in applied)
    share = passed / max(len(applied), 1)
    return f"| {kind} | {len(results)} | {len(applied)} | {passed} | {share:.0%} |"


def page(commit: str, sets: dict[str, tuple[str, list[Result]]]) -> str:
    """The page of the results."""
    today = datetime.now(UTC).date().isoformat()
    lines = [
        "# Scripts of packetdrill",
        "",
        f"*Last measured {today} with `make packetdrill TCP=../packetdrill MPTCP=../mptcp-packetdrill` at {commit}.*",
        "",
        "For developers of the stack who want to know which scripts of packetdrill pass, and why others do not.",
        "[Run scripts of packetdrill](../how-to/packetdrill.md) shows how to get and build both. A script *applies* if",
        "it needs only the protocol; otherwise the table names its further requirement. The library replaces the",
        "stack's PSH flags by those that Linux would set.",
        "",
        "| set | scripts | apply | pass | share |",
        "|---|---|---|---|---|",
        *(summary(f"{kind} of {source}", results) for kind, (source, results) in sets.items()),
    ]
    for kind, (source, results) in sets.items():
        lines += ["", f"## {kind} of {source}", "", "| script | applies | passes |", "|---|---|---|"]
        lines += [result.row for result in results]
    return "\n".join(lines) + "\n"


def unexpected(results: list[Result]) -> list[str]:
    """Failures without a reason, and reasons of scripts that pass."""
    return [
        result.script for result in results if not result.needs and (result.message is None) == (result.script in KNOWN)
    ]


def revision(folder: Path) -> str:
    """The commit of a checkout, in short."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Runs the scripts of both checkouts and writes the page."""
    parser = argparse.ArgumentParser(description="Run scripts of packetdrill against the stack.")
    parser.add_argument("library", type=Path, help="the library of crates/packetdrill")
    parser.add_argument("--tcp", type=Path, help="a checkout of google/packetdrill")
    parser.add_argument("--mptcp", type=Path, help="a checkout of multipath-tcp/packetdrill")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the scripts need root, for a network namespace each")
    sources = {"tcp": ("google", arguments.tcp), "mptcp": ("multipath-tcp", arguments.mptcp)}
    sets = {
        kind: (f"{owner}/packetdrill {revision(checkout)}", run_all(kind, checkout, arguments.library.resolve()))
        for kind, (owner, checkout) in sources.items()
        if checkout
    }
    if len(sets) == len(sources):
        PAGE.write_text(page(revision(ROOT), sets), encoding="utf-8")
    wrong = [script for _, results in sets.values() for script in unexpected(results)]
    if wrong:
        sys.exit("another result than KNOWN in tests/packetdrill.py states: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
