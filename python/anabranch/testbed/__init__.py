"""Scenarios on this machine's kernel: one network namespace per host, an emulated network between them, and traffic.

`kernel` reads the features of this kernel and lists its differences from a scenario. `settings` computes the kernel
settings of each host, and `hosts` applies them. `bed` makes a testbed and removes it. `world` measures a scenario on a
testbed. Namespaces have the names `ab-<id>-<host>`; a testbed changes nothing outside its namespaces.
"""
