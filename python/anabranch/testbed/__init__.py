"""Scenarios on this machine's kernel: a network namespace a host, an emulated network between them, traffic on top.

`kernel` says what this kernel can do and where it differs from a scenario, `settings` what each host is set to, `hosts`
sets them up, `bed` keeps a whole testbed and cleans it up, and `world` measures a scenario on one. Everything that is
made carries the name `ab-<id>-<host>`, and nothing outside of these namespaces is touched.
"""
