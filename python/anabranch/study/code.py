"""Functions in Python that a study names as metrics: `function = "metrics.py:name"`.

Such a file runs with the rights of the user, so it is read only if the caller allows code.
"""

from __future__ import annotations

import copy
import math
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from anabranch import paths
from anabranch.errors import InputError
from anabranch.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anabranch._core.document import Document
    from anabranch.study.document import Table
    from anabranch.study.keys import MetricKeys

    Function = Callable[[Document], float | None]
    """Function from the result document of a run to the value of a metric; `None` for no value."""

KEY = "function"


def read_function(row: Table[MetricKeys], study: Path, *, allow_code: bool, allow_paths: bool) -> Function:
    """The function that a table [metric.NAME] names.

    Args:
        row: The table.
        study: The file of the study; the file of the function is relative to its folder.
        allow_code: Whether code of the study may run.
        allow_paths: Whether the file may lie outside the folder of the study.

    Raises:
        InputError: If code is not allowed, the file cannot be read or run, or lacks the function.

    """
    text = row.keys.function or ""
    if not allow_code:
        raise row.error(
            f'"{text}" is Python code of the study, which runs with your rights: read it, then add --allow-code '
            "(in Python: allow_code=True)", KEY,
        )  # fmt: skip
    name, _, function = text.rpartition(":")
    if not name.endswith(".py") or not function.isidentifier():
        raise row.error(f'"{KEY}" has to be FILE.py:NAME, not "{text}"', KEY)
    if not allow_paths:
        paths.check_inside("file", name, str(study), row.line(KEY))
    file = study.parent / name
    try:
        code = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise row.error(f'the file "{name}" cannot be read: {reason}', KEY) from None
    module = ModuleType(f"{__name__}.{file.stem}")
    module.__file__ = str(file)
    # Data classes look up their module by its name.
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot be run: {type(error).__name__}: {error}", str(file)) from None
    if not callable(getattr(module, function, None)):
        raise row.error(f'the file "{name}" has no function "{function}"', KEY)
    return _guarded(getattr(module, function), function, str(file))


def _guarded(function: Function, name: str, file: str) -> Function:
    """The function with its errors as input errors."""

    def call(document: Document) -> float | None:
        try:
            # The function gets a copy, because other metrics read the document too.
            value = function(copy.deepcopy(document))
            number = None if value is None else float(value)
        except (Exception, SystemExit) as error:
            raise InputError(f'the function "{name}" failed: {type(error).__name__}: {error}', file) from None
        if number is not None and not math.isfinite(number):
            raise InputError(f'the function "{name}" returned {number}; return None where there is no value', file)
        return number

    return call
