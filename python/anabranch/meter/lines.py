"""Output of a test: a line for each interval, flow and subflow, and a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HEADING = f"{'flow':<16} {'interval':>15}  {'sent':>14}  {'received':>14}  {'again':>6}  {'cwnd':>9}  {'RTT':>9}"


def interval_lines(names: Sequence[str], interval: Mapping[str, Any], before: dict[str, int]) -> Iterator[str]:
    """The lines of an interval; `before` keeps the retransmissions of each subflow up to the previous interval."""
    begin, end = interval["span_s"]
    seconds = max(end - begin, 1e-9)
    total = [0, 0]
    for name, (written, read, subflows) in zip(names, interval["flows"], strict=True):
        total = [total[0] + written, total[1] + read]
        one = subflows[0] if len(subflows) == 1 else None
        yield _line(name, (begin, end), (written, read), seconds, _state(one, before) if one else "")
        if len(subflows) > 1:
            for subflow in subflows:
                key = f"{subflow['local']}>{subflow['remote']}"
                sent = _grown(before, f"sent {key}", subflow["bytes_sent"])
                received = _grown(before, f"received {key}", subflow["bytes_received"])
                yield _line(f"  {_host(subflow['local'])}", (begin, end), (sent, received), seconds,
                            f"{_state(subflow, before)}  {key}")  # fmt: skip
    if len(names) > 1:
        yield _line("sum", (begin, end), (total[0], total[1]), seconds, "")


def summary_lines(document: Mapping[str, Any], size: float | None = None) -> Iterator[str]:
    """Summary of a test, a line for each direction of each flow; `size` is the limit in bytes for each direction.

    All numbers are of the measured part, after the warm-up.
    """
    arrows = {"client-to-server": "->", "server-to-client": "<-"}
    total = 0.0
    for flow in document["flows"]:
        for way in flow["ways"]:
            total += way["goodput_bps"]
            read, delay = way["read"], way["read"]["delay_s"]
            parts = [f"{flow['name']} {arrows[way['direction']]} {rate(way['goodput_bps'])}"]
            parts.append(
                f"{read['measured_bytes']:,} B in {read['measured_messages']:,} messages, {way['measured_s']:.2f} s"
            )
            if way["lost_messages"] is not None:
                due = max(read["measured_due"], 1)
                parts.append(f"lost {way['lost_messages']:,} ({100 * way['lost_messages'] / due:.2g} %)")
            if way["open_messages"]:
                parts.append(f"{way['open_messages']:,} outstanding at the end")
            if delay is not None:
                parts.append(
                    f"delay mean {time(delay['mean'])}, median {time(delay['p50'])}, 99 % {time(delay['p99'])}, "
                    f"most {time(delay['max'])}"
                )
            yield "; ".join(parts)
        if flow["answers"] is not None:
            times = flow["response_time_s"]
            responses = f"; response time mean {time(times['mean'])}, 99 % {time(times['p99'])}" if times else ""
            yield f"{flow['name']}: {flow['answers']:,} answers{responses}"
        yield from _abort_lines(flow)
    ways = [way for flow in document["flows"] for way in flow["ways"]]
    if len(ways) > 1:
        yield f"sum {rate(total)}"
    seconds = document["processor_s"]
    yield f"processor time: client {time(seconds[0])}, server {time(seconds[1])}"
    if size is not None and any(way["read"]["bytes"] < int(size) for way in ways):
        yield f"The test ended before all {int(size):,} B arrived."
    if not document["one_clock"]:
        yield "Client and server are on machines with different clocks: delays of messages are unknown."


def _abort_lines(flow: Mapping[str, Any]) -> Iterator[str]:
    for end, reason in zip(("client", "server"), flow["aborted"], strict=True):
        if reason is not None:
            yield f"{flow['name']} ended early at the {end}: {reason}"


def rate(bps: float) -> str:
    """A rate with a unit, e.g. "12.5 Mbit/s"."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:.3g} {unit}" if bps < 100 * factor else f"{bps / factor:.1f} {unit}"
    return f"{bps:.0f} bit/s"


def time(seconds: float) -> str:
    """A time with a unit, e.g. "3.2 ms"."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _line(name: str, span: tuple[float, float], moved: tuple[int, int], seconds: float, state: str) -> str:
    sent, received = (rate(8 * count / seconds) if count else "-" for count in moved)
    between = f"{span[0]:.2f}-{span[1]:.2f} s"
    return f"{name[:16]:<16} {between:>15}  {sent:>14}  {received:>14}  {state}".rstrip()


def _state(subflow: Mapping[str, Any], before: dict[str, int]) -> str:
    key = f"{subflow['local']}>{subflow['remote']}"
    again = _grown(before, f"again {key}", subflow["retransmissions"])
    srtt = time(subflow["srtt_s"]) if subflow["srtt_s"] is not None else "-"
    return f"{again:>6}  {subflow['cwnd_bytes'] / 1e3:>6.1f} kB  {srtt:>9}"


def _grown(before: dict[str, int], key: str, count: int) -> int:
    """Increase of a count since the previous interval."""
    grown = count - before.get(key, 0)
    before[key] = count
    return grown


def _host(address: str) -> str:
    return address.rpartition(":")[0]
