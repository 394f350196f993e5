"""The meter between machines: flows of a test (`plan`), its output (`lines`) and its files for OMNeT++ (`omnet`).

The measuring itself is native: `anabranch._native.MeterServer` waits for others, and `meter_run` asks one for a test.
"""
