"""Parts of the package that need more than its own dependencies, as extras of pip."""

from __future__ import annotations

import importlib.util
from typing import Literal

from anabranch.errors import InputError

Extra = Literal["frames", "plot", "statistics", "studies", "cluster", "gym"]

PACKAGES: dict[Extra, tuple[str, ...]] = {
    "frames": ("polars",),
    "plot": ("matplotlib", "polars"),
    "statistics": ("scipy",),
    "studies": ("matplotlib", "polars", "scipy"),
    "cluster": ("cryptography", "dask_jobqueue", "distributed"),
    "gym": ("gymnasium",),
}
"""Packages of each extra, by the names under which Python imports them; pyproject.toml has their versions."""


def require(extra: Extra, task: str) -> None:
    """Refuse a task whose packages are not installed, before it starts.

    Args:
        extra: The extra that contains the packages.
        task: The task as the subject of a sentence in the singular, such as "a figure".

    Raises:
        InputError: If a package is missing, with the command that installs it.

    """
    for package in PACKAGES[extra]:
        if importlib.util.find_spec(package) is None:
            raise InputError(missing(extra, package, task))


def missing(extra: Extra, package: str, task: str) -> str:
    """The sentence on a missing package.

    Args:
        extra: The extra that contains the package.
        package: The package.
        task: As for `require`.

    """
    return f'{task} needs the package {package}, which is not installed; run: pip install "anabranch[{extra}]"'
