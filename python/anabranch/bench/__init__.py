"""Benchmarks: how fast the simulator is, on fixed scenarios and beside ns-3."""
