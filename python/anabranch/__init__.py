"""Anabranch: a laboratory and a stack for multipath transport.

>>> import anabranch
>>> scenario = anabranch.Scenario.from_file("half-bottleneck.toml")
>>> result = anabranch.run(scenario.set("flow.F0.congestion", "olia"), seed=1)
>>> result.flows.select("name", "goodput_bps")
"""

from anabranch.errors import InputError, RunFailed
from anabranch.results import Result
from anabranch.scenario import Scenario, run
from anabranch.simulator import version

__version__ = version()

__all__ = ["InputError", "Result", "RunFailed", "Scenario", "__version__", "run", "version"]
