"""Missing or refused features of a machine, each reported in one sentence with its remedy; the machine is a double."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

import fake_simulator
from anabranch import InputError, Scenario, run
from anabranch._core.simulator import Request
from anabranch.errors import RunFailed
from anabranch.report.terminal import print_result
from anabranch.results import Result
from anabranch.testbed import doctor, hosts, namespaces, netem, rootless
from anabranch.testbed.kernel import Kernel
from command import anabranch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.machine, pytest.mark.skipif(sys.platform != "linux", reason="the kernel's world is Linux's")]

SCENARIO = """
title = "One way"
duration = "1 s"
[[link]]
name = "one"
between = ["A", "B"]
rate = "6 Mbit/s"
[[flow]]
name = "F"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"
"""


def _host(*, overloaded: bool, lost: int = 0, stolen: float = 0.0) -> dict[str, Any]:
    lateness = {
        "packets": 10_000, "mean_s": 2e-3, "p99_s": 9e-3, "max_s": 0.05, "late_share": 0.123, "lost": lost,
        "overloaded": overloaded,
    }  # fmt: skip
    return {
        "kernel": "6.18", "load": [7.0, 8.0], "cpus": 2, "stolen": stolen, "lateness": lateness, "differences": [],
    }  # fmt: skip


def _printed(host: Any) -> str:
    document = fake_simulator.simulate(Request("", "x.toml"))
    document["host"] = host
    for flow in document["flows"]:
        flow["paths"] = []
    output = io.StringIO()
    print_result(Result(document), Console(file=output, width=200))
    return output.getvalue()


def test_late_packets_are_reported_with_their_share() -> None:
    said = _printed(_host(overloaded=True))
    assert (
        "THE MACHINE DID NOT KEEP UP: 12.3 % of the packets were more than 1 ms late. These are not the results" in said
    )
    assert "load 7.0 before and 8.0 after on 2 processors. The network" in said
    assert "DID NOT KEEP UP" not in _printed(_host(overloaded=False))


def test_missed_packets_and_steal_time_are_reported() -> None:
    said = _printed(_host(overloaded=True, lost=1234, stolen=0.07))
    assert "late, and 1,234 packets were lost before it." in said
    assert "processors, 7 % of their time taken by the hypervisor." in said


def test_missing_unshare_is_reported_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InputError, match=r"unshare .package util-linux. is missing; install it or run as root"):
        rootless.restart_in_user_namespace()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("unshare: unshare failed: Operation not permitted\n", "unshare failed: Operation not permitted"),
        ("", "refused"),
    ],
)
def test_forbidden_user_namespaces_are_reported(monkeypatch: pytest.MonkeyPatch, said: str, reason: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/unshare")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr=said))
    with pytest.raises(
        InputError, match=rf"not make user namespaces \({reason}\); run it as root, or see kernel.unpriv"
    ):
        rootless.restart_in_user_namespace()


def _refuses(number: int) -> Callable[..., None]:
    from pyroute2.netlink.exceptions import NetlinkError

    def refuse(*_: Any, **__: Any) -> None:
        raise NetlinkError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [17, 1, 12], ids=["address clash", "not permitted", "no memory"])
def test_failed_host_is_named_with_the_kernel_error(number: int) -> None:
    with (
        pytest.raises(RunFailed, match=f'refuses to set host "A" up: {os.strerror(number)}'),
        hosts._netlink_errors("A"),
    ):
        _refuses(number)()


def test_missing_veth_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pyroute2

    class Routes:
        link = staticmethod(_refuses(95))

        def __enter__(self) -> Routes:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(pyroute2, "IPRoute", Routes)
    monkeypatch.setattr(namespaces, "FOLDER", tmp_path)
    (tmp_path / "peer").touch()
    models: list[Mapping[str, Any]] = [{"mtu": 1500}, {"mtu": 1500}]
    with pytest.raises(
        RunFailed, match=r"no veth pair for the interface e0: .*; load it: modprobe veth, or use --links"
    ):
        netem._pair("e0", "peer", "e1", models)


def test_router_without_forwarding_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(netem, "set_sysctl", refuse)
    with pytest.raises(RunFailed, match=r"the kernel refuses net\.\S+ = 1: Read-only file system"):
        netem._forward()


def test_doctor_reports_other_systems_than_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    (finding,) = doctor.examine()
    assert (finding.what, finding.there, finding.needed) == ("Linux", False, True)
    assert "use --world sim" in finding.remedy


def test_doctor_lists_requirements_of_sctp() -> None:
    (finding,) = [found for found in doctor.examine() if found.what == "SCTP sockets"]
    assert "modprobe sctp" in finding.remedy
    assert "CONFIG_IP_SCTP" in finding.remedy
    assert not finding.needed


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (Kernel("6.1", ("reno",), (), mptcp=True, tun=False), "needs /dev/net/tun.* missing; run: modprobe tun"),
        (
            Kernel("6.1", ("cubic",), (), mptcp=True, tun=True),
            r"no congestion control reno \(it has cubic\); choose one",
        ),
    ],
)
def test_incomplete_kernel_is_reported_before_the_run(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel, says: str
) -> None:
    monkeypatch.setattr(Kernel, "read", staticmethod(lambda: kernel))
    monkeypatch.setattr(namespaces, "create", lambda _: pytest.fail("something has begun"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InputError, match=says):
        run(Scenario(SCENARIO), world="kernel")


@pytest.mark.parametrize("worlds", ["kernel,kernel,moon", "", "sim kernel"])
def test_report_of_unknown_world_is_refused(worlds: str) -> None:
    done = anabranch("study", "report", "worlds", "--world", worlds)
    assert done.returncode == 2
    assert "is not one of 'sim', 'user', 'kernel'" in done.stderr
    assert "Traceback" not in done.stderr
