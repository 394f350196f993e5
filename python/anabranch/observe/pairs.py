"""Pairs of a local address and a named remote address."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_UP_FLAG = 0x1
_LOOPBACK_FLAG = 0x8
_UNUSABLE_FLAGS = 0x08 | 0x40
"""Flags of addresses that may be duplicates of another machine's (`IFA_F_DADFAILED`, `IFA_F_TENTATIVE`)."""
_GLOBAL_SCOPE = 0
"""Scope of addresses that are valid everywhere (`RT_SCOPE_UNIVERSE`)."""


@dataclass(frozen=True)
class Local:
    """An address of this machine."""

    interface: str
    address: str
    loopback: bool
    usual: bool
    """Whether the address is valid everywhere and its interface is up."""


@dataclass(frozen=True)
class Pair:
    """An address of this machine and an address of the remote machine."""

    interface: str
    local: str
    remote: str
    name: str
    """Name or address from the command line that the remote address belongs to."""

    @property
    def family(self) -> socket.AddressFamily:
        """Address family of both addresses."""
        return family(self.remote)


def family(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def locals_here() -> list[Local]:
    """The addresses of this machine, in the order of its interfaces."""
    from pyroute2 import IPRoute

    with IPRoute() as routes:
        links = {link["index"]: (link.get_attr("IFLA_IFNAME"), link["flags"]) for link in routes.get_links()}
        found = []
        for entry in routes.get_addr():
            name, flags = links.get(entry["index"], ("?", 0))
            state = entry.get_attr("IFA_FLAGS") or entry["flags"]
            address = entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS")
            usual = bool(flags & _UP_FLAG) and entry["scope"] == _GLOBAL_SCOPE and not state & _UNUSABLE_FLAGS
            found.append((entry["index"], Local(name, address, bool(flags & _LOOPBACK_FLAG), usual)))
    return [local for _, local in sorted(found, key=lambda pair: pair[0])]


def resolved(names: Sequence[str]) -> list[tuple[str, str]]:
    """Addresses of hosts, each with the name that was resolved.

    Raises:
        InputError: If a name has no address, or an address is valid on one link only.

    """
    found: dict[str, str] = {}
    for name in names:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a valid name"
            raise InputError(f'"{name}" has no address: {reason}') from None
        for answer in answers:
            address = str(answer[4][0])
            if ipaddress.ip_address(address.partition("%")[0]).is_link_local:
                raise InputError(f"{address} is valid on one link only; name an address that is valid everywhere")
            found.setdefault(address, name)
    return list(found.items())


def _usual(address: str) -> str:
    """An address in the kernel's spelling; other text is returned unchanged."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def between(names: Sequence[str], chosen: Sequence[str], here: Sequence[Local]) -> list[Pair]:
    """All pairs of an address of this machine and an address of the remote machine, of the same family.

    Args:
        names: Names or addresses of the remote machine.
        chosen: Addresses of this machine to use. If empty, all valid ones; for a loopback address, those of loopback.
        here: The addresses of this machine.

    Raises:
        InputError: If a name has no address, this machine does not have a chosen address, or there is no pair.

    """
    own = {local.address: local for local in here}
    sources = list(dict.fromkeys(map(_usual, chosen)))
    for address in sources:
        if address not in own:
            raise InputError(f"--from {address}: this machine has no such address")
    pairs = []
    remotes = resolved(names)
    for remote, name in remotes:
        loopback = ipaddress.ip_address(remote).is_loopback
        wanted = [own[address] for address in sources] or [
            local for local in here if (local.loopback if loopback else local.usual and not local.loopback)
        ]
        pairs += [
            Pair(local.interface, local.address, remote, name)
            for local in wanted
            if family(local.address) == family(remote)
        ]
    if not pairs:
        addresses = ", ".join(address for address, _ in remotes)
        raise InputError(f"this machine has no address of the family of {addresses}")
    return pairs
