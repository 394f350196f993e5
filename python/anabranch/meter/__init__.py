"""The meter between machines: what a test does (`plan`), how it is shown (`lines`), and files of OMNeT++ (`omnet`).

The measuring itself is native: `anabranch._native.MeterServer` waits for others, and `meter_run` asks one for a test.
"""
