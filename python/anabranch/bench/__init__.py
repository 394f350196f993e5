"""Benchmarks: speed of the simulator on fixed scenarios, compared with ns-3."""
