"""The meter between machines: flows of a test (`plan`), its output (`lines`) and its files for OMNeT++ (`omnet`).

The native module measures: `anabranch._native.MeterServer` accepts tests, and `meter_run` starts a test at a server.
"""
