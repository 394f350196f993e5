"""Comparison of runs: differences of all metrics between sides, with intervals over seeds.

`compare` has the function for users, `recorded` reads results, `runs` runs scenarios, `samples` collects the values of
metrics, `differences` computes intervals and verdicts, and `conditions` checks conditions such as "goodput<-2%".
"""
