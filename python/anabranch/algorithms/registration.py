"""Registration and check of congestion controls and schedulers in Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _native
from anabranch._core import simulator
from anabranch.errors import InputError
from anabranch.files import read_input

if TYPE_CHECKING:
    from collections.abc import Callable


def register_congestion(name: str, algorithm: Callable[[], object]) -> None:
    """Give a class a name as a congestion control, which scenarios can use in this process until it ends.

    Each connection creates an instance without arguments. The class has any of these methods; `path` is an
    `algorithms.Path`, whose `cwnd` and `ssthresh` the control sets. An event without a method changes nothing.

    - `on_path(path)`, `on_path_removed(path)`, `on_usable(path)`, `on_mss(path, old_mss)`
    - `on_ack(path, ack)`, `on_loss(path, loss)`, `on_recovered(path, now_s)`, `on_timeout(path, timeout)`
    - `on_idle(path, idle)`, `on_spurious(path, now_s)`, `on_penalty(path, bounded)`

    `algorithms.Controller` has all of them and needs only the arithmetic. The class attribute `coupled` is true if the
    paths of a connection share their growth. The simulator alone runs such a control; an exception of it ends the run
    as `RunFailed`. Worker processes (`run_all` with `jobs`) know the name if the script registers it outside
    `if __name__ == "__main__"`.

    Args:
        name: The name: a lower-case letter, then lower-case letters, digits, "-" and "_".
        algorithm: The class; the first line of its docstring describes it in `anabranch list`.

    Raises:
        InputError: If the name exists or has another form, or the class has an unknown method that begins with `on_`.

    """
    with simulator.InputErrors():
        _native.register_congestion(_text(name), algorithm)


def register_scheduler(name: str, algorithm: Callable[[], object]) -> None:
    """Give a class a name as a scheduler, which scenarios can use in this process until it ends.

    Each connection creates an instance without arguments and calls `select(offer, paths)` for each packet if a path has
    room: `offer` is an `algorithms.Offer`, `paths` a list of `algorithms.PathState`. The method returns the `id` of a
    path with `eligible`, or `None` to wait. `on_blocked()` is optional; it is called if the receive window or the send
    buffer is full although paths have room. With the class attribute `duplicates`, each path carries all data. A
    subclass of `algorithms.SharesScheduler` has no `select`. Otherwise as `register_congestion`.

    Args:
        name: The name, as for `register_congestion`.
        algorithm: The class.

    Raises:
        InputError: If the name exists or has another form, or the class has no method `select`.

    """
    with simulator.InputErrors():
        _native.register_scheduler(_text(name), algorithm)


def check_congestion(
    algorithm: Callable[[], object],
    *,
    sequences: int = 50,
    vectors: str | Path | None = None,
    tolerance_bytes: int = 0,
) -> None:
    """Check that a class obeys the laws of congestion controls, such as one packet after a timeout.

    The laws are those of `anabranch_multipath::congestion::conformance`, which all controls of the simulator obey. The
    check applies random sequences of 150 events over four paths, including events that do not occur in practice; the
    sequences are the same each time.

    Args:
        algorithm: The class, as for `register_congestion`.
        sequences: Number of sequences.
        vectors: A file of `vectors/congestion` with the windows of another control, which this one must have too.
        tolerance_bytes: Largest difference from the vectors.

    Raises:
        InputError: If the class breaks a law, with the events until then, or differs from the vectors.
        RunFailed: If a method of the class raises an exception, which is the cause.

    """
    for argument, value in (("sequences", sequences), ("tolerance_bytes", tolerance_bytes)):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_CHECK_NUMBER:
            raise InputError(f"{argument} must be a whole number from 0 to {_MAX_CHECK_NUMBER}, not {value!r}")
    text = None if vectors is None else read_input(Path(vectors))
    try:
        with simulator.NativeErrors():
            violation = _native.check_congestion(algorithm, sequences, text, tolerance_bytes)
    except InputError as error:
        raise InputError(error.message, None if vectors is None else str(vectors)) from None
    if violation is not None:
        raise InputError(f"{_name(algorithm)} is no congestion control: {violation}")


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(f"name must be a text, not {name!r}")
    return name


def _name(algorithm: object) -> str:
    return str(getattr(algorithm, "__qualname__", algorithm))


_MAX_CHECK_NUMBER = 1_000_000
"""Largest value of the numbers of a check."""
