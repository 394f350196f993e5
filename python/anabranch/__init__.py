"""Anabranch: a laboratory and a stack for multipath transport.

>>> import anabranch
>>> scenario = anabranch.Scenario.from_file("half-bottleneck.toml")
>>> result = anabranch.run(scenario.set("flow.F0.congestion", "olia"), seed=1)
>>> result.flows.select("name", "goodput_bps")
"""

# The name of `typing`, which takes longer to load than the command line may leave Ctrl-C to the interpreter.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from anabranch.errors import InputError, RunFailed
    from anabranch.execution import run
    from anabranch.fairness import Fairness, fair
    from anabranch.results import Result
    from anabranch.scenario import Scenario
    from anabranch.simulator import version

    __version__: str

_HOMES = {
    "Fairness": "fairness", "InputError": "errors", "Result": "results", "RunFailed": "errors", "Scenario": "scenario",
    "fair": "fairness", "run": "execution", "version": "simulator",
}  # fmt: skip

__all__ = ["Fairness", "InputError", "Result", "RunFailed", "Scenario", "__version__", "fair", "run", "version"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used, so that the command line has charge of Ctrl-C before anything is loaded."""
    import importlib

    if name == "__version__":
        value: object = importlib.import_module("anabranch.simulator").version()
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"anabranch.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
