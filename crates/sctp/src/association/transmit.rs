//! The next packet of an established association, and its timers.

use crate::common::Core;
use crate::open::Open;
use crate::path::state::Heartbeat;
use crate::sender::outbound::Probe;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Reason;
use anabranch_wire::sctp::{Cause, Chunk, Chunks, NetworkControl};
use anabranch_wire::{Ecn, Packet};

impl Open {
    /// The next packet with data or an acknowledgement.
    pub fn next_packet(&mut self, core: &mut Core, now: Time) -> Option<Packet> {
        // With several paths, an urgent SACK does not wait for data that uses the same path.
        if self.inbound.urgent() && (core.paths.len() > 1 || !self.phase.sends_data()) {
            return Some(self.sack_packet(core));
        }
        if self.outbound.would_wait(now) && !self.inbound.urgent() {
            return None;
        }
        let sends_data = self.phase.sends_data() && !self.outbound.resting();
        let mut len = None;
        if sends_data {
            self.outbound.abandon_expired(core, now);
            // The last chunk that the shutdown waited for may have been abandoned.
            self.progress(core, now);
            self.follow_change(core, now);
            if let Some(packet) = core.out.pop_front() {
                return Some(packet);
            }
            let packet = self.next_repair(core, now);
            if packet.is_some() {
                return packet;
            }
            len = self.outbound.next_len();
            let chosen = if core.sends_copies {
                self.outbound.choose_path_of_copies(core, (len, now))
            } else {
                len.and_then(|len| self.outbound.choose_path(core, (len, now)))
            };
            if let Some(at) = chosen {
                let packet = self.data_packet(core, (at, now), false);
                if packet.is_some() {
                    return packet;
                }
            }
        }
        if self.inbound.urgent() {
            return Some(self.sack_packet(core));
        }
        if sends_data {
            self.outbound.settle(core, (len, now));
        } else if self.outbound.resting() {
            core.note_no_data(now);
        } else {
            core.unblock(now);
        }
        None
    }

    /// The next packet with the most urgent contents for the peer: a FORWARD TSN, or lost chunks.
    fn next_repair(&mut self, core: &mut Core, now: Time) -> Option<Packet> {
        if let Some((at, chunk)) = self.outbound.next_forward_tsn(core, now) {
            core.paths[at].counters.packets_sent += 1;
            return Some(core.packet(at, self.peer_tag, chunk.into()));
        }
        let at = self.outbound.path_to_resend(core, now)?;
        self.data_packet(core, (at, now), true)
    }

    /// Sends lost chunks before the packets that the timers have queued, which start at index `before`.
    /// Otherwise a queue with room for one packet would drop every retransmission after a heartbeat: the
    /// answer to the heartbeat keeps the path in use, and no data ever arrives.
    fn repair_first(&mut self, core: &mut Core, now: Time, before: usize) {
        if core.out.len() == before || !self.phase.sends_data() {
            return;
        }
        let questions = core.out.split_off(before);
        while let Some(packet) = self.next_repair(core, now) {
            core.out.push_back(packet);
        }
        core.out.extend(questions);
    }

    fn data_packet(&mut self, core: &mut Core, (at, now): (usize, Time), again: bool) -> Option<Packet> {
        let mut chunks = Chunks::new();
        let mut room = core.paths[at].room;
        let acknowledges = self.inbound.pending() && at == self.ack_path;
        let asks = !again && self.control.is_some() && self.owes_request((at, now), acknowledges);
        if asks {
            room -= NetworkControl::LEN;
        }
        if acknowledges {
            chunks = self.acknowledgement(core, room);
            room = room.saturating_sub(chunks.iter().map(Chunk::wire_len).sum());
        }
        if asks {
            self.put_request(core, (at, now), &mut chunks);
            self.outbound.limit_fragment(room);
        }
        let before = chunks.len();
        if again {
            self.outbound.refill(core, (at, now), room, &mut chunks);
        } else {
            self.outbound.fill(core, (at, now), room, &mut chunks);
        }
        if asks {
            self.outbound.paths_changed(core);
        }
        let carried = chunks.len();
        if carried == 0 {
            return None;
        }
        core.paths[at].counters.packets_sent += 1;
        let carries_data = carried > before;
        if carries_data {
            self.outbound.set_immediate_bit(core, at, &mut chunks);
        }
        let ecn = if carries_data && self.extensions.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        if again {
            let mut packet = Packet { ecn, ..core.packet(at, self.peer_tag, chunks) };
            if packet.source.is_ipv4() && packet.wire_len() + core.auth_len > core.paths[at].mtu {
                packet.let_routers_fragment();
            }
            return Some(packet);
        }
        Some(Packet { ecn, ..core.packet(at, self.peer_tag, chunks) })
    }

    fn sack_packet(&mut self, core: &mut Core) -> Packet {
        let at = self.ack_path;
        let chunks = self.acknowledgement(core, core.paths[at].room);
        core.paths[at].counters.packets_sent += 1;
        core.envelope(self.ack_pair, core.paths[at].udp, self.peer_tag, chunks)
    }

    /// A SACK, and before it the ECNEs, which must precede it because the peer needs the chunks on its scoreboard.
    fn acknowledgement(&mut self, core: &mut Core, room: u32) -> Chunks {
        let mut chunks = Chunks::new();
        if self.control.is_some() {
            self.push_report(core, &mut chunks);
        }
        for echo in self.echo_chunks() {
            chunks.push(echo);
        }
        let left = room - chunks.iter().map(Chunk::wire_len).sum::<u32>();
        chunks.push(self.inbound.make_sack(&core.inbox, left));
        core.totals.sacks_sent += 1;
        chunks
    }

    /// Runs every timer that is due.
    pub fn handle_timeout(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        self.inbound.handle_timeout(now);
        let before = core.out.len();
        for at in 0..core.paths.len() {
            core.paths[at].burst_left = core.config.max_burst.unwrap_or(u32::MAX);
            let due = core.paths[at].retransmission_timer.is_some_and(|due| due <= now);
            if due || self.outbound.handle_silence(core, at, now) {
                self.outbound.retransmission_timeout(core, at, now);
                if let Some(discovery) = &mut core.paths[at].discovery {
                    discovery.suspect(now);
                }
                if self.outbound.is_stuck(core) {
                    let cause =
                        Cause::UserInitiatedAbort(b"a chunk exceeds the MTU of every path"[..].into());
                    return Some(self.refuse(core, cause));
                }
            }
            if core.sends_copies {
                self.outbound.expire_redundant_copies(core, at, now);
            } else {
                Self::expire_copies(core, at, now);
            }
            if core.paths[at].reordering_due.is_some_and(|due| due <= now) {
                self.outbound.detect_losses(core, at, now);
            }
            self.heartbeat_timeout(core, at, now);
            self.probe_mtu(core, at, now);
            if let Some(rate) = &mut core.paths[at].rate {
                rate.on_timeout(now);
            }
        }
        if matches!(self.outbound.probe, Probe::Waiting(due) if due <= now) {
            self.outbound.probe = Probe::Due;
        }
        self.outbound.limits_timeout(core, now);
        self.changes_timeout(core, now);
        self.handle_asconf_timeout(core, now);
        if let Some(reason) = self.shutdown_timeout(core, now) {
            return Some(reason);
        }
        if core.exhausted() {
            return Some(Reason::TimedOut);
        }
        self.repair_first(core, now, before);
        None
    }

    /// Removes moved chunks from a path one timeout after their transmission. If no acknowledgement for the path has
    /// arrived since, this counts as an error of the path (RFC 9260 §8.2).
    fn expire_copies(core: &mut Core, at: usize, now: Time) {
        let path = &mut core.paths[at];
        let sent_at = path.copies.expire(now - path.rtt.rto());
        if sent_at.is_some_and(|sent_at| path.heard < sent_at) && path.totals.in_flight() == 0 {
            core.path_error(now, at);
            core.move_lost_chunks();
        }
    }

    fn heartbeat_timeout(&mut self, core: &mut Core, at: usize, now: Time) {
        match core.paths[at].heartbeat {
            Heartbeat::Idle { due } if due <= now => {
                let quiet_since = core.paths[at].last_sent;
                let interval = core.config.heartbeat_interval.unwrap_or(Duration::ZERO);
                let next = quiet_since + interval + core.paths[at].rtt.rto();
                let quiet = core.paths[at].healthy() && !core.tries_other_sources(at);
                if quiet && core.paths[at].counters.data_packets_sent > 0 && next > now {
                    core.paths[at].heartbeat = Heartbeat::Idle { due: next };
                } else {
                    core.heartbeat_due(now, at, self.peer_tag);
                }
            }
            Heartbeat::Waiting { until, .. } if until <= now => {
                core.heartbeat_lost(now, at, self.peer_tag);
                core.move_lost_chunks();
                self.outbound.paths_changed(core);
            }
            _ => {}
        }
    }

    /// Time of the next call of [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self, core: &Core) -> Time {
        let mut next = self.inbound.due().unwrap_or(Time::MAX);
        if let Probe::Waiting(due) = self.outbound.probe {
            next = next.min(due);
        }
        next = next.min(self.phase.due()).min(self.asconf.requests.due()).min(self.reconfig.due());
        next = next.min(self.outbound.limits_due());
        core.paths.iter().fold(next, |next, path| next.min(path.next_timeout()))
    }
}
