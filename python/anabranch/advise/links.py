"""Links given as text, such as "dsl:16/1Mbit,20ms,queue=64kB", and the scenario of a bulk transfer over them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.advise.limits import WORKLOADS
from anabranch.errors import InputError, nearest
from anabranch.scenario import Scenario
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

FORM = "NAME:DOWN/UPMbit,RTTms[,queue=SIZE][,loss=PERCENT%]"
DURATION = "20 s"
WARMUP = "5 s"
FLOW = "transfer"
_RATE_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_SIZE_UNITS = {"b": 1, "kb": 1000, "kib": 1024, "mb": 10**6, "mib": 2**20}
_TIME_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = r"(\d+(?:\.\d+)?)"
_QUEUE_S = 0.1
_MIN_QUEUE_BYTES = 30_000
_MAX_RTT_S = 60.0
_RATES_BPS = (1e3, 100e9)
_OPTIONS = ["queue", "loss"]


@dataclass(frozen=True)
class Link:
    """A link between the user and the network."""

    name: str
    down_bps: float
    up_bps: float
    rtt_s: float
    """Round-trip time without queues, seconds."""
    queue: tuple[int, str] | None
    """Capacity of the queue in each direction; if `None`, the data of 100 ms at the link's rate."""
    loss: float
    """Share of packets that each direction loses at random."""

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read a link in the form of `FORM`.

        Raises:
            InputError: With the part that is wrong.

        """
        name, colon, rest = text.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise InputError(f'link "{text}" lacks a name of letters and digits before a colon; write {FORM}')
        rates, *others = [part.strip() for part in rest.split(",")]
        down_bps, up_bps = _rates(name, rates)
        if not others:
            raise InputError(f'link "{name}" lacks its round-trip time; write {FORM}')
        options = _options(name, others[1:])
        queue = _queue(name, options["queue"]) if "queue" in options else None
        loss = _loss(name, options["loss"]) if "loss" in options else 0.0
        return cls(name, down_bps, up_bps, _rtt_s(name, others[0]), queue, loss)

    def tables(self) -> str:
        """The link as a table of a scenario."""
        lines = ["[[link]]", setting("name", self.name), setting("between", ["home", "server"])]
        lines += [setting("delay", f"{self.rtt_s * 5e5:.0f} us"), *self._side(self.up_bps)]
        reverse = ", ".join(self._side(self.down_bps))
        return "\n".join([*lines, f"reverse = {{ {reverse} }}", ""])

    def _side(self, rate_bps: float) -> list[str]:
        amount, unit = self.queue or (max(_MIN_QUEUE_BYTES, round(rate_bps * _QUEUE_S / 8.0)), "B")
        values = [setting("rate", f"{rate_bps:.0f} bit/s"), f'queue = {{ kind = "fifo", limit = "{amount} {unit}" }}']
        if self.loss:
            values.append(f'loss = {{ model = "bernoulli", rate = {self.loss:.9f} }}')
        return values


def scenario_of(texts: Sequence[str], *, is_upload: bool, on_linux: bool, workload: str = "bulk") -> Scenario:
    """A flow over links with today's defaults: Linux's, or those of our stack.

    Args:
        texts: The links in the form of `FORM`.
        is_upload: Whether the host with the links sends.
        on_linux: Whether the defaults are those of Linux.
        workload: One of `WORKLOADS`.

    Raises:
        InputError: If a link is wrong or a name occurs twice, or pages shall be uploaded.

    """
    links = [Link.parse(text) for text in texts]
    names = [link.name for link in links]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f'two links have the name "{name}"; give each its own')
    is_web = workload == "web"
    if is_web and is_upload:
        raise InputError("web pages are downloaded; omit --upload, or use another --workload")
    ends = ("home", "server") if is_upload or is_web else ("server", "home")
    flow = {"name": FLOW, "from": ends[0], "to": ends[1], "protocol": "mptcp"}
    if on_linux:
        flow |= {"congestion": "cubic", "scheduler": "linux", "receive_buffer": "6 MB", "send_buffer": "4 MB"}
    title, application = WORKLOADS[workload]
    head = f'title = "{title} over {len(links)} links"\nduration = "{DURATION}"\nwarmup = "{WARMUP}"\n'
    lines = "\n".join(setting(key, value) for key, value in flow.items())
    lines += f"\nworkload = {application}" if application else ""
    tables = "\n".join(link.tables() for link in links)
    return Scenario.from_toml(f"{head}\n{tables}\n[[flow]]\n{lines}\n", "links")


def _rates(name: str, text: str) -> tuple[float, float]:
    found = re.fullmatch(rf"{_NUMBER}(?:/{_NUMBER})?\s*([A-Za-z]+)(?:/s)?", text)
    factor = _RATE_UNITS.get(found[3].lower()) if found else None
    if found is None or factor is None:
        raise InputError(f'link "{name}" has the rate "{text}"; write it as 16/1Mbit, with kbit, Mbit or Gbit')
    down_bps, up_bps = float(found[1]) * factor, float(found[2] or found[1]) * factor
    low, high = _RATES_BPS
    if not (low <= down_bps <= high and low <= up_bps <= high):
        raise InputError(f'link "{name}" has the rate "{text}"; rates must be from 1 kbit/s to 100 Gbit/s')
    return down_bps, up_bps


def _rtt_s(name: str, text: str) -> float:
    found = re.fullmatch(rf"{_NUMBER}\s*(us|ms|s)", text)
    rtt_s = float(found[1]) * _TIME_UNITS[found[2]] if found else math.nan
    if not 0.0 <= rtt_s <= _MAX_RTT_S:
        raise InputError(f'link "{name}" has the round-trip time "{text}"; write it as 20ms, at most 60s')
    return rtt_s


def _options(name: str, parts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        key, sign, value = part.partition("=")
        if key not in _OPTIONS:
            raise InputError(f'link "{name}" has the unknown part "{part}" ({nearest(key, _OPTIONS)})')
        if key in found or not sign:
            raise InputError(f'link "{name}" needs {key}=VALUE once')
        found[key] = value
    return found


def _queue(name: str, text: str) -> tuple[int, str]:
    found = re.fullmatch(rf"{_NUMBER}\s*(packets?|[kM]?i?B)", text)
    if found is None or float(found[1]) <= 0.0:
        raise InputError(f'link "{name}" has the queue "{text}"; write it as 64kB, 1MB or 100packets')
    if found[2].startswith("packet"):
        return max(1, round(float(found[1]))), "packets"
    return max(1, round(float(found[1]) * _SIZE_UNITS[found[2].lower()])), "B"


def _loss(name: str, text: str) -> float:
    found = re.fullmatch(rf"{_NUMBER}\s*(%?)", text)
    share = float(found[1]) / (100.0 if found[2] else 1.0) if found else math.nan
    if not 0.0 <= share < 1.0:
        raise InputError(f'link "{name}" has the loss "{text}"; write it as 1%, below 100%')
    return share
