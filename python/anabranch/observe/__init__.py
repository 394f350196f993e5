"""Observes the paths between this machine and another at intervals, as in Becke 2014 §5.3.1.2.

`pairs` finds the pairs of addresses. `route`, `rtt` and `rate` measure a pair, `watch` repeats this at intervals, and
`record` stores the observations. `summary` makes a table of them, `scenario` a scenario.
"""
