"""Delays of threads with normal priority: a machine that delays them delays Linux's protocols, too.

Linux executes parts of Multipath TCP in threads of the kernel, for example the acknowledgement of a DATA_FIN. Each of
these threads is bound to a processor and has the normal priority. Where programs with real-time priority occupy the
processor, or too many programs run, these parts wait, although packets still arrive in time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Self

LIMIT_S = 0.1
"""Longest delay of a thread with which a failed run counts."""

_PROBE = """
import json, os, select, sys, threading, time
longest = {}
ended = threading.Event()
def measure(cpu):
    os.sched_setaffinity(0, {cpu})
    before = time.monotonic()
    while not ended.is_set():
        time.sleep(0.005)
        now = time.monotonic()
        longest[cpu] = max(longest.get(cpu, 0), now - before - 0.005)
        before = now
threads = [threading.Thread(target=measure, args=(cpu,)) for cpu in os.sched_getaffinity(0)]
[thread.start() for thread in threads]
print("started", flush=True)
sys.stdin.read()
ended.set()
[thread.join() for thread in threads]
print(json.dumps(longest))
"""


class Delays:
    """Measures delays of threads during the context.

    The threads are in a separate session: a run on the kernel gives its session the highest
    priority, which the threads of the kernel do not have.
    """

    longest_s: float = 0.0
    """Longest delay of a thread on any processor; a measurement during the context has no value."""

    def __enter__(self) -> Self:
        """Start the threads."""
        pipe = subprocess.PIPE
        command = [sys.executable, "-S", "-c", _PROBE]
        self._probe = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        assert self._probe.stdout is not None
        self._probe.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads."""
        output, _errors = self._probe.communicate()
        self.longest_s = max(json.loads(output).values())


def reason(document: dict[str, Any], longest_s: float) -> str:
    """The reason why a run on the kernel shows nothing about the protocols; empty if it does."""
    lateness = document.get("host", {}).get("lateness")
    if lateness and (lateness["overloaded"] or lateness["packets"] == 0):
        return f"packets were up to {lateness['max_s']:.1f} s late"
    return f"threads waited up to {longest_s:.1f} s for a processor" if longest_s > LIMIT_S else ""
