//! The receiving half: received TSNs, the time of acknowledgements, and the contents of the SACK (RFC 9260 §6.2).
//!
//! TSNs above the cumulative TSN are stored as a set of ranges. The cost of a chunk is at most logarithmic in the
//! number of gaps, and a comparison if there are none. The cost of a SACK depends on its gap blocks, which must fit its
//! packet.

use super::reassembly::{Fragment, Reassembly, Skip, Violation};
use crate::inbox::Inbox;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::buffer::RangeSet;
use anabranch_wire::sctp::{Chunk, Duplicates, GapBlock, NrSack, Sack, SackFlags};
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// Buffers below this number of full packets send a SACK for each packet of window that becomes free.
const SMALL_BUFFER_PACKETS: u64 = 16;

/// Headers of IPv6, SCTP and I-DATA, bytes.
const MAX_HEADERS: u64 = 72;

/// Acknowledgement policy of the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckPolicy {
    pub delay: Duration,
    pub every: u32,
    /// True if the acknowledgement of out-of-order data is delayed too, and reports the number of acknowledged
    /// packets (DAC).
    pub dac: bool,
    /// True if the peer has agreed that each packet of a delayed SACK counts as a report of missing data. A peer that only
    /// sets the flags of DAC may count less.
    pub counts_packets: bool,
    pub nr_sack: bool,
    /// Share of the chunks above a gap that are discarded when the buffer is full.
    pub renege: f64,
    /// True if the peer may abandon messages.
    pub forward_tsn: bool,
    /// True if the peer sends I-DATA.
    pub i_data: bool,
}

/// The first unwrapped TSN from `from` on that has this value on the wire.
pub(crate) const fn following(from: u64, tsn: Serial) -> u64 {
    from + tsn.0.wrapping_sub(from as u32) as u64
}

/// The result of receiving a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The chunk was received for the first time.
    New,
    /// The chunk was received before.
    Duplicate,
    /// The buffer has no room for the chunk.
    Dropped,
    /// The chunk is new, but its stream does not exist: it is acknowledged and discarded.
    NoSuchStream,
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// Cumulative TSN: the last one before the first gap.
    cumulative: u64,
    /// Received TSNs above the cumulative TSN.
    above: RangeSet,
    /// The lowest runs of received TSNs as of the last SACK, and the lowest TSN above which runs have changed since.
    lowest: VecDeque<(u64, u64)>,
    changed: u64,
    highest: u64,
    duplicates: Vec<Serial>,
    reassembly: Reassembly,
    /// Number of held bytes at which partial delivery is attempted next.
    tried_at: u64,
    capacity: u64,
    mtu: u64,
    policy: AckPolicy,
    /// Packets with data since the last SACK.
    packets: u32,
    due: Option<Time>,
    urgent: bool,
    /// True once data was received: the first data is acknowledged at once (RFC 9260 §5.1).
    begun: bool,
    /// Window in the last SACK, and bytes received since.
    advertised: u64,
    since_sack: u64,
    dropped: u64,
    duplicated: u64,
    reneged: u64,
}

impl Inbound {
    pub fn new(first_tsn: u64, streams: u16, capacity: u64, mtu: u32, policy: AckPolicy) -> Self {
        Self {
            cumulative: first_tsn - 1,
            above: RangeSet::new(),
            lowest: VecDeque::new(),
            changed: u64::MAX,
            highest: first_tsn - 1,
            duplicates: Vec::new(),
            reassembly: Reassembly::new(streams, policy.forward_tsn),
            tried_at: 0,
            capacity,
            mtu: u64::from(mtu),
            policy,
            packets: 0,
            due: None,
            urgent: false,
            begun: false,
            advertised: capacity,
            since_sack: 0,
            dropped: 0,
            duplicated: 0,
            reneged: 0,
        }
    }

    pub const fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// True if data is missing below received data.
    pub fn has_gap(&self) -> bool {
        !self.above.is_empty()
    }

    /// True if the next SACK may acknowledge several packets: no data is missing, so that no SACK counts as a report of it (RFC
    /// 9260 §6.7), or the SACK contains their number, and the peer counts it. The paths of CMT leave gaps all the time.
    pub fn may_wait(&self) -> bool {
        self.policy.counts_packets || !self.has_gap()
    }

    /// Received fragments that will never be part of a complete message, as runs of TSNs: first TSN and number.
    pub fn into_unread(self) -> impl Iterator<Item = (u64, u32)> {
        self.reassembly.into_runs()
    }

    /// The highest received TSN.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Number of runs of TSNs above the cumulative TSN that begin before this one.
    pub fn runs_before(&self, tsn: u64) -> u64 {
        self.above.count_below(tsn) as u64
    }

    /// Number of fragments and messages that wait for their turn before this fragment.
    pub fn waiting_before(&self, piece: &Fragment) -> u64 {
        self.reassembly.waiting_before(piece)
    }

    /// Bytes waiting for missing TSNs or for the rest of their message.
    pub const fn held(&self) -> u64 {
        self.reassembly.held()
    }

    /// Bytes waiting, by stream; empty if there is only one stream.
    pub fn held_by_stream(&self) -> &[u64] {
        self.reassembly.held_by_stream()
    }

    /// Numbers of chunks dropped for lack of buffer space, of duplicates, and of chunks discarded after their
    /// acknowledgement.
    pub const fn losses(&self) -> [(&'static str, u64); 3] {
        [
            ("chunks_dropped", self.dropped),
            ("chunks_duplicate", self.duplicated),
            ("chunks_discarded", self.reneged),
        ]
    }

    /// Free bytes in the receive buffer. While nothing is readable and there is no gap, the window is at least two
    /// packets, because a message that the peer begins and never ends would close it permanently.
    fn window(&self, inbox: &Inbox) -> u64 {
        let free = self.capacity.saturating_sub(self.reassembly.held() + inbox.bytes());
        if inbox.bytes() == 0 && self.above.is_empty() { free.max(2 * self.mtu) } else { free }
    }

    /// Processes a received chunk.
    pub fn receive(&mut self, piece: &Fragment, inbox: &mut Inbox) -> Result<Received, Violation> {
        let tsn = piece.tsn;
        if tsn <= self.cumulative || self.above.contains(tsn) {
            self.duplicated += 1;
            if self.duplicates.len() < 64 {
                self.duplicates.push(Serial(tsn as u32));
            }
            self.urgent = true;
            return Ok(Received::Duplicate);
        }
        // A chunk that fills a gap is accepted beyond the window, up to twice the buffer: a peer that begins many
        // messages and ends none must not use more. Two cases prevent a stall. The next expected chunk is always
        // accepted while nothing is readable. Before a gap, its limit is four times the buffer, because chunks
        // accepted after the gap may have used the buffer.
        let (len, window) = (u64::from(piece.len), self.window(inbox));
        let used = self.reassembly.held() + inbox.bytes();
        let most = self.capacity.saturating_mul(2);
        let end = if self.above.is_empty() { most } else { most.saturating_mul(2) };
        let admitted = (len <= window && used <= most)
            || (tsn < self.highest && used + len <= most)
            || (tsn == self.cumulative + 1 && inbox.bytes() == 0 && used <= end);
        if !admitted {
            self.dropped += 1;
            self.urgent = true;
            self.renege(inbox);
            return Ok(Received::Dropped);
        }
        self.since_sack += len;
        let gap_before = self.has_gap();
        if tsn == self.cumulative + 1 {
            let (reached, _) = self.above.absorb(tsn, tsn + 1);
            self.cumulative = reached - 1;
        } else {
            self.above.insert(tsn, tsn + 1);
            self.changed = self.changed.min(tsn);
        }
        self.highest = self.highest.max(tsn);
        let gap = gap_before || self.has_gap();
        self.urgent |= piece.immediate || (gap && !self.policy.dac) || !self.begun;
        self.begun = true;
        if !self.reassembly.has_stream(piece.stream) {
            return Ok(Received::NoSuchStream);
        }
        self.reassembly.insert(piece, inbox)?;
        self.make_room(inbox);
        self.renege(inbox);
        Ok(Received::New)
    }

    /// Discards a share of the chunks above the first gap if the buffer has room for the missing chunks only. Does
    /// nothing with NR-SACKs, which promise to keep acknowledged chunks.
    #[inline]
    fn renege(&mut self, inbox: &Inbox) {
        if self.policy.renege > 0.0 && !self.policy.nr_sack && self.has_gap() {
            self.renege_if_full(inbox);
        }
    }

    fn renege_if_full(&mut self, inbox: &Inbox) {
        let missing = (self.highest - self.cumulative).saturating_sub(self.above.covered());
        let packet = self.mtu.saturating_sub(MAX_HEADERS);
        if self.window(inbox) >= (missing + 1).saturating_mul(packet) {
            return;
        }
        for (first, count) in self.reassembly.renege(self.cumulative, self.policy.renege) {
            self.above.remove(first, first + u64::from(count));
            self.changed = self.changed.min(first);
            self.reneged += u64::from(count);
            self.urgent = true;
        }
        self.highest = self.above.last().map_or(self.cumulative, |(_, end)| end - 1);
    }

    /// Skips all missing chunks up to TSN `to`, and these messages, which the sender has abandoned (RFC 3758 §3.6). A
    /// SACK always follows.
    pub fn skip_to(&mut self, to: u64, skips: &[Skip], inbox: &mut Inbox) {
        self.urgent = true;
        if to <= self.cumulative {
            return;
        }
        let (reached, _) = self.above.absorb(self.cumulative + 1, to + 1);
        self.cumulative = reached - 1;
        self.highest = self.highest.max(self.cumulative);
        self.reassembly.skip(to, skips, self.policy.i_data, inbox);
    }

    pub fn streams(&self) -> u16 {
        self.reassembly.streams()
    }

    /// Adds `count` streams on which the peer can send.
    pub fn add_streams(&mut self, count: u16) {
        self.reassembly.add_streams(count);
    }

    /// Returns true if a TSN is more than 2^30 ahead. Its chunk is late and was sent before a reset of the TSNs,
    /// which adds half of their range (RFC 6525 §5.2.4).
    pub const fn is_from_before(&self, tsn: u64) -> bool {
        tsn > self.cumulative + (1 << 30)
    }

    /// True if all received data has been read or can be read.
    pub fn is_whole(&self) -> bool {
        self.above.is_empty() && self.reassembly.is_whole()
    }

    /// Resets these streams, or all if the list is empty.
    pub fn reset_streams(&mut self, streams: &[u16], inbox: &mut Inbox) {
        let all: Vec<u16> = if streams.is_empty() { (0..self.streams()).collect() } else { streams.into() };
        self.reassembly.reset_streams(&all, inbox);
    }

    /// Resets all streams, and continues with this TSN.
    pub fn reset_tsns_and_streams(&mut self, next: Serial, inbox: &mut Inbox) {
        self.reset_streams(&[], inbox);
        self.cumulative = following(self.cumulative + 1, next) - 1;
        self.highest = self.cumulative;
        self.above = RangeSet::new();
        self.duplicates.clear();
        self.lowest.clear();
        self.changed = u64::MAX;
    }

    /// Removes and returns the fragments discarded with abandoned messages, as runs of TSNs: first TSN and number.
    #[inline]
    pub fn take_abandoned(&mut self, to: &mut VecDeque<(u64, u32)>) {
        self.reassembly.take_abandoned(to);
    }

    /// Starts partial delivery when incomplete messages use half of the buffer (the partial delivery point, RFC 6458
    /// §8.1.21). After a failed attempt, the next one waits until more bytes are held.
    fn make_room(&mut self, inbox: &mut Inbox) {
        let held = self.reassembly.held();
        if held < self.tried_at.saturating_sub(self.capacity / 16) {
            self.tried_at = 0;
        }
        if held >= (self.capacity / 2).max(self.tried_at) {
            self.reassembly.deliver_parts(self.cumulative, inbox);
            self.tried_at = self.reassembly.held() + self.capacity / 16;
        }
    }

    /// Called after a packet with data. Requests an immediate SACK after the configured number of packets; otherwise
    /// starts the delay of the SACK.
    pub fn packet_done(&mut self, now: Time) {
        self.packets += 1;
        if self.packets >= self.policy.every || self.policy.delay == Duration::ZERO {
            self.urgent = true;
        } else if self.due.is_none() {
            self.due = Some(now + self.policy.delay);
        }
    }

    /// Enables delayed acknowledgement for CMT, because the peer uses it.
    pub const fn delay_for_cmt(&mut self) {
        self.policy.dac = true;
    }

    /// Requests an immediate SACK.
    pub fn acknowledge_now(&mut self) {
        self.urgent = true;
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.urgent = true;
        }
    }

    /// Time at which a delayed SACK is due.
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// True if a SACK must be sent now.
    pub const fn urgent(&self) -> bool {
        self.urgent
    }

    /// True if packets with data were received since the last SACK, before the current one.
    pub const fn has_unacknowledged_packets(&self) -> bool {
        self.packets > 0
    }

    /// True if a SACK is due now or later.
    pub const fn pending(&self) -> bool {
        self.urgent || self.due.is_some()
    }

    /// Called after the application has read. If that opens a nearly closed window, a SACK is sent (RFC 9260 §6.2,
    /// §6.2.1). The window must open by at least two packets, against silly window syndrome.
    pub fn window_opened(&mut self, inbox: &Inbox) {
        let window = self.window(inbox);
        if self.capacity < SMALL_BUFFER_PACKETS * self.mtu {
            // With a small buffer, a SACK reports each free packet (RFC 1122 §4.2.3.3), and the opening of a closed
            // window.
            let full = self.mtu.saturating_sub(MAX_HEADERS).min(self.capacity / 2).max(1);
            let left = self.advertised.saturating_sub(self.since_sack);
            self.urgent |= window >= self.advertised + full || left < full && window >= left + full;
            return;
        }
        let step = (2 * self.mtu).min(self.capacity / 2).max(1);
        if self.advertised < self.capacity / 2 && window >= self.advertised + step {
            self.urgent = true;
        }
    }

    /// Builds the SACK with at most `room` bytes, and clears the state that one is due.
    pub fn make_sack(&mut self, inbox: &Inbox, room: u32) -> Chunk {
        let window = self.window(inbox);
        (self.advertised, self.since_sack) = (window, 0);
        let packets = core::mem::take(&mut self.packets);
        (self.due, self.urgent) = (None, false);
        let header = if self.policy.nr_sack { NrSack::HEADER_LEN } else { Sack::HEADER_LEN };
        let entries = (room.saturating_sub(header) / Sack::ENTRY_LEN) as usize;
        let gaps = self.gap_blocks(entries);
        let mut duplicates = Duplicates::NONE;
        if !self.duplicates.is_empty() {
            let fit = self.duplicates.len().min(entries - gaps.len());
            duplicates = self.duplicates[..fit].to_vec().into();
            self.duplicates.clear();
        }
        let sack = Sack {
            cumulative_tsn: Serial(self.cumulative as u32),
            a_rwnd: u32::try_from(window).unwrap_or(u32::MAX),
            flags: if self.policy.dac { SackFlags::answering(packets) } else { SackFlags::NONE },
            gaps: Vec::new(),
            duplicates,
        };
        if self.policy.nr_sack {
            // Received chunks are never discarded here, so no gap block is renegable.
            Chunk::NrSack(Box::new(NrSack { sack, nr_gaps: gaps }))
        } else {
            Chunk::Sack(Sack { gaps, ..sack })
        }
    }

    /// Returns the lowest runs as gap blocks. They are kept for the next SACK; only those from the lowest change on
    /// are read from the tree again.
    fn gap_blocks(&mut self, most: usize) -> Vec<GapBlock> {
        let from = core::mem::replace(&mut self.changed, u64::MAX);
        if self.above.is_empty() {
            self.lowest.clear();
            return Vec::new();
        }
        let keep = self.lowest.partition_point(|&(_, end)| end < from);
        self.lowest.truncate(keep);
        while self.lowest.front().is_some_and(|&(_, end)| end <= self.cumulative + 1) {
            self.lowest.pop_front();
        }
        let wanted = self.above.count().min(most);
        if let Some(missing @ 1..) = wanted.checked_sub(self.lowest.len()) {
            let at = self.lowest.back().map_or(0, |&(_, end)| end);
            self.lowest.extend(self.above.iter_from(at).take(missing));
        }
        // Offsets have 16 bits.
        let cumulative = self.cumulative;
        let fits = |&(start, _): &(u64, u64)| u16::try_from(start - cumulative).is_ok();
        let all = self.lowest.back().is_none_or(fits);
        let count = if all { self.lowest.len() } else { self.lowest.partition_point(fits) };
        let last = |end: u64| (end - 1 - cumulative).min(u64::from(u16::MAX)) as u16;
        let block = |&(start, end): &(u64, u64)| GapBlock::new((start - cumulative) as u16, last(end));
        self.lowest.iter().take(count.min(most)).map(block).collect()
    }
}
