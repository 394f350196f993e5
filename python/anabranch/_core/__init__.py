"""Simulator, worlds and the programs of the package: modules below everything else."""
