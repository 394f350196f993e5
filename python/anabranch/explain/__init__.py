"""Explains why a flow is slow: names causes, runs a remedy for each in the simulator, and measures its gain."""
