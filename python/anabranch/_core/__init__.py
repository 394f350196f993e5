"""Simulator, worlds and the programs of the package: the lowest layer of the package."""
