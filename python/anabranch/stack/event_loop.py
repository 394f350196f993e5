"""Calls of the stack in an event loop of asyncio.

The stack's thread never waits for the interpreter: it puts the key of a call that can go on into a queue, whose
descriptor the loop watches.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from anabranch import _native
from anabranch._core.simulator import InputErrors


class _Waiting:
    """The waiting calls of an event loop. A reference to the loop would keep its entry in `_LOOPS` alive."""

    def __init__(self) -> None:
        self.calls = _native.Calls()
        self.woken: dict[int, asyncio.Future[None]] = {}

    def wake(self) -> None:
        """Wake the calls that can continue."""
        for key in self.calls.take():
            woken = self.woken.pop(key, None)
            if woken is not None and not woken.done():
                woken.set_result(None)


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()


def _waiting(loop: asyncio.AbstractEventLoop) -> _Waiting:
    waiting = _LOOPS.get(loop)
    if waiting is None:
        waiting = _LOOPS[loop] = _Waiting()
        loop.add_reader(waiting.calls.fd(), waiting.wake)
    return waiting


async def answer(call: _native.Call) -> Any:
    """The answer of a call. Cancelling the task ends the call."""
    loop = asyncio.get_running_loop()
    waiting = _waiting(loop)
    calls = waiting.calls
    key = calls.begin()
    try:
        with InputErrors():
            while not calls.poll(key, call):
                woken = waiting.woken[key] = loop.create_future()
                await woken
            return call.answer()
    finally:
        waiting.woken.pop(key, None)
        calls.end(key)
        call.cancel()
