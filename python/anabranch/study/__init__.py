"""Studies: declared experiments over grids of parameters, run, resumed, compared and reported.

`run` runs a study, and returns an `Analysis`: its finished runs and their estimates.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anabranch.study.analysis import Analysis
    from anabranch.study.api import run

_HOMES: dict[str, str] = {"Analysis": "analysis", "run": "api"}

__all__ = ["Analysis", "run"]


def __getattr__(name: str) -> object:
    """Load a name at its first use, because the modules of this package import one another."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"anabranch.study.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
