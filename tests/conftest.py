"""Settings for all tests.

SIGINT interrupts the tests even if the shell that started them ignores it. Hypothesis examples have no deadline: a slow
machine must not fail a test.
"""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell that starts the tests in the background lets them, and the programs that they start, ignore interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("anabranch", deadline=None)
settings.load_profile("anabranch")
