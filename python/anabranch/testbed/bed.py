"""A testbed: the hosts of a scenario as network namespaces, the emulated network between them, and cleaning up.

Each testbed locks its own file while its process lives. Namespaces without a held lock are remains of a killed process;
the next testbed removes them. Processes that take or release a lock or remove remains wait for one another.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from anabranch import _native
from anabranch._core.simulator import translated
from anabranch.errors import InputError, RunFailed
from anabranch.testbed import control, controls, hosts, locks, namespaces, netem, priority, proxies
from anabranch.testbed.ending import signals_end
from anabranch.testbed.kernel import Kernel, differences
from anabranch.testbed.settings import settings, settings_without_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from anabranch._core.document import Document, LatenessResult
    from anabranch._core.simulator import Request

Links = Literal["emulator", "netem"]
"""Implementation of a testbed's links: the simulator's network, or the kernel's veth, tbf and netem."""

LOCKS = locks.FOLDER
"""Folder of the files that testbeds lock."""

_MUTEX = "turn"
"""File whose lock a process holds while it takes or releases testbeds' locks or removes remains."""
_SOCKET = ".sock"
"""Suffix of the socket of a testbed, after the testbed's name."""
_PROXIES = ".proxies"
"""Suffix of the folder of a testbed's proxies, after the testbed's name."""

_NAME = re.compile(r"ab-(t?[0-9a-f]{6})-.+")
"""Names of testbeds' namespaces. Only those with a mark belong to testbeds."""

_VALID_HOST_NAME = re.compile(r"(?!host[0-9]+$)[A-Za-z0-9._][A-Za-z0-9._-]{0,47}")
"""Names of hosts that are valid in names of namespaces, except `host<number>`, which replaces invalid names."""


class Testbed:
    """The hosts and the network of a scenario; a context manager that makes and removes them.

    Args:
        request: The scenario.
        name: Name of the testbed; a random one if `None`.
        spin_us: Time for which the emulator polls before it sleeps, microseconds.
        links: Implementation of the links.
        measures: Whether to run the scenario's flows.
        machine: `a` or `b` for the part of one of the scenario's two machines; `None` for all on this one.

    """

    __test__ = False  # pytest would collect the class by its name

    def __init__(
        self,
        request: Request,
        name: str | None = None,
        *,
        spin_us: int = 0,
        links: Links = "emulator",
        measures: bool = False,
        machine: str | None = None,
    ) -> None:
        self.request = request
        self.name = name or secrets.token_hex(3)
        self._spin_us = spin_us
        self._links = links
        self._measures = measures
        self.machine = machine
        self._stack = ExitStack()
        self._emulation: Any = None
        self._over = threading.Event()
        self._changing = threading.Lock()
        """Held while interfaces of hosts change."""
        self._failure: RunFailed | None = None
        try:
            self.layout: Mapping[str, Any] = json.loads(
                _native.layout(request.scenario, request.file, list(request.overrides))
            )
        except _native.InputError as error:
            raise translated(error) from None
        self.flows = self.layout["scenario"]["flow"]
        here = self._nodes_here()
        self.namespaces = {
            host: f"ab-{self.name}-{_label(host, number)}" for number, host in enumerate(self.hosts) if host in here
        }
        """Namespaces of the hosts on this machine, by host."""
        self.sysctls: dict[str, dict[str, str]] = {}

    def _nodes_here(self) -> set[str]:
        """Names of the nodes on this machine; without another machine, of all hosts."""
        if self.machine is None:
            return set(self.hosts)
        if "testbed" not in self.layout["scenario"]:
            raise InputError(
                "the scenario has no [testbed.machines]; add the table, or omit --machine", self.request.file
            )
        if self._links == "netem":
            raise InputError("links of netem connect hosts of one machine; omit --links or --machine")
        return set(self.layout["scenario"]["testbed"]["machines"][self.machine])

    def check(self) -> None:
        """Check that this kernel can run the scenario; flows are checked only if they are measured.

        Raises:
            InputError: If the kernel cannot run the scenario, with the flow and the remedy.

        """
        kernel = Kernel.read()
        kernel.check(self.flows if self._measures else [], tun=self._links == "emulator")
        if self._measures and self.layout["proxies"]:
            proxies.PROXY.path()
        self._controls = kernel.loaded_for(self.flows)
        if self._links == "netem":
            netem.check(self.layout)
        if self._measures:
            self._settings = settings(self.layout)
            self._check_capture()
        else:
            self._settings = settings_without_conflicts(self.layout, kernel.carried(self.flows))

    def _check_capture(self) -> None:
        """Check that the ports of packets identify the flows to capture."""
        captured = self.request.pcap.flows if self.request.pcap else ()
        for flow in self.flows:
            is_multipath = flow["name"] in captured and flow["protocol"] == "mptcp"
            if is_multipath and self._settings[flow.get("through", flow["to"])].ports:
                raise InputError(
                    f'flow "{flow["name"]}" cannot be captured separately, because all flows of a host share the ports '
                    "that its kernel announces; omit --pcap-flow"
                )

    def __enter__(self) -> Testbed:
        self.check()
        with ExitStack() as stack:
            _privileged()
            stack.enter_context(signals_end())
            sweep()
            own: Lock = {"pid": os.getpid(), "file": self.request.file, "links": self._links}
            priority.note(own)
            if self.machine:
                own["machine"] = self.machine
            stack.enter_context(_locked(self.name, own))
            stack.enter_context(priority.session_first())
            stack.enter_context(controls.loaded(self._controls))
            for host, namespace in self.namespaces.items():
                stack.callback(_remove, namespace)
                _create(namespace)
                self.sysctls[host] = hosts.prepare(namespace, self._settings[host])
            if self._links == "emulator":
                self._emulation = self._emulate()
                stack.callback(self._drop_emulation)
            else:
                self._make_links(stack)
            for host in self.layout["hosts"]:
                name = host["name"]
                if name in self.namespaces:
                    hosts.configure(self.namespaces[name], host, self._settings[name])
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self) -> None:
        """Start to carry packets and the clock of the scenario's events, and to accept changes of links.

        On one of two machines, wait until both have agreed on the start.

        Raises:
            RunFailed: If the socket for changes cannot be made, or the machines do not agree.

        """
        if self._emulation is None:
            self._run_events(time.monotonic())
            return
        try:
            zero_s = self._emulation.start()
        except ConnectionError as error:
            raise RunFailed(str(error)) from None
        self._run_events(zero_s)
        links = self._emulation.control()
        try:
            server = control.Server(_socket_of(self.name), lambda request: self._change(links, request))
        except OSError as error:
            raise RunFailed(f"the socket of the testbed cannot be made in {LOCKS}: {error.strerror}") from None
        self._stack.callback(server.close)

    @property
    def broken(self) -> bool:
        """Whether the emulated network has stopped carrying packets."""
        return self._emulation is not None and bool(self._emulation.is_over())

    def stop(self) -> LatenessResult | None:
        """Stop carrying packets; returns the lateness of an emulated network, `None` for links of netem.

        Raises:
            RunFailed: If an event failed or the emulated network stopped early.

        """
        self._over.set()
        if self._failure is not None:
            raise self._failure
        if self._emulation is None:
            return None
        try:
            lateness: LatenessResult = json.loads(self._emulation.stop())
        except ConnectionAbortedError as error:
            raise RunFailed(str(error)) from None
        except OSError as error:
            raise RunFailed(
                f"the emulated network failed because an interface of a host was removed: {error}"
            ) from None
        return lateness

    def measure(self, progress: Callable[[float], None] | None = None) -> Document:
        """Run the scenario's flows over the kernel's sockets and return the result document.

        Raises:
            InputError: If this kernel refuses a setting of a flow.
            RunFailed: If another system call or an event fails.

        """
        try:
            with proxies.running(self.layout["proxies"], self.namespaces, LOCKS / (self.name + _PROXIES)):
                text = self._emulation.measure(self.sysctls, differences(self.flows), self._run_events, progress)
        except _native.InputError as error:
            raise translated(error) from None
        except OSError as error:
            raise RunFailed(str(error)) from None
        finally:
            self._over.set()
        if self._failure is not None:
            raise self._failure
        document: Document = json.loads(text)
        return document

    @property
    def hosts(self) -> list[str]:
        """Names of all hosts, also of those on the other machine."""
        return [host["name"] for host in self.layout["hosts"]]

    def address(self, host: str) -> str:
        """The first address of a host."""
        return next(iter(self.addresses(host).values()))

    def addresses(self, host: str) -> dict[str, str]:
        """The addresses of a host, by link; where a link has several, by link, version of IP and number."""
        found = next(other for other in self.layout["hosts"] if other["name"] == host)
        return {interface["name"]: interface["address"] for interface in found["interfaces"]}

    def _emulate(self) -> Any:
        request, pcap = self.request, self.request.pcap
        files = {host: str(namespaces.FOLDER / name) for host, name in self.namespaces.items()}
        try:
            return _native.Emulation(
                request.scenario, request.file, list(request.overrides), files,
                seed=request.seed, trace_dir=request.trace, spin_us=self._spin_us,
                pcap=None if pcap is None else (pcap.file, pcap.snaplen, list(pcap.ends), list(pcap.flows)),
                machine=self.machine,
            )  # fmt: skip
        except _native.InputError as error:
            raise translated(error) from None
        except OSError as error:
            raise RunFailed(str(error)) from None

    def _make_links(self, stack: ExitStack) -> None:
        """Make links and routers from the kernel's veth, tbf and netem; links disappear with their namespaces."""
        wires = netem.Wires(self.layout, self.namespaces, self.name)
        for router in wires.routers.values():
            stack.callback(_remove, router)
            _create(router)
        wires.make()

    def _drop_emulation(self) -> None:
        # The kernel removes the interfaces with the emulation.
        self._over.set()
        self._emulation = None

    def _run_events(self, zero_s: float) -> None:
        """Carry out the scenario's events at hosts at their times, in a separate thread.

        Args:
            zero_s: Time 0 of the scenario, by the monotonic clock.

        """
        # Events of links precede events of flows at the same time.
        events = sorted([*self.layout["changes"], *self.layout["priorities"]], key=lambda event: event["at_s"])

        def body() -> None:
            for at_s, at_once in groupby(events, lambda event: event["at_s"]):
                if self._over.wait(max(0.0, zero_s + at_s - time.monotonic())):
                    return
                try:
                    self._carry_out(list(at_once))
                except (OSError, IndexError, RunFailed) as error:
                    # At the end of the testbed, interfaces may be removed during a switch.
                    if not self._over.is_set():
                        self._failure = RunFailed(f"the event at {at_s:g} s failed: {error}")
                    return

        if events:
            thread = threading.Thread(target=body, name="events", daemon=True)
            thread.start()
            # The thread must end before the namespaces are removed.
            self._stack.callback(thread.join)
            self._stack.callback(self._over.set)

    def _carry_out(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Carry out the events of one time."""
        with self._changing:
            self._switch([event for event in events if "up" in event])
            for event in events:
                if "backup" in event:
                    self._set_backup(self.flows[event["flow"]], event["backup"])

    def _change(self, links: Any, request: Mapping[str, Any]) -> Any:
        """Answer a request: change links, or list their values.

        Raises:
            InputError: If a setting is invalid; then nothing has changed.
            RunFailed: If the network or a host does not carry it out.

        """
        if "tunnels" in request:
            return json.loads(links.tunnels())
        if "set" not in request:
            return json.loads(links.links())
        try:
            _, values, switched = json.loads(links.set(list(request["set"]), str(request.get("direction", "both"))))
        except _native.InputError as error:
            raise translated(error) from None
        except (OSError, TypeError) as error:
            raise RunFailed(str(error)) from None
        # An interface with several addresses has several entries.
        changes = [
            {"host": number, "interface": index, "up": up}
            for end, up in switched
            for number, host in enumerate(self.layout["hosts"])
            for index, interface in enumerate(host["interfaces"])
            if interface["index"] == end
        ]
        if changes:
            with self._changing:
                self._switch(changes)
        return values

    def _switch(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Switch interfaces, then renew the endpoints of those that are up, when both ends are up."""
        wanted: set[str] = set()
        for change in changes:
            if "address" in change:
                self._renumber(change["host"], change["interface"], change["address"])
        for change in changes:
            host, number = self.layout["hosts"][change["host"]], change["interface"]
            name, interface = host["name"], host["interfaces"][number]
            if name in self.namespaces:
                hosts.switch(self.namespaces[name], host, number, self._settings[name], up=change["up"])
            if change["up"]:
                # The kernel forgets an announced address that it could not connect to: the peer announces it again.
                wanted |= {interface["address"], *(route["to"] for route in interface["routes"])}
        endpoints = [
            (name, address)
            for name, own in self._settings.items()
            for address in own.endpoints
            if name in self.namespaces and address in wanted
        ]
        unused = [
            (name, address) for name, address in endpoints if hosts.is_unused(self.namespaces[name], name, address)
        ]
        for name, address in unused:
            hosts.renew(self.namespaces[name], name, address, self._settings[name])

    def _renumber(self, at: int, number: int, new: str) -> None:
        """Replace the address of an interface, also in the routes and settings of all hosts."""
        host = self.layout["hosts"][at]
        name, interface = host["name"], host["interfaces"][number]
        old, interface["address"] = interface["address"], new
        own = self._settings[name]
        if name in self.namespaces:
            hosts.renumber(self.namespaces[name], host, number, own, old=old)
        for other in self.layout["hosts"]:
            settings = self._settings[other["name"]]
            settings.renumber(old, new)
            for index, there in enumerate(other["interfaces"]):
                routes = [route for route in there["routes"] if route["to"] == old]
                for route in routes:
                    route["to"] = new
                if routes and other["name"] in self.namespaces:
                    hosts.replace_routes(self.namespaces[other["name"]], other, index, settings)

    def _set_backup(self, flow: Mapping[str, Any], links: list[str]) -> None:
        """Make the addresses of these links backups of Multipath TCP, and the other addresses regular ones."""
        for end in (flow["from"], flow.get("through", flow["to"])):
            if end not in self.namespaces:
                continue
            host = next(other for other in self.layout["hosts"] if other["name"] == end)
            backups = {interface["address"] for interface in host["interfaces"] if interface["link"] in links}
            settings = self._settings[end]
            for address in settings.set_backups(backups):
                hosts.set_flags(self.namespaces[end], end, address, settings.endpoints[address])


class Lock(priority.Session, total=False):
    """Content of the lock file of a testbed."""

    pid: int
    file: str
    links: str
    machine: str


class ChangedValue(TypedDict):
    """A value of a link that a request has changed."""

    link: str
    direction: str
    key: str
    old: object
    new: object


def _label(host: str, number: int) -> str:
    """The part of a namespace's name for a host."""
    return host if _VALID_HOST_NAME.fullmatch(host) else f"host{number}"


def _privileged() -> None:
    if os.geteuid() != 0:
        raise InputError(
            "only root may make network namespaces; run it as root, or use the command line, which needs no root"
        )


def _create(namespace: str) -> None:
    try:
        namespaces.create_marked(namespace)
    except OSError as error:
        raise InputError(
            f"this root may not make network namespaces ({error.strerror or error}); in a container, give it the "
            "capabilities SYS_ADMIN and NET_ADMIN and the device /dev/net/tun"
        ) from None


def _remove(namespace: str) -> None:
    """Remove a namespace, unless another program made it."""
    if namespaces.is_marked(namespace):
        namespaces.remove(namespace)


@contextmanager
def _hold_mutex() -> Iterator[None]:
    """Hold the mutex of all testbeds. Other users than root only read, without the mutex."""
    if os.geteuid() != 0:
        if LOCKS.is_dir() and not os.access(LOCKS, os.R_OK | os.X_OK):
            raise InputError(f"only root can read the locks of testbeds in {LOCKS}; run it as root")
        yield
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.hold(LOCKS / _MUTEX))
        except OSError as error:
            raise RunFailed(f"the folder {LOCKS} of testbeds' locks cannot be written: {error.strerror}") from None
        yield


class _locked:  # noqa: N801  used like a function
    """Holds the lock of a testbed; the file contains the process of the holder."""

    def __init__(self, name: str, content: Lock) -> None:
        self._path = LOCKS / f"{name}.lock"
        self._content = content

    def __enter__(self) -> None:
        with _hold_mutex():
            if _read_lock(self._path.stem)[0]:
                raise InputError("this testbed is up already; use: anabranch testbed down")
            try:
                self._handle = locks.open_lock(self._path)
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(self._handle, 0)
                os.write(self._handle, json.dumps(self._content).encode())
            except OSError as error:
                raise RunFailed(f"the lock {self._path} cannot be written: {error.strerror}") from None

    def __exit__(self, *_: object) -> None:
        with _hold_mutex():
            self._path.unlink(missing_ok=True)
            os.close(self._handle)


def holder(name: str) -> Lock | None:
    """Content of a testbed's lock file if its lock is held, else `None`."""
    with _hold_mutex():
        held, content = _read_lock(name)
    return content if held else None


def _read_lock(name: str) -> tuple[bool, Lock]:
    """Whether the lock of a testbed is held, and the content of its file, by the present or last holder."""
    try:
        handle = os.open(LOCKS / f"{name}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, {}
    try:
        content: Lock = {}
        with suppress(ValueError):
            content = json.loads(os.read(handle, 4096))
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True, content
    finally:
        os.close(handle)
    return False, content


def change(name: str, settings: Sequence[str], direction: str) -> list[ChangedValue]:
    """Change the links of a testbed that is up: all settings, or none.

    Args:
        name: Name of the testbed.
        settings: `link.NAME.KEY=VALUE` each.
        direction: `both`, `forward` or `reverse`.

    Returns:
        The values with `link`, `direction`, `key`, `old` and `new`.

    Raises:
        InputError: If a setting is invalid, or the testbed belongs to another user.
        RunFailed: If the testbed does not answer.

    """
    values: list[ChangedValue] = control.call(_socket_of(name), {"set": list(settings), "direction": direction})
    return values


def _socket_of(name: str) -> Path:
    """The socket by which a testbed takes requests while it is up."""
    return LOCKS / (name + _SOCKET)


def present(name: str) -> list[tuple[str, list[Mapping[str, object] | None]]]:
    """The links of a testbed that is up, each with the present values of both directions; empty without a socket.

    A direction that another machine emulates has no values.
    """
    path = _socket_of(name)
    if not path.exists():
        return []
    return [(link, models) for link, models in control.call(path, {})]


def tunnels(name: str) -> list[Mapping[str, object]]:
    """Counters of the tunnels of a testbed on two machines, by link; none without its socket."""
    path = _socket_of(name)
    counters: list[Mapping[str, object]] = control.call(path, {"tunnels": True}) if path.exists() else []
    return counters


def existing() -> Iterator[tuple[str, str]]:
    """Name of the testbed and of the namespace, for each namespace that a testbed made."""
    for namespace in namespaces.names():
        match = _NAME.fullmatch(namespace)
        if match and namespaces.is_marked(namespace):
            yield match[1], namespace


def kept() -> dict[str, Lock]:
    """The testbeds that are up, by name, with the contents of their lock files (`pid`, `file`)."""
    with _hold_mutex():
        names = sorted(file.stem for file in LOCKS.glob("*.lock"))
    found = {name: holder(name) for name in names}
    return {name: content for name, content in found.items() if content is not None}


def sweep() -> list[str]:
    """Remove the remains of testbeds without a process, also controls; returns the removed namespaces."""
    removed = []
    with _hold_mutex():
        for name, namespace in list(existing()):
            if not _read_lock(name)[0]:
                namespaces.remove(namespace)
                removed.append(namespace)
        namespaces.sweep_marks()
        for unused in list(LOCKS.glob(f"*{_SOCKET}")):
            if not _read_lock(unused.stem)[0]:
                unused.unlink(missing_ok=True)
        for folder in list(LOCKS.glob(f"*{_PROXIES}")):
            if not _read_lock(folder.stem)[0]:
                shutil.rmtree(folder, ignore_errors=True)
        locks = [(lock, *_read_lock(lock.stem)) for lock in LOCKS.glob("*.lock")]
        in_use = {content.get("session") for _, held, content in locks if held}
        for lock, held, content in locks:
            # A session's priority is restored when no other testbed of the session is up.
            if not held and ("nice" not in content or content.get("session") not in in_use):
                priority.give_back(content)
                lock.unlink(missing_ok=True)
    controls.sweep()
    return removed
