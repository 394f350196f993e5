"""Studies: declared experiments over grids of parameters, run, resumed, compared and reported.

`run` runs a study from Python.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anabranch.study.api import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    """Load a name at its first use: the modules of this package need one another."""
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anabranch.study.api import run

    return run
