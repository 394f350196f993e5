"""Reads flows in the notation of NetPerfMeter 1.9.4, with the protocol before them.

`flows` decides which of the options a test can carry out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError, InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROTOCOLS = ("tcp", "mptcp", "udp", "sctp", "dccp")

_NUMBER = r"[0-9]*\.?[0-9]+"
_DISTRIBUTION = re.compile(rf"(const|exp|uniform|pareto)?({_NUMBER}(?:,{_NUMBER})*)")
_SWITCH = re.compile(rf"(\+?)((?:uniform|pareto){_NUMBER},{_NUMBER}|(?:const|exp)?{_NUMBER})(?:,|$)")
_JOINED = re.compile(rf"({_NUMBER}),(?=[a-z_0-9]+=)")
"""A comma between a number and the next option: NetPerfMeter accepts any character there."""
_VALUES = {"const": (1,), "exp": (1,), "uniform": (2,), "pareto": (2, 3)}
"""Numbers of values of each distribution. The third one of `pareto`, a maximum, is an addition."""
_MAX_INTEGER = (1 << 32) - 1
_MAX_VALUE = 1e15
"""Largest number in a distribution; integers up to it are exact."""
_MAX_NAME_CHARS = 255
_MAX_MESSAGE_BYTES = 65_535
_CMT_WORDS = ("off", "cmt", "cmtrpv1", "cmtrpv2", "like-mptcp", "mptcp-like", "mptcp", "normal", "rp")
_DEFAULTS = {
    "tcp": ("const0", "const1440"), "mptcp": ("const0", "const1440"), "udp": ("const25", "const1452"),
    "sctp": ("const0", "const1432"), "dccp": ("const0", "const1420"),
}  # fmt: skip
"""Rate and size of the flow `default`."""


@dataclass(frozen=True)
class Distribution:
    """A random number: `const` and `exp` with a mean, `uniform` with its bounds, `pareto` with minimum and shape."""

    kind: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Frames:
    """The data of one end: frames a second and their size in bytes."""

    rate: Distribution
    size: Distribution


@dataclass(frozen=True)
class Switches:
    """Times in seconds at which a flow turns on and off."""

    times: tuple[tuple[bool, Distribution], ...]
    """Whether the time counts from the one before, and the time."""
    repeats: bool


@dataclass(frozen=True)
class Specification:
    """A flow with its options, by name; values are numbers, words, booleans, or `Switches`."""

    protocol: str
    outgoing: Frames
    incoming: Frames | None
    options: Mapping[str, Any]


class _SpecificationError(AnabranchError, ValueError):
    """A mistake in a specification of a flow."""


def parse(text: str) -> Specification:
    """Read a flow, for example `tcp:const0:const1400:const0:const0:description=T1`.

    Raises:
        InputError: If the text is not in the notation.

    """
    protocol, *parts = text.split(":")
    try:
        if protocol not in PROTOCOLS:
            raise _SpecificationError(f'unknown protocol "{protocol}"; use one of {", ".join(PROTOCOLS)}')
        frames, given = _split(protocol, parts)
        entries = [distribution(frame) for frame in frames]
        options: dict[str, float | str | Switches] = {}
        for name, value in _named(given):
            if name in options:
                raise _SpecificationError(f'the option "{name}" is given twice')
            options[name] = _option(name, value)
    except _SpecificationError as reason:
        raise InputError(f"--flow {text}: {reason}") from None
    incoming = Frames(*entries[2:]) if entries[2:] else None
    return Specification(protocol, Frames(*entries[:2]), incoming, options)


def _is_option(part: str) -> bool:
    return "=" in part or part == "v6only"


def _split(protocol: str, parts: list[str]) -> tuple[list[str], list[str]]:
    """The rates and sizes, and the options behind them."""
    count = next((place for place, part in enumerate(parts) if _is_option(part)), len(parts))
    frames, options = parts[:count], parts[count:]
    if frames == ["default"]:
        frames = [*_DEFAULTS[protocol]]
    if len(frames) not in {2, 4} or not all(map(_is_option, options)):
        raise _SpecificationError("write PROTOCOL:RATE:SIZE, and :RATE:SIZE for the server's messages, then options")
    return frames, options


def _named(parts: list[str]) -> Iterator[tuple[str, str]]:
    """Names and values of the options."""
    for part in parts:
        name, _, value = part.partition("=")
        while name != "description" and (joined := _JOINED.match(value)):
            yield name, joined[1]
            name, _, value = value[joined.end() :].partition("=")
        yield name, value


def distribution(text: str) -> Distribution:
    """Read a distribution; a number alone is constant."""
    match = _DISTRIBUTION.fullmatch(text)
    values = tuple(float(value) for value in match[2].split(",")) if match else ()
    kind = (match[1] if match else None) or "const"
    if len(values) not in _VALUES[kind]:
        raise _SpecificationError(
            f'"{text}" is not a distribution; write constN, expN, uniformLOW,HIGH or paretoMIN,SHAPE, '
            "for example const1400"
        )
    if max(values) > _MAX_VALUE:
        raise _SpecificationError(f"{kind} has a number above {_MAX_VALUE:.0e}; write a smaller one")
    return Distribution(kind, values)


def _option(name: str, value: str) -> Any:
    reader = OPTIONS.get(name)
    if reader is None:
        raise _SpecificationError(f'unknown option "{name}"; {nearest(name, list(OPTIONS))}')
    try:
        return reader(value)
    except _SpecificationError as reason:
        raise _SpecificationError(f'"{name}={value}": {reason}') from None


def _integer(least: int = 0, most: int = _MAX_INTEGER) -> Callable[[str], int]:
    def read(value: str) -> int:
        digits = value.lstrip("0") or value[:1]
        # The length is checked first, because Python converts at most 4,300 digits.
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))
        if not is_number or not least <= int(digits) <= most:
            raise _SpecificationError(f"write a whole number from {least} to {most}")
        return int(digits)

    return read


def _number(most: float, remedy: str) -> Callable[[str], float]:
    def read(value: str) -> float:
        if not re.fullmatch(_NUMBER + r"|[0-9]+\.", value) or float(value) > most:
            raise _SpecificationError(remedy)
        return float(value)

    return read


def _word(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if words and value not in words:
            raise _SpecificationError(f"write one of {', '.join(words)}")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", value):
            raise _SpecificationError("write a name of letters, digits, _, . and -")
        return value

    return read


def _text(value: str) -> str:
    if not 1 <= len(value) <= _MAX_NAME_CHARS or not value.isprintable():
        raise _SpecificationError(f"write a name of 1 to {_MAX_NAME_CHARS} printable characters")
    return value


def _switch(value: str) -> bool:
    if value not in {"on", "off"}:
        raise _SpecificationError("write on or off")
    return value == "on"


def _flag(value: str) -> bool:
    if value:
        raise _SpecificationError("it has no value")
    return True


def _cmt(value: str) -> str:
    return str(_integer(0, 255)(value)) if value.isdigit() else _word(*_CMT_WORDS)(value)


def _switches(value: str) -> Switches:
    rest, repeats = value, False
    if rest == "repeat" or rest.endswith(",repeat"):
        rest, repeats = rest[: -len(",repeat")], True
    times = []
    place = 0
    while place < len(rest):
        match = _SWITCH.match(rest, place)
        if match is None:
            break
        times.append((match[1] == "+", distribution(match[2])))
        place = match.end()
    if not times or place < len(rest) or rest.endswith(","):
        raise _SpecificationError("write times in seconds such as 0,10,30 or +10,+5,repeat")
    if repeats and (len(times) % 2 != 0 or not all(relative for relative, _ in times)):
        raise _SpecificationError("before repeat write an even number of times, each with a +")
    return Switches(tuple(times), repeats)


_FRACTION = _number(1.0, "write a fraction from 0 to 1")

OPTIONS: dict[str, Callable[[str], Any]] = {
    "id": _integer(),
    "description": _text,
    "maxmsgsize": _integer(1, _MAX_MESSAGE_BYTES),
    "defragtimeout": _integer(),
    "ordered": _FRACTION,
    "unordered": _FRACTION,
    "reliable": _FRACTION,
    "unreliable": _FRACTION,
    "rtx_timeout": _integer(),
    "rtx_trials": _integer(0, 255),
    "sndbuf": _integer(1, (1 << 31) - 1),
    "rcvbuf": _integer(1, (1 << 31) - 1),
    "onoff": _switches,
    "start": _number(7 * 24 * 3600.0, "write a time in seconds, at most a week"),
    "nodelay": _switch,
    "cc": _word(),
    "ccid": _integer(0, 255),
    "cmt": _cmt,
    "ndiffports": _integer(),
    "pathmgr": _word(),
    "scheduler": _word(),
    "association": _integer(),
    "error_on_abort": _switch,
    "debug": _switch,
    "v6only": _flag,
}
"""Readers of the options. `start` and `association` are additions to NetPerfMeter's."""
