"""The reactions to events that window-based congestion controls share; a control adds only the arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from anabranch._native import Ack, Idle, Loss, Path, Timeout

_MAX_WINDOW = 1 << 48
"""Largest window, bytes."""

_MAX_ROUNDING_ERROR = 1e-6
"""A fraction of a byte below this value is a rounding error, and is not rounded up."""


@dataclass
class _Undo:
    """State of a path before its last reaction to a loss."""

    cwnd: int
    ssthresh: int | None
    partial: int
    fraction: float


@dataclass
class _State:
    """State of a path, apart from window and threshold."""

    srtt_s: float | None = None
    partial: int = 0
    """Bytes acknowledged towards the next full window."""
    fraction: float = 0.0
    """Bytes by which the window has yet to change."""
    repairing: bool = False
    """True until the data that was outstanding at a timeout has been repaired."""
    undo: _Undo | None = None


class Controller(ABC):
    """Base class of congestion controls; a subclass adds the arithmetic of growth and of the reaction to a loss.

    It has slow start with byte counting, recovery, timeouts, idle restarts, penalties and undo, by the rules of the
    path's protocol, like the controls of the simulator (`anabranch_multipath::congestion::Controller`).
    """

    per_window: ClassVar[bool] = True
    """True if the window grows once per full window of acknowledged data; false if with each acknowledgement."""
    own_count: ClassVar[bool] = False
    """With `whole_packets`: true if the control has a separate counter, which a loss does not reset, as in Linux."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self._states: dict[int, _State] = {}

    @abstractmethod
    def avoidance(self, path: Path, ack: Ack) -> float:
        """The growth of the window in congestion avoidance, bytes."""

    @abstractmethod
    def threshold(self, path: Path) -> float:
        """The new threshold after a loss, bytes. `path.cwnd` is then the window that was in use."""

    def srtt_s(self, path: Path) -> float | None:
        """The smoothed round-trip time of a path, seconds; `None` before it is measured."""
        return self._states[path.id].srtt_s

    def on_path(self, path: Path) -> None:
        """Add a path."""
        self.paths = [*(other for other in self.paths if other.id != path.id), path]
        self._states[path.id] = _State()

    def on_path_removed(self, path: Path) -> None:
        """Remove a path."""
        self.paths.remove(path)
        del self._states[path.id]

    def on_ack(self, path: Path, ack: Ack) -> None:
        """Open the window, unless too little of it was used, or the path is in recovery or not usable."""
        state = self._states[path.id]
        if ack.srtt_s is not None:
            state.srtt_s = ack.srtt_s
        if not (ack.cwnd_limited and ack.acked > 0 and path.usable and not path.recovering):
            return
        if path.ssthresh is None or path.cwnd < path.ssthresh:
            self._grow(path, _slow_start_step(path, ack.acked, repairing=state.repairing))
        elif not self.per_window:
            self._shift(path, self.avoidance(path, ack))
        else:
            state.partial += ack.acked
            if state.partial >= path.cwnd:
                state.partial -= path.cwnd
                self._grow(path, _ceil_bytes(self.avoidance(path, ack)))

    def on_loss(self, path: Path, loss: Loss) -> None:
        """Lower threshold and window, once in a recovery phase."""
        if not path.recovering:
            self._states[path.id].undo = None if loss.ecn else self._present(path)
            self._reduce(path, loss.in_flight)

    def on_recovered(self, path: Path, now_s: float) -> None:
        """End a recovery, because everything that was outstanding at the loss is acknowledged."""
        self._states[path.id].repairing = False

    def on_timeout(self, path: Path, timeout: Timeout) -> None:
        """Lower the threshold, and the window to one packet."""
        state = self._states[path.id]
        if not timeout.repeated or path.rules == "sctp":
            # A timeout within a recovery phase belongs to the same loss.
            if not (path.recovering and state.undo is not None):
                state.undo = self._present(path)
            self._reduce(path, timeout.in_flight)
        path.cwnd = path.mss
        self._restart_count(path)
        state.repairing = True

    def on_idle(self, path: Path, idle: Idle) -> None:
        """Restart from the initial window (TCP), or halve the window for each timeout of idle time (SCTP)."""
        self._states[path.id].undo = None
        if path.rules == "tcp":
            restart = path.initial_window
        else:
            path.ssthresh = path.cwnd
            restart = max(path.cwnd >> min(idle.timeouts, 64), path.floor)
        path.cwnd = min(path.cwnd, restart)
        self._restart_count(path)

    def on_spurious(self, path: Path, now_s: float) -> None:
        """Undo the last reaction to a loss."""
        state = self._states[path.id]
        undo, state.undo = state.undo, None
        if undo is None:
            return
        path.cwnd = max(path.cwnd, undo.cwnd)
        path.ssthresh = None if undo.ssthresh is None or path.ssthresh is None else max(path.ssthresh, undo.ssthresh)
        state.partial, state.fraction = undo.partial, undo.fraction

    def on_penalty(self, path: Path, bounded: bool) -> None:
        """Halve window and threshold of a path that blocks the connection's buffers."""
        self._states[path.id].undo = None
        if bounded and (path.ssthresh is None or path.ssthresh > path.cwnd):
            path.ssthresh = path.cwnd
        elif path.ssthresh is not None:
            path.ssthresh = path.ssthresh // 2
        path.cwnd = path.cwnd // 2
        self._restart_count(path)

    def _present(self, path: Path) -> _Undo:
        state = self._states[path.id]
        return _Undo(path.cwnd, path.ssthresh, state.partial, state.fraction)

    def _reduce(self, path: Path, in_flight: int) -> None:
        """Set threshold and window for a loss; TCP's begin with the data in flight (RFC 5681 eq. 4)."""
        if path.rules == "tcp":
            path.cwnd = min(path.cwnd, in_flight)
        path.ssthresh = int(self.threshold(path))
        path.cwnd = path.ssthresh or 0
        self._restart_count(path)

    def _restart_count(self, path: Path) -> None:
        if not (self.own_count and path.whole_packets):
            state = self._states[path.id]
            state.partial, state.fraction = 0, 0.0

    def _grow(self, path: Path, size: int) -> None:
        if path.whole_packets:
            self._shift(path, size)
        else:
            path.cwnd = path.cwnd + size

    def _shift(self, path: Path, size: float) -> None:
        """Change the window by a real number of bytes; keep the fraction of a byte, or of a packet."""
        state = self._states[path.id]
        state.fraction = min(max(state.fraction + size, -_MAX_WINDOW), _MAX_WINDOW)
        if state.fraction >= 1.0:
            whole = _countable(path, int(state.fraction))
            state.fraction -= whole
            path.cwnd = path.cwnd + whole
        elif state.fraction <= -1.0:
            whole = _countable(path, int(-state.fraction))
            state.fraction += whole
            path.cwnd = path.cwnd - whole
            path.ssthresh = path.cwnd if path.ssthresh is None else min(path.ssthresh, path.cwnd)


def _slow_start_step(path: Path, acked: int, *, repairing: bool) -> int:
    """Growth in slow start: the acknowledged bytes, within the limits of RFC 3465 §2 and to the threshold."""
    packets = 1 if repairing else path.abc_limit
    step = acked if packets is None else min(acked, packets * path.mss)
    return step if path.ssthresh is None else min(step, max(path.ssthresh - path.cwnd, path.mss))


def _ceil_bytes(size: float) -> int:
    """A size rounded up to a whole byte, at least one."""
    size = min(size - _MAX_ROUNDING_ERROR, _MAX_WINDOW)
    whole = max(int(size), 0)
    return max(whole + (size > whole), 1)


def _countable(path: Path, size: int) -> int:
    return size - size % path.mss if path.whole_packets else size
