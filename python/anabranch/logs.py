"""Loggers of the package, all below the logger "anabranch".

They print nothing by themselves: a program that wants their lines configures `logging`.
"""

from __future__ import annotations

import logging

logging.getLogger("anabranch").addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, by its `__name__`."""
    return logging.getLogger(module)
