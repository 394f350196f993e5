"""Remedies at the two hosts: keys of the flow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch._core.simulator import coupled
from anabranch.explain.divided_answers import (
    BBR_SHARES,
    LINUX_WEIGHT,
    share_of_divided_answers,
    share_of_moved_answers,
)
from anabranch.explain.facts import COPIES, MAX_SHORT_TRIPS, PACED, PACKET_BYTES
from anabranch.explain.further_paths import added_bps, carried_bps, is_return_busy, unused_bps
from anabranch.explain.network_remedies import can_fill_queue, held_up, late_sides
from anabranch.explain.proposals import (
    FULL_SHARE,
    Proposal,
    best_path,
    buffer_size,
    keys_of_path,
    needed_buffer_bytes,
    of_flow,
)
from anabranch.fairness.capacity import MULTIPATH, seconds, size_bytes
from anabranch.quantities import counted, mbps, ms
from anabranch.sweep import setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.explain.facts import Facts

_SCHEDULERS = ("lowest-rtt", "blest", "ecf", "linux", "round-robin")
_FIRST_PATH_SCHEDULERS = ("lowest-rtt", "blest", "ecf", "linux")
"""Schedulers that give an answer to one path as long as its window has room."""
_USUAL_BUFFER = "4 MB"
_MIN_SLOW_SETUP_TRIPS = 3.0
_BUFFER_WEIGHT = 2.0
"""A buffer that limits the flow for half of the time keeps it from all of its room: windows do not grow then."""
_REINJECTED = ("opportunistic-retransmission", "chunk-rescheduling")
"""Kinds of data that reinjection sends, and a setting switches off."""
_BBR_TRIPS = 2.0
"""Largest window of BBR, in round trips of data."""
_BUFFERED_BBR_SHARE = 0.93
"""Part of the possible rate that BBR reaches with a buffer that is smaller than its largest windows."""
_LOSSY_WEIGHT = 0.9
"""Part of that share that remains if links lose packets: BBR repeats them, and sometimes reduces its window."""
_COPIES_WEIGHT = 0.3
"""Part of the reinjected rate that counts: reinjections follow from full buffers more often than they cost a rate."""
_LATE_COPIES_WEIGHT = 0.5
"""The same if a queue that is longer than the buffer makes data late: the copies then take the rate of other paths."""
_HALVED_WEIGHT = 0.2
"""Part of the gap that penalisation explains: a full buffer causes it, and remains full without it."""
_TIMEOUTS_WEIGHT = 0.3
"""Part of the time in timeouts that other timers save: the losses remain."""
_LATE_WEIGHT = 0.5
"""Part of the gap that other schedulers save if a long queue makes data late."""
_ECF_WEIGHT = 0.55
"""The same for ECF, which compares the times at which paths would finish the waiting data."""
_SMALL_BUFFER_WEIGHT = 0.2
"""Part of it that remains if the buffers are smaller than the queue: a scheduler changes little then."""
_LATE_DATA_WEIGHT = 0.3
"""Weight of a small buffer if a long queue makes data late: a larger buffer fills the queue, too."""
_LONG_QUEUE_WEIGHT = 0.15
"""The same if the queue is longer than the buffer."""
_BUSY_RETURN_WEIGHT = 0.85
"""Weight of a small buffer if acknowledgements wait on the return path, which lengthens round trips."""
_LARGE_WINDOW = 40
"""Initial window that is tried, segments."""
_SHORTER_START = 0.36
"""Part of a short transfer's time that this window saves: most of two of four round trips."""
_OVERFLOWING_START = 0.2
"""The same if the first queue is shorter than the window."""
_MIN_EVIDENCE = 0.02
_MIN_BUSY_SHARE = 0.5
"""Share of the time from which on a host's processor counts as busy."""


def receive_buffer(facts: Facts) -> Iterator[Proposal]:
    """A larger receive buffer, where it is smaller than the paths need."""
    current, needed = facts.settings["receive_buffer"], needed_buffer_bytes(facts)
    if current == "auto" or size_bytes(current) >= needed:
        return
    waited_s = facts.waited_s("receive-window")
    cause = (
        f"The receive buffer of {current} is too small for these paths: the sender waited for the receive window for "
        f"{waited_s:.1f} of {facts.open_s:.1f} s"
    )
    waited = _waited_for_buffer(facts, "receive-window")
    evidence = min(_held_share(facts, waited), _bound(facts, "receive_buffer", "send_buffer", needed))
    for size, weight in _sizes(current, needed).items():
        yield of_flow(facts, {"receive_buffer": size}, cause, weight * evidence)


def send_buffer(facts: Facts) -> Iterator[Proposal]:
    """A larger send buffer, where it is smaller than the paths need."""
    current, needed = facts.settings["send_buffer"], needed_buffer_bytes(facts)
    if current == "auto" or size_bytes(current) >= needed:
        return
    waits = [facts.waited_share(cause) for cause in ("receive-window", "congestion-window")]
    waited = _waited_for_buffer(facts, "send-buffer")
    if facts.is_on_kernel:
        waited = max(waited, 1.0 - min(1.0, sum(waits)))
    cause = (
        f"The send buffer of {current} is too small for these paths, which need {needed * 1e-6:.2g} MB to stay busy "
        f"during a retransmission"
    )
    evidence = min(_held_share(facts, waited), _bound(facts, "send_buffer", "receive_buffer", needed))
    for size, weight in _sizes(current, needed).items():
        yield of_flow(facts, {"send_buffer": size}, cause, weight * evidence)


def _waited_for_buffer(facts: Facts, cause: str) -> float:
    """Share of the time that a buffer limits the flow. Between its waits, TCP paces what the buffer admits."""
    waited = facts.waited_share(cause)
    if facts.is_on_kernel:
        return waited
    if facts.fills_buffer and not _is_late(facts):
        return 1.0
    paced = facts.waited_share("pacing") if facts.protocol == "mptcp" and waited >= _MIN_EVIDENCE else 0.0
    weight = _BUSY_RETURN_WEIGHT if is_return_busy(facts) else 1.0
    if held_up(facts):
        weight = _LATE_DATA_WEIGHT if can_fill_queue(facts) else _LONG_QUEUE_WEIGHT
    return weight * min(1.0, _BUFFER_WEIGHT * (waited + paced))


def _is_late(facts: Facts) -> bool:
    """Whether data or acknowledgements wait in a queue, so that they fill a buffer of any size."""
    return bool(held_up(facts)) or is_return_busy(facts)


def _held_share(facts: Facts, waited: float) -> float:
    """The share that a flow gains with larger buffers, from the share of the time for which it waited for them.

    A full buffer also halves the window of a late path by penalisation; then the window limits the path, and not the
    buffer. A path gains nothing if random losses keep its window small.
    """
    if facts.is_on_kernel:
        return facts.gap * waited
    held_bps = penalised_bps = 0.0
    for path in facts.data_paths:
        held_bps += (1.0 - path.reduced_share) * facts.usable_bps(path) + facts.copied_bps(path, COPIES)
        penalised_bps += facts.usable_bps(path) if path.is_penalised and not _is_late(facts) else 0.0
    return max(waited * facts.share_of(held_bps), facts.share_of(penalised_bps))


def _bound(facts: Facts, key: str, other: str, needed_bytes: float) -> float:
    """Largest share that a buffer adds before the other buffer limits the flow."""
    sizes = [facts.settings[each] for each in (key, other)]
    if "auto" in sizes or facts.is_on_kernel:
        return 1.0
    own, limit = map(size_bytes, sizes)
    return 1.0 if limit >= needed_bytes else max(0.0, 1.0 - own / limit)


def buffers(facts: Facts) -> Iterator[Proposal]:
    """Enlarge both buffers, if both are smaller than the paths need."""
    found = [each for side in (receive_buffer, send_buffer) for each in list(side(facts))[:1]]
    if len(found) == 2:  # noqa: PLR2004  both buffers are too small
        cause = (
            f"Both buffers are too small for these paths: {facts.settings['send_buffer']} at the sender and "
            f"{facts.settings['receive_buffer']} at the receiver"
        )
        settings = tuple(setting for each in found for setting in each.settings)
        evidence = max(each.evidence for each in found) * 0.9
        if not facts.is_on_kernel:
            waits = [_waited_for_buffer(facts, each) for each in ("receive-window", "send-buffer")]
            evidence = 0.95 * _held_share(facts, min(1.0, max(waits) if is_return_busy(facts) else sum(waits)))
        yield Proposal("", settings, cause, evidence)


def application(facts: Facts) -> Iterator[Proposal]:
    """A saturated application, where the present one writes less than the paths would carry."""
    workload = facts.settings["workload"]
    if workload["kind"] not in PACED:
        return
    lasts_s = facts.end_s - facts.flow["start_s"]
    written_bps = 8.0 * facts.flow["written_bytes"] / lasts_s if lasts_s > 0.0 else 0.0
    share = min(1.0, facts.while_open(facts.goodput_bps) / written_bps) if written_bps else 1.0
    cause = (
        f"The application limits the flow: it writes {mbps(written_bps)} on average, and the flow delivers "
        f"{100 * share:.0f} % of that"
    )
    yield of_flow(facts, {"workload": {"kind": "saturated"}}, cause, facts.gap * share**4)


def coupling(facts: Facts) -> Iterator[Proposal]:
    """The same connection without coupling, or coupled over shared bottlenecks only."""
    control = facts.flow["congestion"]
    if control not in coupled() or len(facts.paths) < 2:  # noqa: PLR2004  a single path has nothing to couple
        return
    # With a single path for data, nothing is coupled.
    waited = facts.waited_share("congestion-window") if len(facts.data_paths) > 1 else 0.0
    cause = (
        f'"{control}" couples the {len(facts.paths)} paths, so that together they grow no faster than one: '
        f"the sender waited for its congestion windows for {100 * waited:.0f} % of the time"
    )
    yield of_flow(facts, {"congestion": "reno"}, cause, 0.45 * facts.room * waited)
    if facts.settings.get("couple") != "shared":
        yield of_flow(facts, {"couple": "shared"}, cause, 0.4 * facts.room * waited)


def control(facts: Facts) -> Iterator[Proposal]:
    """Use a control that reacts less to loss, or one that keeps queues short."""
    current = facts.flow["congestion"]
    lossy = [side.link for side in facts.sides_there if side.has_loss]
    lost = counted(sum(path.report["retransmissions"] for path in facts.paths), "retransmission")
    if lossy:
        cause = (
            f'"{current}" takes random loss for congestion ({lost}). {_links(lossy, "loses", "lose")} packets at random'
        )
    else:
        cause = f'"{current}" grew its windows too slowly, with {lost}'
    free = facts.free_share(lossy) if lossy else facts.room
    for name, weight in (("bbr", 0.8 if lossy else 0.3), ("cubic", 0.25)):
        if name != current:
            further = list(_further_reasons_for_bbr(facts)) if name == "bbr" else []
            reasons = [(weight * free * facts.waited_share("congestion-window"), cause), *further]
            evidence, reason = max(reasons, key=lambda each: each[0])
            yield of_flow(facts, {"congestion": name}, reason, evidence)


def _further_reasons_for_bbr(facts: Facts) -> Iterator[tuple[float, str]]:
    """Evidence and cause of gains that do not come from faster growth."""
    current = facts.flow["congestion"]
    late = [side.link for side in late_sides(facts)]
    if late:
        yield (
            _of_short_queues(facts),
            f'{_links(late, "has", "have")} a long queue that "{current}" fills, and the flow waits for data there',
        )
    divided = share_of_divided_answers(facts, BBR_SHARES) / facts.rate_weight
    yield (
        divided,
        f'BBR keeps windows small, so it divides answers over the paths more evenly than "{current}" does',
    )


def _of_short_queues(facts: Facts) -> float:
    """The share that a flow gains if a control with short queues fills its paths, and no path makes data late.

    BBR keeps up to two round trips of data in flight; a buffer that is smaller costs it little.
    """
    if not held_up(facts) or facts.possible_bps is None:
        return 0.0
    reached_bps = facts.payload_share * facts.possible_bps
    windows = math.fsum(_BBR_TRIPS * (path.rate_bps or 0.0) * path.rtt_s for path in facts.data_paths)
    if windows > facts.buffer_bits:
        reached_bps *= _BUFFERED_BBR_SHARE
    weight = _LOSSY_WEIGHT if any(side.lost_share for path in facts.data_paths for side in path.there) else 1.0
    return weight * facts.share_of(reached_bps - facts.while_open(facts.goodput_bps))


def scheduler(facts: Facts) -> Iterator[Proposal]:
    """Other schedulers, where there are several paths to choose from."""
    if facts.protocol not in MULTIPATH or len(facts.paths) < 2:  # noqa: PLR2004  a single path leaves no choice
        return
    current = str(facts.settings["scheduler"])
    shares = [(facts.while_open(path.goodput_bps) / path.rate_bps, path) for path in facts.paths if path.rate_bps]
    share, idle = min(shares, key=lambda each: each[0], default=(1.0, None))
    where = "" if idle is None else f': path "{idle.name}" carried {100 * share:.0f} % of its rate'
    evidence, late_share = 0.3 * facts.gap * (1.0 - min(1.0, share)), 0.0
    if not facts.is_on_kernel:
        is_own = current == "redundant" or facts.waited_share("scheduler") >= _MIN_EVIDENCE
        late_share = held_up(facts) * (1.0 if can_fill_queue(facts) else _SMALL_BUFFER_WEIGHT)
        evidence = max(_LATE_WEIGHT * late_share, facts.room if is_own else 0.1 * facts.room)
    for name in _SCHEDULERS:
        if name != current:
            cause = f'Scheduler "{current}" does not use the whole rate of the paths{where}'
            divided = _of_scheduled_answers(facts, name, current) / facts.rate_weight
            late = _ECF_WEIGHT * late_share if name == "ecf" else 0.0
            yield of_flow(facts, {"scheduler": name}, cause, max(evidence, late, divided))


def _of_scheduled_answers(facts: Facts, name: str, current: str) -> float:
    """The share of the time of answers that another scheduler saves by the way in which it divides them."""
    if name == "round-robin":
        return share_of_divided_answers(facts, (0.5, 0.5))
    if current in _FIRST_PATH_SCHEDULERS:
        return 0.0  # all of these divide answers only where the first path has no room
    return (LINUX_WEIGHT if name == "linux" else 1.0) * share_of_divided_answers(facts, (1.0,))


def reinjection(facts: Facts) -> Iterator[Proposal]:
    """Disable the mechanisms that send data twice or halve windows because of a full buffer."""
    counters = facts.flow["counters"] or {}
    copies = sum(path.report["reinjections"] or 0 for path in facts.paths)
    packets = max(1, sum(path.report["data_packets"] for path in facts.paths))
    halved = int(counters.get("penalisations") or 0)
    share = min(1.0, copies / packets)
    sent_twice = f"{copies:,} of {packets:,} data packets ({100 * share:.0f} %) were copies of data on another path"
    evidence = share
    if not facts.is_on_kernel:
        copied = sum(facts.copied_bps(path, _REINJECTED) for path in facts.paths)
        is_late = held_up(facts) and not can_fill_queue(facts) and not facts.has_starved_path
        evidence = (_LATE_COPIES_WEIGHT if is_late else _COPIES_WEIGHT) * facts.share_of(copied)
    keys = {"mptcp": "opportunistic_retransmission", "cmt-sctp": "chunk_rescheduling"}
    key = keys.get(facts.protocol)
    if key is None or not (copies or halved):
        return
    if facts.settings[key]:
        yield of_flow(facts, {key: False}, f"Reinjection wastes capacity: {sent_twice}", evidence)
    if facts.settings["penalisation"]:
        cause = (
            f"Penalisation halved the window of a path {counted(halved, 'time')} because its data blocked a full buffer"
        )
        yield of_flow(facts, {"penalisation": False}, cause, _HALVED_WEIGHT * min(facts.gap, 0.01 * halved))
        if facts.settings[key]:
            windows = counted(halved, "window")
            cause = f"Reinjection and penalisation cost more than they help: {sent_twice}, {windows} halved"
            yield of_flow(facts, {key: False, "penalisation": False}, cause, evidence)


def host_cost(facts: Facts) -> Iterator[Proposal]:
    """Set the processor time for packets to zero at a host whose processor is busy or drops packets of its backlog."""
    ends = (facts.flow["from"], facts.flow.get("through"), facts.flow["to"])
    reports = facts.document.get("hosts", [])
    loads = {host["name"]: (host.get("utilisation") or 0.0, host.get("drops") or 0) for host in reports}
    packets = max(1, sum(path.report["data_packets"] for path in facts.paths))
    found = []
    for host in (host for host in facts.spelt_out.get("host", []) if host["name"] in ends and "cost" in host):
        busy, dropped = loads.get(host["name"], (0.0, 0))
        if busy < _MIN_BUSY_SHARE and not dropped:
            continue
        lost = f" and dropped {counted(dropped, 'packet')} beyond its backlog" if dropped else ""
        cause = (
            f'Host "{host["name"]}" is too slow for its packets: its processor was busy for {100 * busy:.0f} % of the '
            f"time{lost}"
        )
        free = setting(f"host.{host['name']}.cost", {"packet": "0 us"})
        evidence = facts.gap * max(busy**4, min(1.0, dropped / packets))
        found.append(Proposal(host["name"], (free,), cause, evidence))
    yield from found
    if len(found) > 1:
        settings = tuple(setting for each in found for setting in each.settings)
        evidence = min(1.0, 1.05 * max(each.evidence for each in found))
        names = ", ".join(each.subject for each in found)
        yield Proposal(names, settings, ". ".join(each.cause for each in found), evidence)


def backup(facts: Facts) -> Iterator[Proposal]:
    """Use all paths for data, and none as a backup."""
    names = list(facts.settings.get("backup", []))
    if not names:
        return
    standby = [path for path in facts.paths if path.report["backup"]]
    idle = sum(path.rate_bps or 0.0 for path in standby)
    added = sum(carried_bps(facts, path) for path in standby)
    cause = f"{_links(names, 'is', 'are')} only a backup: {mbps(idle)} wait for the failure of the other paths"
    # Without an open path, the link lacks more than the removal of the flag.
    evidence = 0.0 if not standby else facts.share_of(added_bps(facts, added)) if idle else 0.5
    yield of_flow(facts, {"backup": []}, cause, evidence, names[0])
    keys = keys_of_path(facts, names[0])
    if not standby and len(keys) > 1:
        unopened = f"{_links(names, 'is', 'are')} only a backup, and no path opens over it{facts.obstacle_of(names)}"
        evidence = facts.share_of(added_bps(facts, unused_bps(facts, facts.unused_links())))
        yield of_flow(facts, keys, unopened, evidence, names[0])


def timeouts(facts: Facts) -> Iterator[Proposal]:
    """Shorter timeouts, and detection of losses at the end of a burst."""
    count = sum(path.report["timeouts"] or 0 for path in facts.paths)
    if not count:
        return
    longest_s = max(path.report["rto_s"] or 0.0 for path in facts.paths)
    cause = f"{counted(count, 'timeout')} interrupted the flow; the timeout is at least {facts.settings['rto_min']}"
    evidence = _TIMEOUTS_WEIGHT * min(1.0, count * longest_s / facts.open_s) * facts.gap if facts.open_s else 0.0
    tail = {"tail_loss_probe": True} if facts.protocol in ("sctp", "cmt-sctp") else {"recovery": "rack"}
    for key, value in tail.items():
        if facts.settings[key] != value:
            yield of_flow(facts, {key: value}, cause, evidence)
    if seconds(facts.settings["rto_min"]) > 0.2:  # noqa: PLR2004  Linux's minimum
        yield of_flow(facts, {"rto_min": "200 ms"}, cause, evidence)


def slow_start(facts: Facts) -> Iterator[Proposal]:
    """A larger initial window, for transfers of few round trips."""
    kind = facts.settings["workload"]["kind"]
    completion_s = facts.flow["completion_s"]
    trips = completion_s / facts.largest_rtt_s if completion_s and facts.largest_rtt_s else float("inf")
    if kind not in ("file", "request-response") or (kind == "file" and trips > MAX_SHORT_TRIPS):
        return
    if facts.protocol in ("tcp", "mptcp") and facts.settings["initial_window"] < _LARGE_WINDOW:
        lasts = f"took {trips:.0f} round trips" if kind == "file" else "consists of short responses"
        cause = f"The transfer {lasts}, most of them in slow start from {facts.settings['initial_window']} segments"
        # A window that the first queue does not hold loses packets, and a round trip with them.
        queue_bytes = min((side.limit_bytes for path in facts.paths[:1] for side in path.there), default=0.0)
        is_held = queue_bytes >= _LARGE_WINDOW * PACKET_BYTES
        of_file = _SHORTER_START if is_held else _OVERFLOWING_START
        yield of_flow(facts, {"initial_window": _LARGE_WINDOW}, cause, of_file if kind == "file" else _MIN_EVIDENCE)
    if facts.protocol in ("sctp", "cmt-sctp") and facts.settings["abc_limit"]:
        cause = f"Slow start grows by at most {facts.settings['abc_limit']} packets for each acknowledgement"
        yield of_flow(facts, {"abc_limit": False}, cause, 0.3)


def initial_path(facts: Facts) -> Iterator[Proposal]:
    """The connection opened on another path, and for one path the data on another path."""
    first = facts.paths[0] if facts.paths else None
    if first is None:
        return
    for link in (link["name"] for link in facts.links_of_ends()):
        if link in first.report["links"]:
            continue
        other = next((path for path in facts.paths if link in path.report["links"]), None)
        seen = "" if other is None else f'; path "{other.name}" has {ms(other.rtt_s)}'
        cause = f'The connection begins on path "{first.name}" with a round trip of {ms(first.rtt_s)}{seen}'
        evidence = _MIN_EVIDENCE
        if len(facts.data_paths) == 1 and not first.report["backup"] and (other is None or not other.report["backup"]):
            known = None if other is None else other.rate_bps
            unused = min(unused_bps(facts, [link]), unused_bps(facts, facts.unused_links()))
            rate_bps = unused if known is None else known
            evidence = max(evidence, facts.share_of(FULL_SHARE * rate_bps - facts.while_open(facts.goodput_bps)))
            evidence = max(evidence, share_of_moved_answers(facts, [link, *facts.unused_links()]) / facts.rate_weight)
        yield of_flow(facts, {"initial_path": facts.first_path(link)}, cause, evidence, link)


def single_path(facts: Facts) -> Iterator[Proposal]:
    """Use only one path for data, and the other paths as backups."""
    if facts.protocol != "mptcp" or len(facts.paths) < 2:  # noqa: PLR2004  a single path has no backup
        return
    hosts = [set(path.report["links"]) for path in facts.paths]
    best = best_path(facts)
    for path, links in zip(facts.paths, hosts, strict=True):
        own = links - set().union(*(other for other in hosts if other is not links))
        others = sorted({link["name"] for link in facts.links_of_ends()} - links)
        if not own or not others:
            continue
        reached_bps = facts.while_open(facts.goodput_bps)
        left = [side.rate_bps - facts.others_bps(side) for side in path.there if side.rate_bps]
        left_bps = max(0.0, min(left, default=0.0))
        more_bps = FULL_SHARE * left_bps - reached_bps
        cause = (
            f'The flow reaches {mbps(reached_bps)} with all paths, path "{path.name}" alone could carry '
            f"{mbps(left_bps)}"
        )
        evidence = max(_MIN_EVIDENCE, 0.3 * facts.share_of(more_bps)) if path is best else _MIN_EVIDENCE
        yield of_flow(facts, {"backup": others}, cause, evidence, path.name)


def multipath(facts: Facts) -> Iterator[Proposal]:
    """Several paths for a flow that uses one of several."""
    unused = facts.unused_links()
    if not unused:
        return
    cause = f"{_links(unused, 'carries', 'carry')} nothing of this flow{facts.obstacle_of(unused)}"
    # A path over a backup link would open, but carry no data.
    evidence = facts.share_of(added_bps(facts, unused_bps(facts, unused, facts.settings.get("backup", []))))
    evidence = max(evidence, share_of_moved_answers(facts, unused) / facts.rate_weight)
    if facts.protocol in MULTIPATH:
        if facts.settings["paths"] != "fullmesh":
            yield of_flow(facts, {"paths": "fullmesh"}, cause + f' with paths = "{facts.settings["paths"]}"', evidence)
        return
    wanted = "mptcp" if facts.protocol == "tcp" else "cmt-sctp"
    yield of_flow(facts, {"protocol": wanted}, f"{cause}: {facts.protocol} uses one path at a time", evidence)


def handshake(facts: Facts) -> Iterator[Proposal]:
    """Let the handshake try other paths, if it took long on the first one."""
    setup_s = facts.flow.get("setup_s")
    trip_s = min((path.rtt_s for path in facts.paths if path.there), default=0.0)
    waited = facts.open_s if setup_s is None else setup_s
    # A kernel does not report the time of the handshake.
    is_unknown = setup_s is None and facts.flow["state"] != "opening" and facts.flow["written_bytes"]
    if (
        facts.protocol != "mptcp"
        or is_unknown
        or waited < _MIN_SLOW_SETUP_TRIPS * trip_s + seconds(facts.settings["rto_initial"])
    ):
        return
    cause = "The connection never opened" if setup_s is None else f"The handshake took {setup_s:.2f} s"
    evidence = min(1.0, waited / facts.document["duration_s"])
    yield of_flow(facts, {"syn_retransmission": "multipath"}, cause, evidence)


def nagle(facts: Facts) -> Iterator[Proposal]:
    """Nagle's algorithm switched off, for applications that send messages."""
    is_on = facts.settings.get("nagle", facts.protocol in ("sctp", "cmt-sctp"))
    if is_on and facts.settings["workload"]["kind"] in ("messages", "rate", "request-response"):
        cause = "Nagle's algorithm holds small packets back while others are in flight"
        yield of_flow(facts, {"nagle": False}, cause, 0.05)


def association(facts: Facts) -> Iterator[Proposal]:
    """Other values for settings of SCTP that limit paths."""
    if facts.protocol not in ("sctp", "cmt-sctp"):
        return
    settings: Mapping[str, object] = facts.settings
    if settings["max_burst"]:
        cause = f"At most {settings['max_burst']} packets leave at once on a path"
        yield of_flow(facts, {"max_burst": False}, cause, facts.room * facts.waited_share("pacing"))
    if facts.protocol == "cmt-sctp":
        waited = facts.waited_share("send-buffer") + facts.waited_share("receive-window")
        for value in ("none", "both"):
            if settings["buffer_splitting"] != value:
                cause = f'Buffers are split by "{settings["buffer_splitting"]}": a full share blocked the flow'
                yield of_flow(facts, {"buffer_splitting": value}, cause, 0.5 * facts.room * min(1.0, waited))
        if not settings["nr_sack"]:
            cause = "Data that arrived out of order stays in the send buffer"
            yield of_flow(facts, {"nr_sack": True}, cause, 0.5 * facts.room * min(1.0, waited))


def _sizes(current: str, needed_bytes: float) -> dict[str, float]:
    """Sizes of a buffer to try with the weight of their evidence: enough for full queues, and the usual size."""
    sizes = {buffer_size(needed_bytes): 1.0}
    if size_bytes(current) < size_bytes(_USUAL_BUFFER) < needed_bytes:
        sizes[_USUAL_BUFFER] = 0.95
    return sizes


def _links(names: list[str], one: str, several: str) -> str:
    """Links as the subject of a verb, at the begin of a sentence."""
    listed = ", ".join(f'"{name}"' for name in names)
    return f"Link {listed} {one}" if len(names) == 1 else f"Links {listed} {several}"
