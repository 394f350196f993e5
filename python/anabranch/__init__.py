"""Anabranch: a laboratory and a stack for multipath transport.

Start with `Scenario`, which reads a scenario file, `run`, which simulates it or runs it on the kernel, and `Result`,
which holds the numbers of a run. `Simulation` runs a scenario in steps. `compare` computes differences between
scenarios or results, with intervals. `fair` computes the fair shares of a scenario's flows. `study.run` runs a study;
`cross` and `run_all` run your own grid. `AnabranchError` is the base of all errors. `anabranch.stack` has
Multipath TCP and CMT-SCTP on real packets, with the errors of Python's sockets.

>>> import anabranch
>>> scenario = anabranch.Scenario.from_file("half-bottleneck.toml")
>>> result = anabranch.run(scenario.set("flow.F0.congestion", "olia"), seed=1)
>>> result.flows.select("name", "goodput_bps")
"""

# Defined here instead of imported from `typing`: importing it takes long, and Ctrl-C during that time would print a
# traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from anabranch import study
    from anabranch._core.simulator import version
    from anabranch.algorithms.registration import check_congestion, register_congestion, register_scheduler
    from anabranch.comparison.compare import Comparison, compare
    from anabranch.errors import AnabranchError, InputError, RunFailed
    from anabranch.execution import run, run_all
    from anabranch.fairness.shares import Fairness, fair
    from anabranch.results import Result
    from anabranch.scenario import Scenario
    from anabranch.simulation import Simulation
    from anabranch.sweep import Parameter, Point, cross

    __version__: str

_MODULE_OF_NAME = {
    "AnabranchError": "errors", "Comparison": "comparison.compare", "Fairness": "fairness.shares",
    "InputError": "errors", "Parameter": "sweep", "Point": "sweep", "Result": "results", "RunFailed": "errors",
    "Scenario": "scenario", "Simulation": "simulation", "check_congestion": "algorithms.registration",
    "compare": "comparison.compare", "cross": "sweep",
    "fair": "fairness.shares", "register_congestion": "algorithms.registration",
    "register_scheduler": "algorithms.registration", "run": "execution", "run_all": "execution",
    "version": "_core.simulator",
}  # fmt: skip

__all__ = [
    "AnabranchError",
    "Comparison",
    "Fairness",
    "InputError",
    "Parameter",
    "Point",
    "Result",
    "RunFailed",
    "Scenario",
    "Simulation",
    "__version__",
    "check_congestion",
    "compare",
    "cross",
    "fair",
    "register_congestion",
    "register_scheduler",
    "run",
    "run_all",
    "study",
    "version",
]


def __getattr__(name: str) -> object:
    """Load a name at its first use: the command line must handle Ctrl-C before it loads any module."""
    import importlib

    if name == "__version__":
        value: object = importlib.import_module("anabranch._core.simulator").version()
    elif name == "study":
        value = importlib.import_module("anabranch.study")
    elif name in _MODULE_OF_NAME:
        value = getattr(importlib.import_module(f"anabranch.{_MODULE_OF_NAME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
