"""Checks this machine for the requirements of the kernel's world, with a remedy for each missing one."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import InputError
from anabranch.testbed import loader
from anabranch.testbed.kernel import Kernel, sysctl


@dataclass(frozen=True)
class Finding:
    """A requirement of the world kernel or an optional feature, and whether this machine has it."""

    what: str
    there: bool
    detail: str
    remedy: str = ""
    needed: bool = False
    """Whether the kernel's world requires it."""


def examine() -> list[Finding]:
    """Check all requirements and optional features."""
    if platform.system() != "Linux":
        return [Finding("Linux", False, platform.system(), "the world kernel needs Linux; use --world sim", True)]
    kernel = Kernel.read()
    return [
        Finding("Linux", True, kernel.release, needed=True),
        Finding("TUN interfaces", kernel.tun, "/dev/net/tun", "run: modprobe tun", True),
        _namespaces(),
        Finding("Multipath TCP", kernel.mptcp, f"schedulers: {', '.join(kernel.schedulers) or 'none'}",
                "use Linux 5.6 or newer with CONFIG_MPTCP"),
        Finding("congestion controls", "reno" in kernel.controls, ", ".join(sorted(kernel.controls))),
        _loader(),
        Finding("socket diagnostics", _diagnostics(), "state of connections over time",
                "run: modprobe tcp_diag mptcp_diag", True),
        Finding("processors", (os.cpu_count() or 1) > 1, str(os.cpu_count()),
                "network and hosts share one processor; expect late packets"),
        _load(),
        _module("sch_netem", "link emulation of the kernel, only for testbeds with --links netem"),
        Finding("SCTP sockets", _sctp(), "only for anabranch meter --sctp",
                "run: modprobe sctp; it needs a kernel with CONFIG_IP_SCTP"),
    ]  # fmt: skip


def _loader() -> Finding:
    """The program that loads coupled congestion controls, and its requirements."""
    try:
        program = loader.LOADER.path()
    except InputError as error:
        return Finding("coupled controls", False, f"{loader.LOADER.name} cannot be run", str(error))
    done = subprocess.run([program, "status", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Finding("coupled controls", False, str(program), done.stderr.strip())
    found = json.loads(done.stdout)
    missing = [finding for finding in found["machine"] if not finding["there"]]
    loaded = ", ".join(control["name"] for control in found["loaded"]) or "none"
    detail = f"loaded: {loaded}" if not missing else f"no {missing[0]['what']}"
    return Finding("coupled controls", not missing, detail, missing[0]["remedy"] if missing else "")


def _namespaces() -> Finding:
    if os.geteuid() == 0:
        return Finding("network namespaces", Path("/proc/self/ns/net").exists(), "as root", needed=True)
    there = (
        shutil.which("unshare") is not None
        and (
            subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], capture_output=True, check=False)
        ).returncode
        == 0
    )
    remedy = "run as root, or allow user namespaces (kernel.unprivileged_userns_clone, user.max_user_namespaces)"
    return Finding("network namespaces", there, "in a user namespace, for run and emulate", remedy, True)


def _diagnostics() -> bool:
    import socket

    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4).close()
    except OSError:
        return False
    return True


def _sctp() -> bool:
    import socket

    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


def _load() -> Finding:
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    return Finding("idle processors", load < cpus / 2, f"load {load:.1f} on {cpus}", "stop other programs during runs")


def _module(name: str, about: str) -> Finding:
    loaded = Path(f"/sys/module/{name}").exists()
    built = sysctl("kernel.modules_disabled") == "0" and any(
        Path("/lib/modules", os.uname().release).rglob(f"{name}.ko*")
    )
    return Finding(f"module {name}", loaded or built, about)
