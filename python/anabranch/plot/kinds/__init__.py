"""All kinds of figures of studies, each in a file of this folder with its keys, axes, legend and drawing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.study.figures import Kind

_FILES = (
    "lines",
    "bar",
    "box",
    "cdf",
    "heat",
    "windows",
    "time",
    "queues",
)


def kind_of(file: str) -> Kind:
    """The kind that a file of this folder defines as `KIND`; it must have a function that draws it."""
    kind: Kind = import_module(f"{__name__}.{file}").KIND
    return kind


KINDS: dict[str, Kind] = {kind.name: kind for kind in map(kind_of, _FILES)}
"""All kinds by name."""
