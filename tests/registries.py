"""The congestion controls and schedulers that come with the package."""

from __future__ import annotations

from anabranch import _native
from anabranch._core.simulator import entries


def shipped_names(kind: str) -> list[str]:
    """Names of the entries of a list, without those that other tests have registered in this process.

    Args:
        kind: A list of `anabranch list`.

    """
    registered = {name for _, name in _native.registered()}
    return [name for name, _ in entries(kind) if name not in registered]
