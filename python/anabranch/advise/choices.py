"""The settings that the search may change, and the commands that apply a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.fairness.capacity import size_bytes
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._core.document import SpeltOut
    from anabranch.explain.facts import Facts

_LINUX_CONTROLS = ("reno", "cubic", "bbr")
COUPLED = ("lia", "olia", "balia", "wvegas")
"""Coupled controls, which `anabranch cc` loads into Linux."""
_BUFFERS = ("4 MB", "8 MB", "16 MB", "32 MB")
_SCHEDULERS = ("lowest-rtt", "blest", "ecf", "linux", "round-robin")
_SWITCHES = ("opportunistic_retransmission", "penalisation")


@dataclass(frozen=True)
class Dimension:
    """A key of the flow with the values that the search tries."""

    key: str
    values: tuple[Any, ...]

    def limited_to(self, allowed: tuple[Any, ...]) -> Dimension:
        """The same key with only the allowed ones of its values."""
        return Dimension(self.key, tuple(value for value in self.values if value in allowed))


@dataclass(frozen=True)
class Choice:
    """Settings that differ from today's; hashable, so that equal choices run once."""

    changes: tuple[tuple[str, Any], ...] = ()
    """Pairs of key and value, sorted by key."""

    def having(self, key: str, value: Any, base: Mapping[str, Any]) -> Choice:
        """The same choice with another value of a key; a value equal to today's is no change."""
        values = dict(self.changes)
        values[key] = value
        return Choice(tuple(sorted((k, v) for k, v in values.items() if v != base.get(k))))

    def without(self, key: str) -> Choice:
        """The same choice with today's value of a key."""
        return Choice(tuple(pair for pair in self.changes if pair[0] != key))

    def settings(self, flow: str) -> tuple[str, ...]:
        """The changed settings in the form of `--set`."""
        keys = ((key, list(value) if isinstance(value, tuple) else value) for key, value in self.changes)
        return tuple(setting(f"flow.{flow}.{key}", value) for key, value in keys)

    def buffer_bytes(self) -> float:
        """Sum of the changed buffers: of equally simple choices, the one with smaller buffers wins."""
        return sum(size_bytes(value) for key, value in self.changes if key.endswith("_buffer"))

    @property
    def label(self) -> str:
        """The changes as text."""
        parts = [f"{key} {_shown(value)}" for key, value in self.changes]
        return ", ".join(parts) or "as it is"


def current(facts: Facts) -> SpeltOut:
    """Today's values of the flow, lists as tuples."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.settings.items()}
    first = facts.paths[0].report["links"] if facts.paths else []
    own = [link["name"] for link in facts.links_of_ends()]
    if not isinstance(values.get("initial_path"), str):
        values["initial_path"] = next((facts.first_path(name) for name in own if name in first), None)
    return {**values, "congestion": facts.flow["congestion"]}


def dimensions(facts: Facts, may: str) -> list[Dimension]:
    """The settings to search, those with the largest usual effect first.

    Raises:
        InputError: If the flow is not one of Multipath TCP.

    """
    if facts.protocol != "mptcp":
        raise InputError(
            f'"{facts.name}" uses {facts.protocol}; advise chooses settings of a flow with protocol "mptcp"'
        )
    links = access_links(facts)
    larger = {
        key: tuple(size for size in _BUFFERS if size_bytes(size) > size_bytes(facts.settings[key]))
        for key in ("receive_buffer", "send_buffer")
    }
    found = [
        Dimension("receive_buffer", larger["receive_buffer"]),
        Dimension("congestion", (*_LINUX_CONTROLS, *COUPLED)),
        Dimension("send_buffer", larger["send_buffer"]),
        Dimension("backup", ((), *((name,) for name in links))),
        Dimension("initial_path", tuple(facts.first_path(name) for name in links)),
    ]
    if may == "all":
        found.insert(2, Dimension("scheduler", _SCHEDULERS))
        found += [Dimension(key, (True, False)) for key in _SWITCHES]
    return found


def access_links(facts: Facts) -> list[str]:
    """The links of the host that has several, or of the receiver if both have."""
    links = list(facts.links_of_ends())
    by_host = {
        host: [link["name"] for link in links if host in link["between"]]
        for host in (facts.flow["to"], facts.flow.get("through"), facts.flow["from"])
        if host
    }
    return max(by_host.values(), key=len)


def commands(choice: Choice, may: str, flow: str) -> list[str]:
    """Commands for Linux, or the keys of a scenario for our stack."""
    if may == "all":
        return [f"--set {each}" for each in choice.settings(flow)]
    return [line for key, value in choice.changes for line in _linux(key, value)]


def _linux(key: str, value: Any) -> Sequence[str]:
    if key == "congestion":
        load = [f"anabranch cc load {value}"] if value in COUPLED else [f"modprobe tcp_{value}"] * (value == "bbr")
        return [*load, f"sysctl net.ipv4.tcp_congestion_control={value}"]
    if key == "receive_buffer":
        return [f'sysctl net.ipv4.tcp_rmem="4096 131072 {size_bytes(value):.0f}"']
    if key == "send_buffer":
        return [f'sysctl net.ipv4.tcp_wmem="4096 16384 {size_bytes(value):.0f}"']
    if key == "backup":
        return [f"ip mptcp endpoint change id ID_OF_{name} backup" for name in value] or [
            "ip mptcp endpoint change id ID nobackup"
        ]
    return [f"ip route change default via GATEWAY dev {value}"]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
