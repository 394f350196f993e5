//! Abandons messages (partial reliability, RFC 3758 §3.5, RFC 7496) and sends the FORWARD TSN for their TSNs.
//!
//! A message is abandoned as a whole. Its part that is not fragmented yet leaves the send queue. Its chunks stay on the
//! scoreboard in the state "abandoned", without using buffer space, until the peer acknowledges a FORWARD TSN. Chunks
//! in flight are abandoned only when they are lost, because they may still arrive in time. If the peer does not support
//! FORWARD TSN, a message with a transmitted fragment is never abandoned.

use crate::common::Core;
use crate::limits::Limit;
use crate::sender::outbound::Outbound;
use crate::sender::outstanding::Chunk;
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Event, Reliability, Write};
use anabranch_wire::sctp::{self, DataFlags, ForwardTsn, IForwardTsn, Skipped, SkippedMessage};
use anabranch_wire::seq::Serial;
use std::collections::BTreeMap;

impl Outbound {
    /// Abandons messages whose lifetime has ended or whose limit of retransmissions is reached.
    pub fn abandon_expired(&mut self, core: &mut Core, now: Time) {
        if self.limits.is_empty() {
            return;
        }
        self.limits.retire(self.queue.oldest());
        while let Some(serial) = self.limits.expired(now) {
            let Some(limit) = self.limits.get(serial) else { continue };
            if self.queue.uncut(limit.stream, serial).is_some() || self.has_lost(serial) {
                self.abandon(core, now, serial);
            }
        }
        for tsn in self.limits.take_lost() {
            let Some(chunk) = self.sent.get(tsn) else { continue };
            let ChunkState::Lost(why) = chunk.state else { continue };
            let (serial, sent) = (self.queue.unwrap_serial(chunk.serial), chunk.transmissions);
            let over = self.limits.get(serial).is_some_and(|limit| match limit.reliability {
                Reliability::Lifetime(_) => limit.expires <= now,
                Reliability::Retransmissions(most) => {
                    matches!(why, RetransmissionReason::Fast | RetransmissionReason::Timeout) && sent > most
                }
                Reliability::Priority(_) | Reliability::Full => false,
            });
            if over {
                self.abandon(core, now, serial);
            }
        }
    }

    /// Abandons queued and outstanding messages of lower priority to make room for a refused write (RFC 7496 §3.2), if
    /// that frees enough bytes.
    pub fn make_room(&mut self, core: &mut Core, now: Time, write: &Write) -> bool {
        let Reliability::Priority(own) = write.reliability else { return false };
        let mut space = self.space(core);
        let mut victims = Vec::new();
        for serial in self.limits.below(own) {
            if space >= write.len {
                break;
            }
            let room = self.room_of(serial);
            if room > 0 {
                space += room;
                victims.push(serial);
            }
        }
        if space < write.len {
            return false;
        }
        for serial in victims {
            self.abandon(core, now, serial);
        }
        true
    }

    /// Bytes of the send buffer that abandoning a message frees: 0 if the message cannot be abandoned or has arrived.
    fn room_of(&self, serial: u64) -> u64 {
        let Some(limit) = self.limits.get(serial) else { return 0 };
        let uncut = self.queue.uncut(limit.stream, serial);
        if limit.cut.is_some() && !self.forwarding.enabled {
            return 0;
        }
        let (mut held, mut open) = (0, uncut.is_some());
        for (_, chunk) in self.chunks_of(serial) {
            let waits = matches!(chunk.state, ChunkState::InFlight | ChunkState::Lost(_));
            open |= waits;
            held += if waits || chunk.state == ChunkState::GapAcked { u64::from(chunk.len) } else { 0 };
        }
        if open { held + uncut.unwrap_or(0) } else { 0 }
    }

    /// Outstanding chunks of a message with limited reliability, with their TSNs.
    fn chunks_of(&self, serial: u64) -> impl Iterator<Item = (u64, &Chunk)> {
        let cut = self.limits.get(serial).and_then(|limit| limit.cut);
        let tsns = cut.map_or(0..0, |(first, last)| first.max(self.sent.base())..last + 1);
        tsns.filter_map(|tsn| self.sent.get(tsn).map(|chunk| (tsn, chunk)))
            .filter(move |(_, chunk)| chunk.serial == serial as u32)
    }

    fn has_lost(&self, serial: u64) -> bool {
        self.chunks_of(serial).any(|(_, chunk)| matches!(chunk.state, ChunkState::Lost(_)))
    }

    /// Abandons a message, unless the peer would wait for the rest of it.
    fn abandon(&mut self, core: &mut Core, now: Time, serial: u64) {
        let chunks: Vec<u64> = self.chunks_of(serial).map(|(tsn, _)| tsn).collect();
        let begun = self.limits.get(serial).is_none_or(|limit| limit.cut.is_some());
        if begun && !self.forwarding.enabled {
            return;
        }
        let Some(limit) = self.limits.remove(serial) else { return };
        if let Some(left) = self.queue.discard(limit.stream, serial) {
            self.queue.release(serial as u32, left);
            if begun {
                self.push_end(core, now, (serial, limit));
            }
        }
        for tsn in chunks {
            self.abandon_chunk(core, now, tsn);
        }
        for path in core.paths.iter_mut().filter(|path| path.totals.in_flight() == 0) {
            path.retransmission_timer = None;
        }
        let totals = &mut core.totals;
        *if begun { &mut totals.messages_abandoned_sent } else { &mut totals.messages_abandoned_unsent } += 1;
        core.events.push_back(Event::Abandoned { offset: limit.offset, len: limit.len, sent: begun });
        self.notify_space(core);
    }

    fn abandon_chunk(&mut self, core: &mut Core, now: Time, tsn: u64) {
        let Some(before) = self.sent.abandon(&mut core.paths, tsn) else { return };
        core.paths.iter_mut().for_each(|path| path.forget_probe(tsn));
        if before.state != ChunkState::Freed {
            self.queue.release(before.serial, before.len.into());
        }
        match before.state {
            ChunkState::InFlight => {
                core.leave_phase(before.recovery);
                core.rate_lost(&before, now);
            }
            ChunkState::Lost(_) => core.leave_phase(before.recovery),
            _ => {}
        }
    }

    /// Assigns a TSN to the end of a message that was abandoned before its end was sent. The peer may have received all
    /// fragments that were sent; a FORWARD TSN up to this TSN makes it discard them.
    fn push_end(&mut self, core: &mut Core, now: Time, (serial, limit): (u64, Limit)) {
        let unordered = if limit.unordered { DataFlags::UNORDERED } else { DataFlags(0) };
        let chunk = Chunk {
            offset: limit.offset + limit.len,
            sent_at: now,
            sent_as: 0,
            len: 0,
            message: limit.number,
            serial: serial as u32,
            ppid_or_fsn: 0,
            recovery: 0,
            stream: limit.stream,
            flags: DataFlags::END | unordered,
            path: core.preferred() as u8,
            transmissions: 0,
            state: ChunkState::Abandoned,
            moved: false,
            fast: false,
        };
        self.sent.push(chunk, &mut core.paths);
    }

    /// The FORWARD TSN or I-FORWARD-TSN that is due, and its path (RFC 3758 §3.5 C). It is due when more TSNs have been
    /// abandoned than the last one covered. It is retransmitted if the SACKs of a round trip show that the peer did not
    /// receive it, or if no SACK arrives.
    pub fn next_forward_tsn(&mut self, core: &mut Core, now: Time) -> Option<(usize, sctp::Chunk)> {
        if self.sent.totals().abandoned() == 0 {
            self.forwarding.due = None;
            return None;
        }
        let base = self.sent.base();
        let mut ahead = self.forwarding.ahead.max(base);
        let end = self.forwarding.end(base);
        while ahead < end && self.sent.get(ahead).is_some_and(|chunk| chunk.state == ChunkState::Abandoned) {
            ahead += 1;
        }
        let at = core.preferred();
        let path = &mut core.paths[at];
        let (rto, srtt) = (path.rtt.rto(), path.rtt.srtt());
        let state = &mut self.forwarding;
        state.ahead = ahead;
        if ahead == base {
            state.due = None;
            return None;
        }
        if base > state.base {
            state.base = base;
            state.due = state.due.map(|_| now + rto);
        }
        let unheard = core::mem::take(&mut state.heard) && state.told_at + srtt.unwrap_or(rto) <= now;
        let repeats = core::mem::take(&mut state.again) || unheard;
        if ahead <= state.told && base < state.covered && !repeats {
            return None;
        }
        state.due.get_or_insert(now + rto);
        (state.told, state.told_at, state.at) = (ahead, now, at);
        path.last_sent = now;
        let room = path.room;
        let (covered, chunk) = self.forward_chunk(room);
        self.forwarding.covered = covered;
        core.totals.forward_tsns_sent += 1;
        Some((at, chunk))
    }

    /// Builds the chunk for as many TSNs as fit the packet. It ends before a message whose stream entry does not fit.
    fn forward_chunk(&self, room: u32) -> (u64, sctp::Chunk) {
        let mut skipped: BTreeMap<(u16, bool), u32> = BTreeMap::new();
        let (header, entry) = if self.is_interleaving() {
            (IForwardTsn::default().length(), IForwardTsn::ENTRY_LEN)
        } else {
            (ForwardTsn::default().length(), ForwardTsn::ENTRY_LEN)
        };
        let most = (room.saturating_sub(header) / entry) as usize;
        let mut tsn = self.sent.base();
        while let Some(chunk) = self.sent.get(tsn).filter(|_| tsn < self.forwarding.ahead) {
            let unordered = chunk.flags.contains(DataFlags::UNORDERED);
            // Entries for unordered DATA are not listed: the new cumulative TSN is enough.
            if !unordered || self.is_interleaving() {
                let key = (chunk.stream, unordered);
                if skipped.len() == most && !skipped.contains_key(&key) {
                    break;
                }
                skipped.insert(key, chunk.message);
            }
            tsn += 1;
        }
        let cumulative_tsn = Serial((tsn - 1) as u32);
        let chunk = if self.is_interleaving() {
            let entry = |((stream, unordered), mid)| SkippedMessage { stream, unordered, mid: Serial(mid) };
            let skipped = skipped.into_iter().map(entry).collect();
            sctp::Chunk::IForwardTsn(IForwardTsn { cumulative_tsn, skipped })
        } else {
            let entry = |((stream, _), number)| Skipped { stream, ssn: number as u16 };
            let skipped = skipped.into_iter().map(entry).collect();
            sctp::Chunk::ForwardTsn(ForwardTsn { cumulative_tsn, skipped })
        };
        (tsn, chunk)
    }

    /// Time of the next event: the end of a message's lifetime, or the retransmission of a FORWARD TSN.
    pub fn limits_due(&self) -> Time {
        let told = self.forwarding.due.filter(|_| self.sent.totals().abandoned() > 0);
        let due = told.unwrap_or(Time::MAX);
        due.min(self.limits.next_expiry().unwrap_or(Time::MAX))
    }

    /// Timeout of the last FORWARD TSN: it is retransmitted (RFC 3758 §3.5 C5).
    pub fn limits_timeout(&mut self, core: &mut Core, now: Time) {
        self.abandon_expired(core, now);
        if self.sent.totals().abandoned() > 0 && self.forwarding.due.is_some_and(|due| due <= now) {
            (self.forwarding.due, self.forwarding.again) = (None, true);
            let at = self.forwarding.at;
            core.paths[at].rtt.back_off();
            core.path_error(now, at);
            core.move_lost_chunks();
        }
    }
}
