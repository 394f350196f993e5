"""Congestion controls and schedulers in Python, for the simulator.

`anabranch.register_congestion` and `anabranch.register_scheduler` give a class a name that scenarios can use. A
connection creates an instance of the class without arguments, and calls its methods. This is many times slower than the
controls and schedulers of the simulator, and as deterministic.

>>> import anabranch
>>> from anabranch.algorithms import Controller
>>> class Gentle(Controller):
...     '''One packet a round trip, 70 % of the window on loss.'''
...
...     def avoidance(self, path, ack):
...         return path.mss
...
...     def threshold(self, path):
...         return max(path.cwnd * 7 // 10, path.floor)
>>> anabranch.check_congestion(Gentle)
>>> anabranch.register_congestion("gentle", Gentle)
>>> anabranch.run(anabranch.Scenario.from_file("two-flows.toml").set("flow.F0.congestion", "gentle"))
"""

from anabranch._native import Ack, Idle, Loss, Offer, Path, PathState, SharesScheduler, Timeout
from anabranch.algorithms.controller import Controller

__all__ = [
    "Ack",
    "Controller",
    "Idle",
    "Loss",
    "Offer",
    "Path",
    "PathState",
    "SharesScheduler",
    "Timeout",
]
