//! Segment arrival (RFC 9293 §3.10.7, with RFC 5961's stricter checks and RFC 7323's timestamps).

use super::Recovery;
use super::phase::{AckEffects, RecoveryPhase};
use super::tcb::{Context, Fin, State, Tcb};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Reason;
use anabranch_endpoint::limits::Limit;
use anabranch_multipath::congestion::{Ack, Loss, LossKind};
use anabranch_wire::Ecn;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment, Timestamps};
use core::net::SocketAddr;

/// Minimum interval between challenge ACKs (Linux's choice for RFC 5961 §7).
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

/// Age up to which the peer's last timestamp can be compared. After 24 days a clock of milliseconds has passed half
/// of its range (RFC 7323 §5.5).
const TIMESTAMP_VALIDITY: Duration = Duration::from_secs(24 * 86_400);

/// Retransmission timeout for the first data if the SYN or SYN/ACK timed out (RFC 6298 §5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Largest window scale shift (RFC 7323 §2.3).
const MAX_SHIFT: u8 = 14;

/// Smallest shift with which a buffer of `bytes` can be advertised.
pub fn window_shift(bytes: u64) -> u8 {
    (0..MAX_SHIFT).find(|&shift| u16::try_from(bytes >> shift).is_ok()).unwrap_or(MAX_SHIFT)
}

impl Tcb {
    /// Processes a segment from `from`. Returns false if the segment is outside the window or acknowledges unsent
    /// data; the owner then ignores its options too.
    pub fn on_segment(
        &mut self,
        context: &mut Context<'_>,
        (from, ecn): (SocketAddr, Ecn),
        segment: &Segment,
    ) -> bool {
        self.receiver.forget_kept();
        match self.state {
            State::Closed(_) => self.refuse(segment),
            State::Listen => self.on_listen(context.now, from, segment),
            State::SynSent => self.on_syn_sent(context, segment),
            _ => return self.on_synchronised(context, ecn, segment),
        }
        true
    }

    /// Refuses data from now on: the application has closed, and an RST shows the peer that its data is lost (RFC 9293
    /// §3.6.1).
    pub fn refuse_data(&mut self) {
        self.receiver.refuses = true;
    }

    /// Resets the sender of a segment for a connection that does not exist (RFC 9293 §3.5.2).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        self.reset = Some(if segment.flags.contains(Flags::ACK) {
            (segment.ack, None)
        } else {
            (Serial(0), Some(segment.seq.add(segment.sequence_len())))
        });
    }

    fn on_listen(&mut self, now: Time, from: SocketAddr, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        self.remote = from;
        if segment.flags.contains(Flags::ACK) || !segment.flags.contains(Flags::SYN) {
            self.refuse(segment);
            return;
        }
        self.learn(now, segment, false);
        self.state = State::SynReceived;
        self.syn_due = true;
    }

    fn on_syn_sent(&mut self, context: &mut Context<'_>, segment: &Segment) {
        let acks = segment.flags.contains(Flags::ACK);
        if acks && segment.ack != self.first {
            self.refuse(segment);
            return;
        }
        if segment.flags.contains(Flags::RST) {
            if acks {
                self.end(Reason::Refused);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.learn(context.now, segment, true);
        if acks {
            self.establish(context, segment);
            self.receiver.ack_now();
        } else {
            // Simultaneous open (RFC 9293 §3.5, figure 7).
            self.state = State::SynReceived;
            self.syn_due = true;
        }
    }

    /// Records the peer's initial sequence number and options from its SYN or SYN/ACK. `offered` means that this end
    /// offers the options, too.
    fn learn(&mut self, now: Time, segment: &Segment, offered: bool) {
        let options = &segment.options;
        self.receiver.first = segment.seq.add(1);
        self.agreed.timestamps = self.config.timestamps && options.timestamps.is_some();
        self.agreed.sack = self.config.sack && options.sack_permitted;
        self.rack.enable(self.config.recovery == Recovery::Rack && self.agreed.sack);
        if let Some(shift) = options.window_scale {
            self.agreed.scaling = true;
            self.agreed.send_shift = shift.min(MAX_SHIFT);
            self.agreed.receive_shift = window_shift(self.config.receive_buffer);
        }
        let both = Flags::ECE | Flags::CWR;
        let setup =
            if offered { segment.flags.0 & both.0 == Flags::ECE.0 } else { segment.flags.contains(both) };
        self.agreed.ecn = self.config.ecn && setup;
        if let Some(Timestamps { value, .. }) = options.timestamps {
            (self.clock.recent, self.clock.recent_at) = (value, now);
        }
        self.receiver.set_full_size(self.interface_mtu.saturating_sub(self.header()));
        // RFC 9293 §3.7.1: without the option 536 bytes (1220 over IPv6) are assumed.
        let assumed = if self.local.is_ipv4() { 536 } else { 1220 };
        self.peer_mss = u32::from(options.mss.unwrap_or(assumed)).max(64);
        self.update_mss();
        self.peer.bytes = u64::from(segment.window);
        self.peer.max = self.peer.bytes;
    }

    /// Completes the handshake at this end.
    fn establish(&mut self, context: &mut Context<'_>, segment: &Segment) {
        if let Some(sent) = self.syn_sent_at.take() {
            self.rtt.sample(context.now.since(sent));
        } else if self.attempts > 0 {
            self.rtt.raise_initial(RTO_AFTER_LOST_SYN);
        }
        context.congestion.add_path(self.path, self.path_setup());
        self.start_rate(context);
        self.attempts = 0;
        self.rtt.reset_backoff();
        self.timers.retransmit = None;
        self.syn_due = false;
        self.state = State::Established;
        self.note_alive(context.now);
        self.timers.keepalive = self.config.keepalive.map(|interval| context.now + interval);
        self.peer.set_by = (0, 0);
        let shift = if segment.flags.contains(Flags::SYN) { 0 } else { self.agreed.send_shift };
        self.peer.bytes = u64::from(segment.window) << shift;
        self.peer.max = self.peer.bytes;
        self.last_sent = context.now;
    }

    fn on_synchronised(&mut self, context: &mut Context<'_>, ecn: Ecn, segment: &Segment) -> bool {
        let start = self.receiver.position(segment.seq);
        if self.is_stale(context.now, segment) || !self.is_acceptable(start, segment) {
            self.answer_unacceptable(context, start, segment);
            return false;
        }
        self.note_alive(context.now);
        if segment.flags.contains(Flags::RST) {
            if start == self.receiver.nxt {
                let refused = self.state == State::SynReceived;
                self.end(if refused { Reason::Refused } else { Reason::Reset });
                return true;
            }
            self.challenge(context.now);
            return false;
        }
        if segment.flags.contains(Flags::SYN) {
            self.challenge(context.now);
            return false;
        }
        if !segment.flags.contains(Flags::ACK) {
            return false;
        }
        if let Some(Timestamps { value, .. }) = segment.options.timestamps
            && self.agreed.timestamps
            && start <= self.clock.last_ack
        {
            (self.clock.recent, self.clock.recent_at) = (value, context.now);
        }
        if !self.process_ack(context, start, segment) {
            return false;
        }
        let len = u64::from(segment.payload.len);
        if self.receiver.refuses && len > 0 && start + len > self.receiver.nxt {
            // The peer accepts this RST, since the number is the one that it expects (RFC 5961 §3.2).
            self.refuse(segment);
            self.end(Reason::Aborted);
            return true;
        }
        self.process_payload(context, (start, ecn), segment);
        true
    }

    /// Returns true if PAWS rejects the segment (RFC 7323 §5). After a long silence no timestamp is rejected, because
    /// the peer's clock may have passed half of its range (§5.5).
    fn is_stale(&self, now: Time, segment: &Segment) -> bool {
        self.agreed.timestamps
            && now.since(self.clock.recent_at) < TIMESTAMP_VALIDITY
            && !segment.flags.contains(Flags::RST)
            && segment.options.timestamps.is_some_and(|t| Serial(t.value).before(Serial(self.clock.recent)))
    }

    /// Right edge of the acceptable positions.
    fn edge(&self) -> u64 {
        // The window limits the connection's data. Bytes of a subflow may exceed it by reinjected data, so they have
        // a higher limit.
        if self.shared_window {
            self.receiver.nxt + 4 * self.config.receive_buffer + (1 << 16)
        } else {
            self.receiver.edge.max(self.receiver.nxt)
        }
    }

    /// The four cases of the acceptability test (RFC 9293 §3.4). A position before the first data byte has wrapped to
    /// a huge number.
    fn is_acceptable(&self, start: u64, segment: &Segment) -> bool {
        let (nxt, edge) = (self.receiver.nxt as i64, self.edge() as i64);
        let start = start as i64;
        match i64::from(segment.sequence_len()) {
            // A segment at the right edge is accepted, although RFC 9293 §3.10.7.4 rejects it. An end that
            // has filled the window sends its acknowledgements from there. If both ends have filled the
            // window, neither would otherwise process acknowledgements of the other.
            0 => start == nxt || (nxt < start && start <= edge),
            // A segment that begins before the first data byte contains no data of this connection.
            len => start >= 0 && start + len > nxt && (start < edge || start == nxt),
        }
    }

    fn answer_unacceptable(&mut self, context: &mut Context<'_>, start: u64, segment: &Segment) {
        if segment.flags.contains(Flags::RST) {
            return;
        }
        if self.state == State::SynReceived && segment.flags.contains(Flags::SYN) {
            if segment.flags.contains(Flags::ACK) && segment.ack == self.first {
                self.establish(context, segment); // simultaneous open: this segment answers the SYN
                self.receiver.ack_now();
            } else {
                self.syn_due = true; // the SYN/ACK was lost
            }
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            self.challenge(context.now);
            return;
        }
        if self.state == State::TimeWait && segment.flags.contains(Flags::FIN) {
            self.enter_time_wait(context.now);
        }
        let end = start.wrapping_add(u64::from(segment.payload.len));
        if segment.payload.len > 0 && end <= self.receiver.nxt && start <= end {
            // A duplicate is reported by D-SACK (RFC 2883).
            let limit = self.edge();
            self.counters.bytes_received += u64::from(segment.payload.len);
            self.receiver.store(context.now, &self.config, segment, (start, limit));
        } else if segment.sequence_len() > 0 || start.wrapping_add(1) == self.receiver.nxt {
            self.receiver.ack_now(); // beyond the window, or a probe
        } else {
            self.challenge(context.now);
        }
    }

    /// Sends a challenge ACK (RFC 5961), at most one per `CHALLENGE_INTERVAL` (§7).
    fn challenge(&mut self, now: Time) {
        if now >= self.timers.challenge_from {
            self.timers.challenge_from = now + CHALLENGE_INTERVAL;
            self.receiver.ack_now();
        }
    }

    /// Processes acknowledgement, SACK and window. Returns false if the segment must be dropped.
    fn process_ack(&mut self, context: &mut Context<'_>, start: u64, segment: &Segment) -> bool {
        let ack = self.send_position(segment.ack);
        if self.state == State::SynReceived {
            if ack > self.nxt {
                self.refuse(segment);
                return false;
            }
            let closing = self.fin != Fin::NotYet;
            self.establish(context, segment);
            if closing {
                self.state = State::FinWait1;
            }
        }
        if ack as i64 > self.nxt as i64 {
            self.challenge(context.now);
            return false;
        }
        if (ack as i64) < self.una as i64 - self.peer.max as i64 {
            self.challenge(context.now);
            return false;
        }
        let una = self.una;
        if ack as i64 >= self.una as i64 {
            let window_before = self.peer.bytes;
            self.update_window(context.now, (start, ack), segment);
            let window_changed = self.peer.bytes != window_before;
            self.acknowledge(context, (ack, window_changed), segment);
        } else {
            self.take_late_sack(context, ack, segment);
        }
        if !self.config.ecn {
            return true;
        }
        self.process_echo(context, una, segment);
        true
    }

    /// Position of an acknowledgement number in the stream; a number before the first data byte gives a position that
    /// has wrapped below zero.
    pub(super) fn send_position(&self, ack: Serial) -> u64 {
        ack.distance_from(self.first, self.una)
    }

    fn update_window(&mut self, now: Time, (start, ack): (u64, u64), segment: &Segment) {
        let (set_start, set_ack) = self.peer.set_by;
        // A segment with a higher acknowledgement number is newer, even if its sequence number is lower. The window
        // counts from the acknowledgement number.
        if ack > self.una || start > set_start || (start == set_start && ack >= set_ack) {
            let opens = self.peer.bytes == 0 && segment.window > 0;
            self.peer.bytes = u64::from(segment.window) << self.agreed.send_shift;
            if opens && !self.board.is_empty() {
                // Timeouts of retransmissions into a closed window do not indicate a failed path.
                self.attempts = 0;
                self.rtt.reset_backoff();
                self.timers.retransmit = Some(now + self.rtt.rto());
            }
            if self.peer.bytes == 0 && self.timers.user.is_some() {
                self.restart_user_timer(now);
            }
            self.peer.max = self.peer.max.max(self.peer.bytes);
            self.peer.set_by = (start, ack);
            if self.peer.bytes > 0 && self.timers.persist.is_some() {
                self.timers.persist = None;
                self.rtt.reset_backoff();
            }
        }
    }

    fn acknowledge(
        &mut self,
        context: &mut Context<'_>,
        (ack, window_changed): (u64, bool),
        segment: &Segment,
    ) {
        let una = self.una;
        if ack == una && self.expects_nothing() && segment.options.sack.is_empty() {
            return;
        }
        let flight = self.nxt - una;
        let limited = self.used.was_full(una);
        let reorders = self.rack.reordering;
        let mut effects = AckEffects { acked: ack - una, ..AckEffects::default() };
        if effects.acked > 0 {
            let acked = self.board.acknowledge(ack);
            self.una = ack;
            if let Some(rate) = &mut self.rate {
                rate.delivered(context.now, 0..ack);
            }
            effects.delivered += acked.delivered;
            effects.original = acked.original;
            self.rack.note_order(acked.original);
            // RFC 8985 §6.2 step 2: an echo from before the retransmission shows that the original has arrived.
            let original = |sent| self.echoes_before(segment.options.timestamps, sent);
            if let Some(latest) = acked.latest.filter(|&(sent, _, again)| !(again && original(sent))) {
                self.rack.delivered(context.now, latest, &self.rtt);
            }
            let fin_acked = self.fin == Fin::Sent && ack == self.nxt;
            let data = effects.acked - u64::from(fin_acked);
            self.counters.bytes_acked += data;
            self.sample_rtt(context, flight, (acked.oldest, segment.options.timestamps));
            self.take_sack(context, (ack, segment), &mut effects);
            if let Some(last) = acked
                .last
                .filter(|&(sent, again)| !(again && self.echoes_before(segment.options.timestamps, sent)))
            {
                self.rack.sample(context.now, last, &self.rtt);
            }
            if self.tells_delays
                && data > 0
                && let Some(sent) = acked.newest
            {
                self.tell_delay(context, sent, segment.options.timestamps);
            }
            context.congestion.on_ack(&Ack {
                now: context.now,
                path: self.path,
                acked: if reorders { data } else { self.growth(data, effects.delivered) },
                rtt: acked.newest.map(|sent| context.now.since(sent)),
                srtt: self.rtt.srtt(),
                cwnd_limited: limited || self.used_half_in_slow_start(context, una),
            });
            self.attempts = 0;
            self.unreachable = false;
            self.duplicates = 0;
            if fin_acked {
                self.on_fin_acknowledged(context);
            }
        } else {
            self.take_sack(context, (ack, segment), &mut effects);
            let bare = segment.payload.is_empty() && !segment.flags.intersects(Flags::FIN);
            // A duplicate acknowledgement by RFC 5681 §2, or with SACK one that reports new data (RFC 6675 §2).
            let duplicate = if self.agreed.sack { effects.delivered > 0 } else { bare && !window_changed };
            if duplicate && !self.board.is_empty() {
                self.duplicates += 1;
            }
        }
        self.apply(context, &effects, (segment.options.timestamps, limited));
    }

    /// Applies the effects of an acknowledgement to loss recovery, rate samples and timers. `limited` means that the
    /// acknowledged data had filled the window.
    pub(super) fn apply(
        &mut self,
        context: &mut Context<'_>,
        effects: &AckEffects,
        (timestamps, limited): (Option<Timestamps>, bool),
    ) {
        self.detect_spurious(context, effects, timestamps);
        if effects.delivered > 0 {
            self.limiting.delivered += effects.delivered;
            self.limiting.peak.update(context.now, self.limiting.delivered, self.rtt.srtt());
        }
        self.detect_loss(context, effects);
        self.tell_rate(context, limited);
        if effects.acked > 0 {
            self.timers.user = None;
            if !self.board.is_empty() {
                self.restart_user_timer(context.now);
            }
            self.timers.retransmit =
                if self.board.is_empty() { None } else { Some(context.now + self.rtt.rto()) };
        }
        if self.config.recovery == Recovery::Rack {
            self.schedule_tail_probe(context);
        }
    }

    /// Number of `data` newly acknowledged bytes that may open the window, of which `delivered` were not reported before.
    ///
    /// A SACK or a duplicate acknowledgement that reported data opened no window, and the cumulative acknowledgement of
    /// this data opens none either (RFC 5681 §3.1: previously unacknowledged data; Linux: `tcp_newly_delivered`).
    /// Otherwise one late segment would open the window by all data behind it, in one burst. All data counts in recovery,
    /// where the window does not grow, or by one packet at most (RFC 3465 §2.3), and a control may estimate a rate. The
    /// caller counts all data on a path that is known to reorder, as otherwise its window would grow slower. Without SACK
    /// nothing shows that a path reorders, and its window does grow slower.
    fn growth(&self, data: u64, delivered: u64) -> u64 {
        if self.is_recovering() {
            return data;
        }
        if self.agreed.sack {
            return data.min(delivered);
        }
        let (mss, reported) = (u64::from(self.mss), u64::from(self.duplicates) * u64::from(self.mss));
        data.saturating_sub(reported).max(data.min(mss))
    }

    /// Returns true if the window is in slow start, more than half of it was outstanding with the data at `una`, and only
    /// the application limits the sender. A window that a receive window, a send buffer or a scheduler leaves unused does
    /// not grow: on a subflow it would only delay the data for which the other subflows wait.
    fn used_half_in_slow_start(&self, context: &Context<'_>, una: u64) -> bool {
        if self.limiting.clock.current() != Some(Limit::Application) {
            return false;
        }
        let window = context.congestion.window(self.path);
        window < context.congestion.ssthresh(self.path) && self.used.exceeded_half(una, window)
    }

    /// Returns true if nothing is in flight or marked lost. An acknowledgement without effects then only accompanies
    /// data of the peer and is no duplicate.
    fn expects_nothing(&self) -> bool {
        self.board.is_empty()
            && self.phase == RecoveryPhase::Open
            && self.suspect.is_none()
            && self.rate.is_none()
            && self.rack.probe.is_none()
    }

    /// Takes a sample of the round-trip time from an acknowledgement; `flight` is the number of bytes outstanding
    /// before it.
    fn sample_rtt(
        &mut self,
        context: &Context<'_>,
        flight: u64,
        (sent, timestamps): (Option<Time>, Option<Timestamps>),
    ) {
        // RFC 7323 appendix G: the number of samples expected per round trip, with an acknowledgement for every
        // second segment.
        let expected = flight.div_ceil(2 * u64::from(self.mss));
        if let Some(sent) = sent {
            self.rtt.sample_of(context.now.since(sent), expected);
        } else if let Some(Timestamps { echo, .. }) = timestamps
            && self.agreed.timestamps
            && echo != 0
        {
            // The echo identifies the transmission that was acknowledged (RFC 7323 §4), at the resolution of its
            // clock.
            let elapsed = self.clock_value(context.now).wrapping_sub(echo).max(1);
            if elapsed < 1 << 20 {
                self.rtt.sample_of(Duration::from_millis(u64::from(elapsed)), expected);
            }
        }
    }

    fn on_fin_acknowledged(&mut self, context: &mut Context<'_>) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(context.now),
            State::LastAck => self.end(Reason::Closed),
            _ => {}
        }
    }

    /// Reacts to ECN echoes with one window reduction per window of data (RFC 3168 §6.1.2); `una` is the acknowledged
    /// position before the segment.
    fn process_echo(&mut self, context: &mut Context<'_>, una: u64, segment: &Segment) {
        if !self.agreed.ecn || !segment.flags.contains(Flags::ECE) || self.una <= self.ecn.reduced_until {
            return;
        }
        self.ecn.reduced_until = self.nxt;
        if self.is_recovering() {
            return;
        }
        self.ecn.reduced = true;
        self.counters.ecn_reductions += 1;
        self.window_changed();
        let in_flight = self.window_used(context, una);
        context.congestion.on_loss(&Loss {
            now: context.now,
            path: self.path,
            kind: LossKind::Ecn,
            in_flight,
        });
    }

    fn process_payload(&mut self, context: &mut Context<'_>, (start, ecn): (u64, Ecn), segment: &Segment) {
        if self.agreed.ecn {
            if segment.flags.contains(Flags::CWR) {
                self.ecn.echo = false;
            }
            if ecn == Ecn::Ce {
                self.ecn.echo = true;
                self.receiver.ack_now();
            }
        }
        if segment.payload.is_empty() && !segment.flags.contains(Flags::FIN) {
            return;
        }
        if let Some(Timestamps { echo, .. }) = segment.options.timestamps
            && self.config.receive_autotuning
            && self.agreed.timestamps
        {
            self.clock.age.seen(echo, self.clock_value(context.now));
        }
        let finished_before = self.receiver.finished();
        let limit = self.edge();
        self.counters.bytes_received += u64::from(segment.payload.len);
        self.new += self.receiver.store(context.now, &self.config, segment, (start, limit));
        if self.receiver.finished() && !finished_before {
            self.new -= 1; // the FIN is no data byte
            self.receiver.ack_now();
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.enter_time_wait(context.now),
                _ => {}
            }
        }
    }
}
