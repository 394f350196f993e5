"""Numbers with their units, and numbers of things, in sentences."""

from __future__ import annotations


def mbps(rate_bps: float) -> str:
    """A rate in Mbit/s."""
    return f"{rate_bps * 1e-6:.3g} Mbit/s"


def ms(time_s: float) -> str:
    """A time in ms."""
    return f"{time_s * 1e3:.3g} ms"


def kb(size: float) -> str:
    """A size in kB."""
    return f"{size / 1e3:,.0f} kB"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number of things; without `several`, the plural of `one` ends in "s"."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
