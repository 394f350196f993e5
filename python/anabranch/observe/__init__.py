"""Watches the paths between this machine and another at intervals, as in Becke 2014 §5.3.1.2.

Which pairs there are (`pairs`), what is asked of one (`route`, `rtt`, `rate`), how often (`watch`), what is kept of it
(`record`), and what it comes to: a table (`summary`) or a scenario (`scenario`).
"""
