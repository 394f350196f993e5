"""Features of this machine's kernel, and its differences from a scenario."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch._core.stacks import kernel_writes, stacks
from anabranch.errors import InputError
from anabranch.logs import logger
from anabranch.testbed import loader, rootless

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG = logger(__name__)
_SYSCTL = Path("/proc/sys")

SCHEDULERS = {"lowest-rtt": "default", "linux": "default", "linux-ahead": "default"}
"""The kernel's name of a scheduler, where it differs from the scenario's."""

COUPLED = ("lia", "olia", "balia", "cmt-rpv1", "cmt-rpv2", "wvegas")
"""The coupled controls, which Linux lacks; `anabranch-cc` loads them."""


@dataclass(frozen=True)
class Kernel:
    """Features of a kernel."""

    release: str
    controls: tuple[str, ...]
    """Available congestion controls."""
    schedulers: tuple[str, ...]
    """Schedulers of Multipath TCP; empty without it."""
    mptcp: bool
    tun: bool

    @classmethod
    def read(cls) -> Kernel:
        """Read the features of this machine's kernel."""
        enabled = sysctl("net.mptcp.enabled")
        return cls(
            release=os.uname().release,
            controls=tuple((sysctl("net.ipv4.tcp_available_congestion_control") or "").split()),
            schedulers=tuple((sysctl("net.mptcp.available_schedulers") or "default").split()) if enabled else (),
            # `net.mptcp.enabled` is 1 in each new namespace.
            mptcp=enabled is not None,
            tun=Path("/dev/net/tun").exists(),
        )

    def check(self, flows: list[Mapping[str, Any]], *, tun: bool = True) -> None:
        """Check that this kernel can carry some flows.

        Args:
            flows: Flows of a scenario with every default.
            tun: Whether hosts need TUN interfaces.

        Raises:
            InputError: If the kernel cannot carry a flow, with the flow, the missing feature and the remedy.

        """
        if tun and not self.tun:
            raise InputError("the emulated network needs /dev/net/tun, which is missing; run: modprobe tun")
        for flow in flows:
            problem = self._problem(flow)
            if problem:
                raise InputError(f'flow "{flow["name"]}": {problem}')

    def _problem(self, flow: Mapping[str, Any]) -> str | None:
        if "arrivals" in flow["workload"]:
            return "the kernel's world has no arrivals; remove them, or use --world sim or --world user"
        if "voice" in flow:
            return "the kernel's world does not rate calls; remove voice, or use --world sim or --world user"
        if flow.get("paths") == "binder":
            return "the kernel's world has no path manager binder; choose another, or use --world sim or --world user"
        ends = stacks(flow, "kernel")
        if "user" in ends and "through" in flow:
            return "a flow through a proxy needs the kernel's stack at both ends; remove stack"
        if "user" in ends and flow.get("scheduler") == "nca":
            return "scheduler nca gets no information in the kernel's world; choose another, or use --world sim"
        return self._kernel_problem(flow) if "kernel" in ends else None

    def _kernel_problem(self, flow: Mapping[str, Any]) -> str | None:
        protocol = flow["protocol"]
        if protocol in {"sctp", "cmt-sctp"}:
            return f"the kernel's world has no {protocol}; use tcp, mptcp or udp, or --world sim"
        if protocol == "mptcp" and not self.mptcp:
            return "this kernel has no Multipath TCP; use Linux 5.6 or newer with CONFIG_MPTCP, or --world sim"
        return self._sender_problem(flow) if protocol != "udp" and kernel_writes(flow) else None

    def _sender_problem(self, flow: Mapping[str, Any]) -> str | None:
        control = str(flow["congestion"])
        if control == "ledbat":
            return "Linux has no congestion control ledbat; use --world sim or --world user"
        if loader.kernel_name(control) not in self.controls and not self._can_load(control):
            return self._control_missing(control)
        return self._multipath_problem(flow) if flow["protocol"] == "mptcp" else None

    def carried(self, flows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The flows that this kernel can carry."""
        return [flow for flow in flows if self._problem(flow) is None]

    def loaded_for(self, flows: list[Mapping[str, Any]]) -> list[str]:
        """The controls of these flows that a testbed can load."""
        writing = [flow for flow in flows if flow.get("congestion") and kernel_writes(flow)]
        wanted = dict.fromkeys(str(flow["congestion"]) for flow in writing)
        return [name for name in wanted if self._can_load(name)]

    def _can_load(self, control: str) -> bool:
        return control in loader.loadable() and os.geteuid() == 0 and not rootless.inside()

    def _control_missing(self, control: str) -> str:
        has = f"this kernel has no congestion control {control} (it has {', '.join(sorted(self.controls))})"
        if control in loader.loadable():
            return f"{has}; it can be loaded: run this as root, or run as root: anabranch cc load {control}"
        if control in COUPLED and loader.LOADER.find() is None:
            return (
                f"{has}; it can be loaded by the program {loader.LOADER.name}, which is not installed here: "
                f"build it with make build, then run as root: anabranch cc load {control}"
            )
        return f"{has}; choose one of these, load the module tcp_{control} if there is one, or use --world sim"

    def _multipath_problem(self, flow: Mapping[str, Any]) -> str | None:
        if flow.get("syn_retransmission", "single") != "single":
            return (
                "the kernel retransmits a SYN over the same address pair only; "
                'set syn_retransmission = "single", or use --world sim'
            )
        if flow.get("couple", "all") != "all":
            return 'the kernel\'s controls couple all paths; set couple = "all", or use --world sim'
        if flow.get("network_control"):
            return "the kernel sends no requests of network control; set network_control = false, or use --world sim"
        scheduler = flow["scheduler"]
        if SCHEDULERS.get(scheduler, scheduler) not in self.schedulers:
            return (
                f"this kernel has no scheduler {scheduler} (it has {', '.join(self.schedulers)}, which corresponds to "
                f"lowest-rtt); choose that, or use --world sim"
            )
        if flow["paths"].partition(":")[0] not in {"default", "fullmesh", "disjoint", "ndiffports"}:
            return (
                f"the kernel has no path manager {flow['paths']}; "
                f"use fullmesh, disjoint, ndiffports or default, or --world sim"
            )
        return None


def differences(flows: list[Mapping[str, Any]]) -> list[str]:
    """Differences between the kernel and the settings of these flows, one sentence each."""
    return list(dict.fromkeys(sentence for flow in flows for sentence in _differences(flow)))


def _differences(flow: Mapping[str, Any]) -> Iterator[str]:
    if flow["protocol"] == "udp" or not kernel_writes(flow):
        return
    if flow["recovery"] == "sack":
        yield "In recovery the kernel reduces the window in proportion to delivered data (PRR), not at once."
    if flow.get("ssthresh_floor", 2) != 2 and flow["congestion"] in {"reno", "cubic"}:  # noqa: PLR2004
        yield "After a loss, the window of the kernel's reno and cubic is at least two packets."
    if flow["delayed_ack"] not in {"40 ms", False}:
        yield "The kernel chooses the delay of acknowledgements itself; the minimum is 40 ms."
    if flow["rto_initial"] != "1 s":
        yield "The kernel's first retransmission timeout is 1 s."
    if flow.get("keepalive") or flow.get("user_timeout"):
        yield "Connections on the kernel have no keep-alives, and they time out after the kernel's own limit."
    if flow["congestion"] == "bbr":
        yield "The kernel's bbr may be another version of BBR than the simulator's."
    if "through" in flow:
        control = sysctl("net.ipv4.tcp_congestion_control")
        yield (
            f"A proxy's connections use the machine's own congestion control ({control}) and the other settings of "
            "the flow; the proxy buffers up to 128 KiB in each direction."
        )
    if flow["protocol"] == "mptcp":
        yield from _multipath_differences(flow)


def _multipath_differences(flow: Mapping[str, Any]) -> Iterator[str]:
    if flow.get("slow_start") == "coupled":
        yield "In the kernel lia couples slow start only if it was loaded with: anabranch cc load --coupled-start lia."
    if flow["scheduler"] != "linux-ahead":
        yield (
            "The kernel's default scheduler assigns data to subflows before their windows allow it; it chooses the one "
            'that would finish first at its pacing rate. The simulator does so with scheduler = "linux-ahead".'
        )
    if flow["congestion"] in COUPLED and not flow["whole_packets"]:
        yield (
            "In the kernel windows are whole packets, at least two after a loss; the simulator does so with "
            "whole_packets = true."
        )
    if flow["opportunistic_retransmission"] or flow["penalisation"]:
        yield "The kernel has no opportunistic retransmission and no penalisation."


def sysctl(name: str) -> str | None:
    """A kernel parameter of the calling thread's namespace; `None` if the kernel does not have it."""
    try:
        return (_SYSCTL / name.replace(".", "/")).read_text(encoding="ascii").strip()
    except OSError:
        return None


def set_sysctl(name: str, value: str) -> None:
    """Set a kernel parameter of the calling thread's namespace.

    Raises:
        OSError: If the kernel refuses.

    """
    (_SYSCTL / name.replace(".", "/")).write_text(value, encoding="ascii")
    _LOG.debug("kernel setting: %s = %s", name, value)
