//! Output of a block in order of urgency: resets and handshake, retransmissions, new data, and the rest (FIN, probes,
//! bare acknowledgements).

use super::input::window_shift;
use super::phase::RecoveryPhase;
use super::scoreboard::SegmentState;
use super::tcb::{Context, Fin, State, Tcb};
use anabranch_base::time::Time;
use anabranch_multipath::congestion::Idle;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload};

/// Bytes of the timestamps option with its padding.
const TIMESTAMPS_LEN: u32 = 12;
/// Limit of option bytes in a TCP header (RFC 9293 §3.1).
const MAX_OPTION_BYTES: u32 = 40;

impl Tcb {
    /// True if [`poll_urgent`](Self::poll_urgent) may have something to send.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        let held = matches!(self.phase, RecoveryPhase::Open) || self.holds_for_new_data();
        let retransmits = !held && self.board.waiting() > 0;
        self.reset.is_some() || self.syn_due || retransmits
    }

    /// Returns resets, handshake segments and retransmissions, which precede new data.
    pub fn poll_urgent(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        if let Some((seq, ack)) = self.reset.take() {
            return Some(self.reset_segment(context.now, seq, ack));
        }
        if self.syn_due {
            self.syn_due = false;
            return Some(self.syn_segment(context));
        }
        if !self.has_urgent() {
            return None;
        }
        let index = self.board.next_lost()?;
        let len = u64::from(self.board.get(index).len);
        if !self.force && (self.board.pipe() + len > self.allowed(context) || self.is_paced_out(context)) {
            return None;
        }
        Some(self.retransmit(context, index))
    }

    /// Number of new bytes that the congestion window and the peer's window permit now.
    pub fn sendable(&mut self, context: &mut Context<'_>) -> u64 {
        if !self.is_synchronised() || self.fin == Fin::Sent || self.is_over() {
            return 0;
        }
        self.restart_if_idle(context);
        let mut room = self.allowed(context).saturating_sub(self.board.pipe());
        self.limiting.spare = room;
        if !self.shared_window {
            room = room.min(self.peer_room());
        }
        self.limiting.paced = room > 0 && self.is_paced_out(context);
        if self.limiting.paced { 0 } else { room }
    }

    /// Time of the last transmission of the segment at this position; `None` once it is acknowledged.
    pub fn sent_at(&self, position: u64) -> Option<Time> {
        self.board.sent_at(position)
    }

    /// Bytes beyond the sent data that the peer's window permits.
    pub(super) fn peer_room(&self) -> u64 {
        (self.una + self.peer.bytes).saturating_sub(self.nxt)
    }

    /// Resets the congestion window after idle time (RFC 5681 §4.1).
    fn restart_if_idle(&mut self, context: &mut Context<'_>) {
        let (now, path) = (context.now, self.path);
        if self.board.is_empty()
            && let Some(timeouts) = self.rtt.timeouts_in(now.since(self.last_sent))
        {
            self.last_sent = now;
            context.congestion.on_idle(&Idle { now, path, timeouts });
            self.window_changed();
        }
    }

    /// Number of the `available` new bytes for the next segment; zero means to wait. Sender-side silly window
    /// avoidance (RFC 9293 §3.8.6.2.1) and Nagle's algorithm (RFC 9293 §3.7.4) hold back small segments.
    pub fn next_len(&mut self, context: &mut Context<'_>, available: u64) -> u32 {
        if available == 0 {
            return 0;
        }
        let wanted = available.min(u64::from(self.mss));
        let mut room = self.sendable(context);
        let peer_room = self.peer_room();
        if room == 0 && self.rate.as_ref().is_some_and(|rate| rate.deadline().is_some()) && !self.probe_due {
            return 0; // the pacer holds the packet back
        }
        if room < wanted && self.tail_probe_due() && peer_room >= wanted {
            room = wanted;
        }
        if room >= wanted && (wanted == u64::from(self.mss) || self.small_may_leave(wanted, available)) {
            return wanted as u32;
        }
        if peer_room >= wanted {
            return 0; // held back by the window or Nagle, until an acknowledgement arrives
        }
        // The peer's window shortens the segment.
        let half = self.peer.max / 2;
        if peer_room > 0 && room >= peer_room && (peer_room >= half || self.probe_due) {
            self.probe_due = false;
            return peer_room as u32;
        }
        if self.board.is_empty() && self.timers.persist.is_none() && !self.probe_due {
            self.timers.persist = Some(context.now + self.rtt.rto());
            self.start_user_timer(context.now);
        }
        0
    }

    fn small_may_leave(&self, wanted: u64, available: u64) -> bool {
        wanted == available && (!self.config.nagle || self.board.is_empty() || self.fin == Fin::Wanted)
    }

    /// Sends `len` new bytes; `last` means that no further data waits. The payload's offset is the position in this
    /// block's byte stream.
    pub fn send(&mut self, context: &mut Context<'_>, len: u32, last: bool) -> Packet {
        let fin = last && self.fin == Fin::Wanted;
        let start = self.nxt;
        let mut packet = self.base(context, start, len);
        packet.ecn = if self.agreed.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let segment = segment_of(&mut packet);
        segment.payload = Payload::new(start, len);
        if last {
            segment.flags |= Flags::PSH;
        }
        if fin {
            segment.flags |= Flags::FIN;
            self.fin = Fin::Sent;
        }
        if self.agreed.ecn && core::mem::take(&mut self.ecn.reduced) {
            segment.flags |= Flags::CWR;
        }
        self.record(context, len + u32::from(fin), fin);
        self.counters.data_packets_sent += u64::from(len > 0);
        self.counters.bytes_sent += u64::from(len);
        if self.tail_probe_due() {
            self.tail_probe_sent(false);
        }
        packet
    }

    /// Records new sequence numbers as sent.
    fn record(&mut self, context: &mut Context<'_>, len: u32, fin: bool) {
        self.board.push(self.nxt, len, fin, context.now);
        self.rate_sent(context, (self.nxt, len), false);
        self.rack.sent(context.now, self.nxt);
        self.nxt += u64::from(len);
        self.last_sent = context.now;
        self.used.note_outstanding(self.una, self.nxt);
        self.note_full_window(context, self.nxt);
        if matches!(self.phase, RecoveryPhase::Recovery { .. }) {
            self.prr.sent(u64::from(len));
        }
        if self.timers.retransmit.is_none() {
            self.timers.retransmit = Some(context.now + self.rtt.rto());
        }
        self.start_user_timer(context.now);
        self.schedule_tail_probe(context);
    }

    /// Records that data below `end` was sent in a window without room for another segment. Its acknowledgement then opens
    /// the window (RFC 5681 §3.1).
    fn note_full_window(&mut self, context: &Context<'_>, end: u64) {
        if !self.used.was_full(end - 1) && self.board.pipe() + u64::from(self.mss) > self.allowed(context) {
            self.used.note_full(end);
        }
    }

    /// True if [`poll_rest`](Self::poll_rest) may have something to send.
    #[inline]
    pub fn has_rest(&self, idle: bool) -> bool {
        let once_idle = self.fin == Fin::Wanted || matches!(self.phase, RecoveryPhase::Recovery { .. });
        let at_once = self.probe_due || self.receiver.wants_ack() || self.holds_for_new_data();
        self.is_synchronised() && (at_once || (idle && once_idle))
    }

    /// Returns the segments that follow urgent ones and data: probes, FIN, rescue retransmissions, and a bare
    /// acknowledgement. `idle` means that the owner has no new data.
    pub fn poll_rest(&mut self, context: &mut Context<'_>, idle: bool) -> Option<Packet> {
        if !self.has_rest(idle) {
            return None;
        }
        if self.tail_probe_due() {
            if let Some(index) = self.board.last_unsacked() {
                let packet = self.retransmit(context, index);
                self.tail_probe_sent(true);
                return Some(packet);
            }
            self.probe_due = false;
        }
        if idle && self.fin == Fin::Wanted {
            self.fin = Fin::Sent;
            let mut packet = self.base(context, self.nxt, 0);
            segment_of(&mut packet).flags |= Flags::FIN;
            self.record(context, 1, true);
            return Some(packet);
        }
        if self.ends_frto_without_data()
            && let Some(packet) = self.poll_urgent(context)
        {
            return Some(packet);
        }
        if idle && let Some(index) = self.next_rescue(context) {
            return Some(self.retransmit(context, index));
        }
        if self.probe_due {
            // The probe lies before the window and is unacceptable for that reason, so that the peer must answer (RFC
            // 9293 §3.8.6.1).
            self.probe_due = false;
            self.counters.probes += 1;
            let at = self.una.wrapping_sub(1);
            return Some(self.base(context, at, 0));
        }
        if self.receiver.wants_ack() {
            return Some(self.base(context, self.nxt, 0));
        }
        None
    }

    /// Returns a bare acknowledgement, if one is due now.
    pub fn poll_ack(&mut self, context: &mut Context<'_>) -> Option<Packet> {
        (self.is_synchronised() && self.receiver.wants_ack()).then(|| self.base(context, self.nxt, 0))
    }

    /// Rules 3 and 4 of RFC 6675 `NextSeg`, for a sender without new data that could cause acknowledgements.
    fn next_rescue(&mut self, context: &Context<'_>) -> Option<usize> {
        let RecoveryPhase::Recovery { until, rescued } = self.phase else { return None };
        if !self.agreed.sack
            || self.board.pipe() + u64::from(self.mss) > self.allowed(context)
            || self.is_paced_out(context)
        {
            return None;
        }
        if let Some(index) = self.board.next_doubtful() {
            return Some(index);
        }
        if rescued {
            return None;
        }
        self.phase = RecoveryPhase::Recovery { until, rescued: true };
        let not_again = |&index: &usize| {
            matches!(self.board.get(index).state, SegmentState::InFlight | SegmentState::Lost)
        };
        self.board.last_unsacked().filter(not_again)
    }

    fn retransmit(&mut self, context: &mut Context<'_>, index: usize) -> Packet {
        self.force = false;
        self.board.retransmitted(index, context.now);
        let sent = *self.board.get(index);
        if matches!(self.phase, RecoveryPhase::Loss { .. }) {
            self.note_full_window(context, sent.start + u64::from(sent.len));
        }
        self.rate_sent(context, (sent.start, sent.len), true);
        self.rack.sent(context.now, sent.start);
        self.suspect_retransmitted(context, sent.start, sent.len);
        let len = sent.len - u32::from(sent.fin);
        let mut packet = self.base(context, sent.start, len);
        let segment = segment_of(&mut packet);
        segment.payload = Payload::new(sent.start, len);
        segment.flags |= if sent.fin { Flags::FIN } else { Flags::PSH };
        // A bare FIN carries no data.
        let data = u64::from(len > 0);
        self.counters.data_packets_sent += data;
        self.counters.bytes_sent += u64::from(len);
        self.counters.bytes_retransmitted += u64::from(len);
        match self.phase {
            RecoveryPhase::Loss { .. } => self.counters.timeout_retransmissions += data,
            _ => self.counters.fast_retransmissions += data,
        }
        if matches!(self.phase, RecoveryPhase::Recovery { .. }) {
            self.prr.sent(u64::from(sent.len));
        }
        // RFC 6298 §5.1: the timer runs while data is outstanding.
        if self.timers.retransmit.is_none() || sent.start == self.una {
            self.timers.retransmit = Some(context.now + self.rtt.rto());
        }
        self.last_sent = context.now;
        packet
    }

    /// Value of the timestamp clock, in milliseconds.
    pub(super) fn clock_value(&self, now: Time) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.clock.offset)
    }

    /// A segment at `position` with acknowledgement, window and timestamps. SACK blocks fill the space that `payload`
    /// bytes and the owner's options leave.
    fn base(&mut self, context: &Context<'_>, position: u64, payload: u32) -> Packet {
        let mut packet = self.header_only_packet(self.first.add(position as u32), Flags::ACK);
        let segment = segment_of(&mut packet);
        segment.ack = self.receiver.ack();
        segment.window = self.advertise(context.receive_window);
        if self.ecn.echo {
            segment.flags |= Flags::ECE;
        }
        let mut taken = if payload > 0 { self.reserved.0 } else { self.reserved.1 };
        if self.agreed.timestamps {
            segment.options.timestamps =
                Some(Timestamps { value: self.clock_value(context.now), echo: self.clock.recent });
            taken += TIMESTAMPS_LEN;
        }
        if self.agreed.sack && self.receiver.has_blocks() {
            let limit = self.mtu.saturating_sub(self.header()).min(self.peer_mss);
            let free = limit.saturating_sub(payload + self.ip_options);
            let space = MAX_OPTION_BYTES.min(free).saturating_sub(taken);
            // A block has eight bytes, in addition to kind, length and two bytes of padding. Without payload, the
            // padding is omitted if that makes room for one more block.
            let spare = if payload > 0 { 0 } else { 2 * (1 + u32::from(self.agreed.timestamps)) };
            segment.options.sack =
                self.receiver.sack_blocks(((space + spare).saturating_sub(4) / 8) as usize);
        }
        self.clock.last_ack = self.receiver.nxt;
        let advertised = u64::from(segment.window) << self.agreed.receive_shift;
        self.receiver.acknowledged(self.receiver.nxt + advertised);
        self.counters.packets_sent += 1;
        packet
    }

    /// Value of the window field. The right edge never moves back, and moves forward in useful steps only (RFC 9293
    /// §3.8.6.2.2).
    fn advertise(&mut self, receive_window: u64) -> u16 {
        let mut window = receive_window;
        if !self.shared_window {
            let standing = self.receiver.edge.saturating_sub(self.receiver.nxt);
            let step = u64::from(self.peer_mss).min(self.config.receive_buffer / 2);
            if window < standing + step {
                window = standing;
            }
        }
        window_field(window, self.agreed.receive_shift)
    }

    fn syn_segment(&mut self, context: &Context<'_>) -> Packet {
        let answer = self.state == State::SynReceived;
        let mut packet = self.header_only_packet(self.first.sub(1), Flags::SYN);
        let segment = segment_of(&mut packet);
        segment.window = context.receive_window.min(u64::from(u16::MAX)) as u16;
        let options = &mut segment.options;
        let own = self.interface_mtu.saturating_sub(if self.local.is_ipv4() { 40 } else { 60 });
        options.mss = Some(own.min(u32::from(u16::MAX)) as u16);
        options.sack_permitted = if answer { self.agreed.sack } else { self.config.sack };
        let shift = window_shift(self.config.receive_buffer);
        options.window_scale = (!answer || self.agreed.scaling).then_some(shift);
        if if answer { self.agreed.timestamps } else { self.config.timestamps } {
            let echo = if answer { self.clock.recent } else { 0 };
            options.timestamps = Some(Timestamps { value: self.clock_value(context.now), echo });
        }
        if answer {
            segment.flags |= Flags::ACK;
            segment.ack = self.receiver.ack();
            if self.agreed.ecn {
                segment.flags |= Flags::ECE;
            }
        } else if self.config.ecn {
            segment.flags |= Flags::ECE | Flags::CWR;
        }
        self.receiver.acknowledged(self.receiver.nxt + u64::from(segment.window));
        self.syn_sent_at = (self.syns == 0).then_some(context.now);
        self.syns += 1;
        self.timers.retransmit = Some(context.now + self.syn_timeout());
        self.counters.packets_sent += 1;
        packet
    }

    /// An RST, with timestamps if the handshake agreed on them (RFC 7323 §3.2).
    fn reset_segment(&mut self, now: Time, seq: Serial, ack: Option<Serial>) -> Packet {
        let mut packet = self.header_only_packet(seq, Flags::RST);
        let value = self.clock_value(now);
        let segment = segment_of(&mut packet);
        if let Some(ack) = ack {
            segment.flags |= Flags::ACK;
            segment.ack = ack;
        }
        if self.agreed.timestamps {
            segment.options.timestamps = Some(Timestamps { value, echo: self.clock.recent });
        }
        self.counters.packets_sent += 1;
        packet
    }

    /// Makes a packet with addresses, ports, position and flags. The other fields are filled in place, because
    /// copying a packet that was just written costs more than writing it.
    fn header_only_packet(&self, seq: Serial, flags: Flags) -> Packet {
        let body = Body::Tcp(Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq,
            flags,
            ..Segment::default()
        });
        Packet { source: self.local.ip(), destination: self.remote.ip(), ecn: Ecn::NotEct, body }
    }
}

/// The largest value of the window field that advertises at most `window` bytes.
pub(super) const fn window_field(window: u64, shift: u8) -> u16 {
    let scaled = window >> shift;
    if scaled > u16::MAX as u64 { u16::MAX } else { scaled as u16 }
}

/// The TCP segment of a packet that this module made.
pub(crate) fn segment_of(packet: &mut Packet) -> &mut Segment {
    match &mut packet.body {
        Body::Tcp(segment) => segment,
        _ => unreachable!("TCP makes TCP segments"),
    }
}
