//! The sending half: from written messages to chunks with a TSN and a path (RFC 9260 §6.1).
//!
//! A chunk gets its TSN and its path when it is sent, so that a path's window decides which data it carries.
//! [`sack`](super::sack) and [`retransmit`](super::retransmit) handle acknowledgements and losses.

use super::gaps::Change;
use super::outstanding::{Chunk, Outstanding};
use super::streams::{self, Piece, SendQueue};
use crate::common::Core;
use crate::counters::Blocking;
use crate::limits::{Forwarding, Limits};
use crate::path::changeover::Changeover;
use crate::path::silence::Silence;
use crate::path::state::{Flight, Path, Repeat};
use crate::receiver::inbound::following;
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{DecisionReason, Event, Reliability, SchedulingDecision, Write};
use anabranch_multipath::PathId;
use anabranch_multipath::buffer::{Occupancy, SendPermission, Shared};
use anabranch_multipath::scheduler::{Decision, Offer, PathState};
use anabranch_settings::policy::StreamPaths;
use anabranch_wire::Payload;
use anabranch_wire::sctp::{self, DataFlags};
use anabranch_wire::seq::Serial;
use std::collections::BTreeMap;

/// A zero-window probe (RFC 9260 §6.1 A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The window is open, or data is in flight whose SACKs will report the open window.
    None,
    /// The window is closed and nothing is in flight: a probe is due at this time.
    Waiting(Time),
    /// The chunk may be sent now.
    Due,
    /// The chunk is in flight; `answered` if any SACK was received since.
    Sent { tsn: u64, answered: bool },
}

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub queue: SendQueue,
    pub sent: Outstanding,
    /// Number of the latest transmission.
    pub transmissions: u64,
    /// Last receive window announced by the peer, bytes.
    pub advertised: u64,
    /// Largest receive window announced: the size of the peer's buffer.
    pub widest: u64,
    /// Runs of TSNs acknowledged after a gap, as of the latest SACK.
    pub gaps: Vec<(u64, u64)>,
    /// Non-renegable runs among these, if the peer's SACKs report both kinds.
    pub kept: Vec<(u64, u64)>,
    pub mixed: bool,
    /// Changes of these runs by the last SACK.
    pub change: Change,
    /// True if a SACK contained renegable blocks.
    pub renegable: bool,
    /// Length of the last refused write.
    pub refused: Option<u64>,
    /// True if all written data is acknowledged and [`settle`](Self::settle) found nothing to send. Then there is
    /// nothing to send until the next write.
    resting: bool,
    /// The time since which no path has had room for the next fragment, and the length of the fragment. Set
    /// while the only later events are writes of the application, which cannot make room.
    waits: Option<(Time, u32)>,
    pub probe: Probe,
    /// Number of responses to losses (recovery phases and timeouts).
    pub reactions: u32,
    /// Chunks retransmitted in the latest response of each path, by TSN.
    pub repeats: BTreeMap<u64, Repeat>,
    /// Messages that may be abandoned, and the state of the FORWARD TSN for abandoned ones.
    pub limits: Limits,
    pub forwarding: Forwarding,
    /// The last TSN before the TSNs were reset.
    pub before_reset: Option<Serial>,
    /// State of a change of the path of new data while data was in flight.
    pub changeover: Changeover,
    /// Chunks below this TSN have been checked for rescheduling.
    pub rescheduled_below: u64,
    /// Largest payload of a chunk that fits every path.
    pub fragment: u32,
    i_data: bool,
    /// True if the application will write no more, so that small packets are not held back.
    pub closing: bool,
    /// Last recorded reason for which new data waits.
    waiting: Option<DecisionReason>,
    pub states: Vec<PathState>,
}

impl Outbound {
    /// Creates the sending half, with chunks from `first_tsn` on; `forwards` if the peer supports FORWARD TSN.
    pub fn new(core: &Core, (first_tsn, forwards): (u64, bool), streams: u16, window: u64) -> Self {
        let i_data = core.i_data;
        let mut outbound = Self {
            queue: SendQueue::new(core.config.stream_scheduler, i_data, streams, core.written)
                .with_numbers(streams::numbers(&core.config)),
            sent: Outstanding::new(first_tsn),
            transmissions: 0,
            advertised: window,
            widest: window,
            gaps: Vec::new(),
            kept: Vec::new(),
            mixed: false,
            change: Change::default(),
            renegable: false,
            refused: None,
            resting: false,
            waits: None,
            probe: Probe::None,
            reactions: 0,
            repeats: BTreeMap::new(),
            limits: Limits::default(),
            forwarding: Forwarding::new(forwards),
            before_reset: None,
            changeover: Changeover::default(),
            rescheduled_below: 0,
            fragment: 0,
            i_data,
            closing: false,
            waiting: None,
            states: Vec::new(),
        };
        outbound.paths_changed(core);
        outbound
    }

    /// Called when paths were added or changed: the fragmentation point is the smallest payload over all paths.
    pub fn paths_changed(&mut self, core: &Core) {
        self.fragment = core.paths.iter().map(|p| p.mss).min().unwrap_or(1) & !3;
    }

    /// Limits the next fragment to a packet's remaining room, until [`paths_changed`](Self::paths_changed).
    pub fn limit_fragment(&mut self, room: u32) {
        self.fragment = self.fragment.min(room.saturating_sub(self.header())) & !3;
    }

    /// Bytes of the send buffer in use.
    pub fn used(&self) -> u64 {
        self.queue.bytes() + self.sent.totals().buffered()
    }

    /// Bytes in flight on all paths.
    pub const fn in_flight(&self) -> u64 {
        self.sent.totals().in_flight()
    }

    /// The part of the receive window that is not used by data in flight (RFC 9260 §6.2.1). Lost chunks do not use it,
    /// and retransmissions may exceed it.
    pub const fn window(&self) -> u64 {
        self.advertised.saturating_sub(self.in_flight())
    }

    /// Free bytes in the send buffer.
    pub fn space(&self, core: &Core) -> u64 {
        core.config.send_buffer.saturating_sub(self.used())
    }

    /// Writes a message completely, or not at all. A message larger than the send buffer needs an empty buffer.
    pub fn write(&mut self, core: &mut Core, now: Time, write: &Write) -> u64 {
        let len = write.len;
        if len == 0 {
            return 0;
        }
        let streams = self.queue.streams();
        if write.stream >= streams {
            core.events.push_back(Event::NoSuchStream { stream: write.stream, streams });
            return 0;
        }
        if len > self.space(core) && self.used() > 0 {
            if !self.make_room(core, now, write) {
                self.refused = Some(len);
                return 0;
            }
            self.waits = None;
        }
        if write.reliability != Reliability::Full {
            self.waits = None;
        }
        (self.refused, self.resting) = (None, false);
        let serial = self.queue.push(core.written, write);
        self.limits.note_written(serial, (core.written, now), write);
        core.written += len;
        for path in &mut core.paths {
            path.burst_left = core.config.max_burst.unwrap_or(u32::MAX);
        }
        len
    }

    /// Notifies the application that data has left the send buffer, so that a refused write may fit now.
    pub fn notify_space(&mut self, core: &mut Core) {
        if let Some(len) = self.refused
            && (len <= self.space(core) || self.used() == 0)
        {
            self.refused = None;
            core.events.push_back(Event::Writable);
        }
    }

    /// All data below this offset of the written stream has left the send buffer.
    pub const fn released(&self) -> u64 {
        self.queue.released()
    }

    /// True if there is nothing to send until the application writes.
    pub const fn resting(&self) -> bool {
        self.resting
    }

    /// Sets the TSN of the next chunk while nothing is in flight (RFC 6525 §5.2.7). SACKs for earlier TSNs are
    /// ignored.
    pub fn rebase(&mut self, next: Serial) {
        let before = self.sent.next_tsn();
        self.sent.rebase(following(before, next));
        self.before_reset = Some(Serial(before.wrapping_sub(1) as u32));
        self.gaps.clear();
        self.kept.clear();
        self.repeats.clear();
    }

    /// True if the state found by [`settle`](Self::settle) is still valid, so that nothing can be sent now.
    #[inline]
    pub fn would_wait(&self, now: Time) -> bool {
        self.waits.is_some_and(|(since, len)| since == now && self.next_len() == Some(len))
    }

    /// Clears the state found by [`settle`](Self::settle), because an event may allow data to be sent.
    pub const fn clear_wait(&mut self) {
        self.waits = None;
    }

    /// True if everything written has been acknowledged.
    pub fn drained(&self) -> bool {
        self.queue.bytes() == 0 && self.sent.is_empty()
    }

    /// Buffers and totals shared by all paths.
    ///
    /// Retransmissions may exceed the receive window; this does not increase the share of a path.
    pub fn shared(&self, core: &Core) -> Shared {
        let outstanding = self.in_flight().min(self.advertised);
        let total = Occupancy { outstanding, buffered: self.sent.totals().buffered() };
        // A suspected path keeps its share, because it may recover soon.
        let mut paths = core.paths.iter().map(|path| u32::from(path.active())).sum();
        if core.scheduler_selects {
            let left_out = |path: &&Path| path.active() && core.scheduler.leaves_out(path.id);
            paths -= core.paths.iter().filter(left_out).count() as u32;
        }
        Shared { paths, total, send_buffer: core.config.send_buffer, peer_window: self.window() }
    }

    /// Bytes of the next new fragment; `None` if its message must wait for a free message number.
    #[inline]
    pub fn next_len(&self) -> Option<u32> {
        let message = self.queue.peek()?;
        if self.queue.is_out_of_numbers(message) {
            return None;
        }
        Some(message.left.min(u64::from(self.fragment)) as u32)
    }

    /// Returns true if new data waits for Nagle's algorithm (RFC 9260 §6.1): only a partial packet is left, data is
    /// in flight, and the application may add to the packet. A partial packet without room for another chunk counts
    /// as full.
    pub fn held_back(&self, core: &Core) -> bool {
        core.config.nagle
            && !self.closing
            && self.in_flight() > 0
            && self.refused.is_none()
            && self.queue.bytes() + u64::from(self.header()) < u64::from(self.fragment)
    }

    /// The path for the next new fragment of `len` bytes, if it may be sent.
    pub fn choose_path(&mut self, core: &mut Core, (len, now): (u32, Time)) -> Option<usize> {
        if self.held_back(core) {
            return None;
        }
        let closed = u64::from(len) > self.window();
        if closed && self.probe != Probe::Due {
            return None;
        }
        if !core.config.cmt || closed {
            let at = core.preferred();
            return (closed || self.may_carry(core, (at, now), len)).then_some(at);
        }
        // The last call of an event usually finds every window full. Then no scheduler selects a path.
        if !core.paths.iter().any(|path| core.window_admits(path, len)) {
            return None;
        }
        let shared = self.shared(core);
        if shared.paths == 0 {
            let at = core.preferred();
            return self.may_carry(core, (at, now), len).then_some(at);
        }
        if core.config.stream_paths == StreamPaths::Fixed {
            return self.choose_fixed_path(core, now, &shared);
        }
        self.states.clear();
        let splitting = core.splitting();
        let rates = core.config.scheduler.wants_rates;
        for (at, path) in core.paths.iter().enumerate() {
            let usable = core.in_use(at);
            let (cwnd, in_window) = (core.congestion.window(path.id), path.in_window());
            let has_lost_chunks = self.has_lost_chunks(path);
            let mut queueable = 0;
            if usable
                && !has_lost_chunks
                && path.is_released(now)
                && core.admits((cwnd, in_window), path, len)
                && path.has_share(splitting, &shared)
            {
                queueable = (cwnd - in_window).min(self.window());
            }
            self.states.push(PathState {
                id: path.id,
                usable,
                backup: false,
                cwnd,
                outstanding: in_window,
                queueable,
                queued: path.totals.buffered(),
                recovering: path.recovery.is_some() || has_lost_chunks,
                srtt: path.rtt.srtt(),
                rtt_variation: path.rtt.rttvar(),
                ssthresh: if rates { core.congestion.ssthresh(path.id) } else { u64::MAX },
                pacing_rate: if rates { core.congestion.pacing_rate(path.id) } else { None },
                mss: path.mss,
            });
        }
        let offer = Offer {
            now,
            bytes: self.queue.bytes(),
            window: self.window(),
            send_window: self.advertised.min(core.config.send_buffer),
            repeated: false,
        };
        match core.scheduler.select(&offer, &self.states) {
            Decision::Send(PathId(at)) => Some(usize::from(at)),
            Decision::Wait => None,
        }
    }

    /// True if a path may carry `len` bytes of new data.
    pub fn may_carry(&self, core: &Core, (at, now): (usize, Time), len: u32) -> bool {
        let path = &core.paths[at];
        !self.has_lost_chunks(path) && path.is_released(now) && core.window_admits(path, len)
    }

    /// Fills a packet for path `at` with new chunks that fit the remaining `room`.
    pub fn fill(&mut self, core: &mut Core, (at, now): (usize, Time), room: u32, chunks: &mut sctp::Chunks) {
        core.restart_if_idle(at, now);
        if core.sends_copies && self.fill_with_copies(core, (at, now), room, chunks) {
            return;
        }
        self.changeover.note_carrier(core.paths[at].id, self.sent.next_tsn());
        let header = self.header();
        let mut left = room;
        let mut carried = 0;
        // A full packet has no room for another header.
        while left > header
            && let Some(len) = self.next_len()
        {
            if header + len > left || carried > 0 && !core.window_admits(&core.paths[at], len) {
                break;
            }
            if u64::from(len) > self.window() && self.probe != Probe::Due {
                break;
            }
            let Some(piece) = self.queue.cut(self.fragment) else { break };
            let (tsn, chunk) = self.launch_new(core, &piece, (at, now));
            chunks.push(self.emit(tsn, &chunk));
            left -= sctp::padded(header + len).min(left);
            carried += len;
        }
        self.queue.end_packet();
        if carried > 0 {
            let path = &mut core.paths[at];
            path.burst_left = path.burst_left.saturating_sub(1);
            path.counters.data_packets_sent += 1;
        }
    }

    /// True if messages are sent as I-DATA.
    pub const fn is_interleaving(&self) -> bool {
        self.i_data
    }

    /// Header bytes of a chunk.
    pub const fn header(&self) -> u32 {
        if self.i_data { sctp::IData::HEADER_LEN } else { sctp::Data::HEADER_LEN }
    }

    /// Assigns a TSN to a new fragment and records its transmission on a path. Returns TSN and chunk.
    fn launch_new(&mut self, core: &mut Core, piece: &Piece, (at, now): (usize, Time)) -> (u64, Chunk) {
        let mut flags = DataFlags(0);
        for (set, flag) in [
            (piece.first, DataFlags::BEGINNING),
            (piece.last, DataFlags::END),
            (piece.message.unordered, DataFlags::UNORDERED),
        ] {
            if set {
                flags |= flag;
            }
        }
        let tsn = self.sent.next_tsn();
        self.transmissions += 1;
        let chunk = Chunk {
            offset: piece.message.offset,
            sent_at: now,
            sent_as: self.transmissions,
            len: piece.len,
            message: piece.message.number,
            serial: piece.message.serial as u32,
            ppid_or_fsn: if self.i_data && !piece.first {
                piece.message.fragments
            } else {
                piece.message.ppid
            },
            recovery: 0,
            stream: piece.message.stream,
            flags,
            path: at as u8,
            transmissions: 1,
            state: ChunkState::InFlight,
            moved: false,
            fast: false,
        };
        self.sent.push(chunk, &mut core.paths);
        self.limits.note_cut(piece.message.serial, tsn, chunk.message);
        core.totals.chunks_sent += 1;
        self.note_sent(core, (tsn, &chunk), None, (at, now));
        if self.probe == Probe::Due {
            self.probe = Probe::Sent { tsn, answered: false };
            core.paths[at].counters.probes += 1;
        }
        (tsn, chunk)
    }

    /// Records the retransmission of a lost chunk on a path.
    pub fn launch_again(&mut self, core: &mut Core, tsn: u64, (at, now): (usize, Time)) {
        self.transmissions += 1;
        let Some(before) = self.sent.transmit(&mut core.paths, tsn, self.transmissions, (at, now)) else {
            return;
        };
        let ChunkState::Lost(lost) = before.state else { return };
        self.note_retransmission(tsn, &before);
        self.note_sent(core, (tsn, &before), Some(lost), (at, now));
    }

    /// Records the latest transmission of a chunk on a path; for a retransmission, `lost` is its previous state.
    fn note_sent(
        &mut self,
        core: &mut Core,
        (tsn, chunk): (u64, &Chunk),
        lost: Option<RetransmissionReason>,
        (at, now): (usize, Time),
    ) {
        let sent_as = self.transmissions;
        if let Some(decisions) = &mut core.decisions {
            let reason = match lost {
                _ if self.probe == Probe::Due => DecisionReason::WindowProbe,
                Some(resend) => resend.reason(),
                None => DecisionReason::New,
            };
            let path = Some(PathId(at as u8));
            let Chunk { offset, len, .. } = *chunk;
            decisions.push_back(SchedulingDecision { at: now, path, offset, len, reason });
            self.waiting = None;
        }
        let path = &mut core.paths[at];
        path.counters.bytes_sent += u64::from(chunk.len);
        match lost {
            Some(RetransmissionReason::Rescheduled) => {
                path.counters.count_repeated(DecisionReason::Rescheduling, chunk.len.into());
            }
            Some(_) => path.counters.bytes_retransmitted += u64::from(chunk.len),
            None => {}
        }
        path.order.push_back(Flight { tsn, sent_as });
        if !chunk.fast {
            path.watch.push_back(Flight { tsn, sent_as });
        }
        path.last_sent = now;
        path.start_timer(now);
        if !matches!(path.silence, Silence::Answer { .. }) {
            core.watch_silence(at, now);
        }
        let earlier = lost.map(|_| (usize::from(chunk.path), chunk.sent_as));
        core.rate_sent((sent_as, chunk.len), earlier, (at, now));
    }

    /// Encodes a chunk for transmission.
    pub fn emit(&self, tsn: u64, chunk: &Chunk) -> sctp::Chunk {
        let payload = Payload::new(chunk.offset, chunk.len);
        let number = Serial(tsn as u32);
        if self.i_data {
            return sctp::Chunk::IData(sctp::IData {
                tsn: number,
                stream: chunk.stream,
                mid: Serial(chunk.message),
                ppid_or_fsn: chunk.ppid_or_fsn,
                flags: chunk.flags,
                payload,
            });
        }
        sctp::Chunk::Data(sctp::Data {
            tsn: number,
            stream: chunk.stream,
            // Unordered DATA has no stream sequence number; the field is ignored.
            ssn: if chunk.flags.contains(DataFlags::UNORDERED) { 0 } else { chunk.message as u16 },
            ppid: chunk.ppid_or_fsn,
            flags: chunk.flags,
            payload,
        })
    }

    /// Records which path is blocked and why, and schedules a probe of a closed window. Called when nothing more can
    /// be sent now, not even a fragment of `len` bytes, if there is one.
    pub fn settle(&mut self, core: &mut Core, (len, now): (Option<u32>, Time)) {
        if let Some(len) = len
            && u64::from(len) > self.window()
            && self.in_flight() == 0
            && self.sent.totals().lost_chunks() == 0
        {
            if self.probe == Probe::None {
                self.probe = Probe::Waiting(now + core.timeout_on(core.preferred()));
            }
        } else if !matches!(self.probe, Probe::Sent { .. }) {
            self.probe = Probe::None;
        }
        if len.is_none() && self.refused.is_none() {
            core.unblock(now);
        } else {
            self.note_blocking(core, (len, now));
        }
        self.settle_rates(core, now, len);
        if core.decisions.is_some() {
            self.note_wait(core, now);
        }
        self.resting = self.drained() && self.refused.is_none();
        // A write lifts the burst limit and may complete a partial packet.
        let whole = self.queue.bytes() + u64::from(self.header()) >= u64::from(self.fragment);
        // With fixed paths, a write to another stream may find room.
        let fixed = core.config.stream_paths == StreamPaths::Fixed;
        let settled = whole && !fixed && core.paths.iter().all(|path| path.burst_left > 0);
        self.waits = len.filter(|_| settled).map(|len| (now, len));
    }

    /// Records the decision to wait and its reason, if it has changed.
    fn note_wait(&mut self, core: &mut Core, now: Time) {
        let (Some(message), false) = (self.queue.peek(), self.held_back(core)) else { return };
        let offset = message.offset;
        let reason = if self.next_len().is_some_and(|len| u64::from(len) > self.window()) {
            DecisionReason::ReceiveWindow
        } else if core
            .paths
            .iter()
            .any(|path| !matches!(path.blocked, None | Some(Blocking::CongestionWindow)))
        {
            DecisionReason::BufferShare
        } else {
            DecisionReason::NoRoom
        };
        if let Some(decisions) = &mut core.decisions
            && self.waiting != Some(reason)
        {
            self.waiting = Some(reason);
            decisions.push_back(SchedulingDecision { at: now, path: None, offset, len: 0, reason });
        }
    }

    /// The cause that keeps new data from being sent on a path. `next` is the length of the next fragment or of the
    /// refused write.
    pub fn blocking(
        &self,
        core: &Core,
        at: usize,
        (next, shared): (Option<u32>, &Shared),
    ) -> Option<Blocking> {
        let path = &core.paths[at];
        if self.has_lost_chunks(path) || !core.window_admits(path, next.unwrap_or(path.mss)) {
            return (!self.held_back(core)).then_some(Blocking::CongestionWindow);
        }
        let sender = |moving: u64, gap_acknowledged: u64| {
            if gap_acknowledged >= moving { Blocking::Gap } else { Blocking::Transmission }
        };
        let receiver = if self.widest - self.advertised >= self.in_flight() {
            Blocking::Reordering
        } else {
            Blocking::AdvertisedWindow
        };
        let Some(len) = next else {
            let behind = self.sent.totals().gap_acknowledged();
            return Some(sender(self.used() - behind, behind));
        };
        if u64::from(len) > self.window() {
            return Some(receiver);
        }
        if !core.config.cmt {
            return None;
        }
        match core.splitting().judge(path.occupancy(), path.mss, shared) {
            SendPermission::Admitted => None,
            SendPermission::SendBufferShare => Some(sender(
                path.totals.in_flight(),
                path.totals.buffered().saturating_sub(path.totals.in_flight()),
            )),
            SendPermission::ReceiveBufferShare => Some(receiver),
        }
    }
}
