//! An association that is up, and its end: what it does with each chunk, what it sends next, and its timers.

use super::asconf::Reconfiguration;
use super::common::Core;
use super::cookie::{Extensions, Peer};
use super::inbound::{AckPolicy, Inbound, Received};
use super::outbound::{Outbound, Probe};
use super::path::Heartbeat;
use super::reassembly::Fragment;
use super::sack::{SackView, Verdict};
use super::shutdown::Phase;
use crate::endpoint::{Event, Reason};
use core::net::IpAddr;
use multipath::time::{Duration, Time};
use wire::Packet;
use wire::sctp::{self, Abort, Cause, Chunk, Data, DataFlags, IData, NrSack, Sack};
use wire::seq::Serial;

/// The TSNs of an association count from here, so that a distance below the first one is no underflow.
const UNWRAPPED: u64 = 1 << 32;

/// Gap blocks that Linux reports at most, whatever room there is. A SACK with just as many may leave some out.
const MOST_BLOCKS: usize = 16;

/// Where a packet came from and went to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub source_port: u16,
    pub destination_port: u16,
}

/// An association between the handshake and its end.
#[derive(Debug)]
pub(super) struct Open {
    pub local_tag: u32,
    pub peer_tag: u32,
    pub extensions: Extensions,
    pub inbound: Inbound,
    pub outbound: Outbound,
    pub phase: Phase,
    pub asconf: Reconfiguration,
    /// The path that brought data last: acknowledgements go there.
    ack_path: usize,
    /// The addresses of that packet, own one first. The way that data came is the way back, whatever the path is
    /// believed to be worth.
    ack_pair: (IpAddr, IpAddr),
}

impl Open {
    pub fn new(core: &Core, (local_tag, local_tsn): (u32, u32), peer: &Peer) -> Self {
        let policy = AckPolicy {
            delay: core.config.sack_delay,
            every: core.config.sack_every.max(1),
            dac: core.config.dac && core.config.cmt,
            nr_sack: peer.extensions.nr_sack,
        };
        let mtu = core.config.mtu;
        let expected = UNWRAPPED + u64::from(peer.tsn);
        Self {
            local_tag,
            peer_tag: peer.tag,
            extensions: peer.extensions,
            inbound: Inbound::new(expected, peer.inbound, core.config.receive_buffer, mtu, policy),
            outbound: Outbound::new(
                core,
                UNWRAPPED + u64::from(local_tsn),
                peer.outbound,
                u64::from(peer.window),
            ),
            phase: Phase::Established,
            asconf: Reconfiguration::new(Serial(local_tsn), Serial(peer.tsn)),
            ack_path: core.primary,
            ack_pair: (core.paths[core.primary].local.ip(), core.paths[core.primary].remote.ip()),
        }
    }

    /// Takes the chunks of a packet with the right tag; returns why the association has ended, if it has.
    pub fn handle_chunks(
        &mut self,
        core: &mut Core,
        now: Time,
        origin: Origin,
        chunks: impl Iterator<Item = Chunk>,
    ) -> Option<Reason> {
        let at = core.find(origin.destination, origin.source);
        let mut data = false;
        for chunk in chunks {
            let end = match chunk {
                Chunk::Data(chunk) => {
                    data = true;
                    let piece = self.fragment(&chunk);
                    self.handle_data(core, at, &piece)
                }
                Chunk::IData(chunk) => {
                    data = true;
                    let piece = self.interleaved(&chunk);
                    self.handle_data(core, at, &piece)
                }
                Chunk::Sack(sack) => self.handle_sack(core, now, &sack, &[]),
                Chunk::NrSack(sack) => self.handle_sack(core, now, &sack.sack, &sack.nr_gaps),
                other => match self.handle_control(core, now, origin, other) {
                    Step::Next => None,
                    Step::Stop => break,
                    Step::End(reason) => Some(reason),
                },
            };
            if end.is_some() {
                return end;
            }
        }
        if data {
            if let Some(at) = at {
                self.ack_path = at;
                self.ack_pair = (origin.destination, origin.source);
                core.learn_source(at, origin.destination);
            }
            self.inbound.packet_done(now);
            self.answer_data_in_shutdown(core, now);
            if core.inbox.take_fresh() {
                core.events.push_back(Event::Readable);
            }
        }
        self.progress(core, now)
    }

    fn fragment(&self, chunk: &Data) -> Fragment {
        Fragment {
            tsn: self.unwrap(chunk.tsn),
            stream: chunk.stream,
            unordered: chunk.flags.contains(DataFlags::UNORDERED),
            first: chunk.flags.contains(DataFlags::BEGINNING),
            last: chunk.flags.contains(DataFlags::END),
            immediate: chunk.flags.contains(DataFlags::IMMEDIATE),
            message: u32::from(chunk.ssn),
            number: None,
            offset: chunk.payload.offset,
            len: chunk.payload.len,
        }
    }

    fn interleaved(&self, chunk: &IData) -> Fragment {
        Fragment {
            tsn: self.unwrap(chunk.tsn),
            stream: chunk.stream,
            unordered: chunk.flags.contains(DataFlags::UNORDERED),
            first: chunk.flags.contains(DataFlags::BEGINNING),
            last: chunk.flags.contains(DataFlags::END),
            immediate: chunk.flags.contains(DataFlags::IMMEDIATE),
            message: chunk.mid.0,
            number: Some(chunk.fsn()),
            offset: chunk.payload.offset,
            len: chunk.payload.len,
        }
    }

    fn unwrap(&self, tsn: Serial) -> u64 {
        tsn.unwrap_near(self.inbound.cumulative())
    }

    fn handle_data(&mut self, core: &mut Core, at: Option<usize>, piece: &Fragment) -> Option<Reason> {
        if piece.len == 0 {
            return Some(self.refuse(core, Cause::NoUserData { tsn: Serial(piece.tsn as u32) }));
        }
        if piece.number.is_some() != self.extensions.i_data {
            return Some(self.refuse(core, violation("DATA and I-DATA mixed")));
        }
        if !self.phase.takes_data() {
            return None;
        }
        match self.inbound.receive(piece, &mut core.inbox) {
            Err(what) => Some(self.refuse(core, violation(what))),
            Ok(Received::NoSuchStream) => {
                let causes = vec![Cause::InvalidStream { stream: piece.stream }];
                let to = at.unwrap_or_else(|| core.preferred());
                core.send_control(to, self.peer_tag, Chunk::Error(sctp::Error { causes }));
                None
            }
            Ok(received) => {
                if let Some(at) = at {
                    let counters = &mut core.paths[at].counters;
                    counters.bytes_received += u64::from(piece.len);
                    if received == Received::New {
                        counters.bytes_new += u64::from(piece.len);
                    }
                }
                None
            }
        }
    }

    fn handle_sack(
        &mut self,
        core: &mut Core,
        now: Time,
        sack: &Sack,
        kept: &[sctp::GapBlock],
    ) -> Option<Reason> {
        let entries = sack.gaps.len() + kept.len() + sack.duplicates.len();
        let length = NrSack::HEADER_LEN + Sack::ENTRY_LEN * entries as u32;
        let room = core.paths.iter().map(|path| path.room).min().unwrap_or(0);
        let at_end = sack.gaps.last().into_iter().chain(kept.last()).any(|block| block.end == u16::MAX);
        let view = SackView {
            cumulative: sack.cumulative_tsn,
            a_rwnd: Some(sack.a_rwnd),
            packets: sack.flags.packets_answered(),
            renegable: &sack.gaps,
            kept,
            full: length + Sack::ENTRY_LEN > room || at_end || sack.gaps.len() == MOST_BLOCKS,
        };
        core.totals.sacks_received += 1;
        match self.outbound.handle_sack(core, now, &view) {
            Verdict::Taken(_) => None,
            Verdict::Ignored => {
                core.totals.sacks_ignored += 1;
                None
            }
            Verdict::Invalid => Some(self.refuse(core, violation("acknowledgement of TSNs never sent"))),
        }
    }

    /// A SHUTDOWN acknowledges like a SACK without gaps.
    pub fn acknowledge_up_to(&mut self, core: &mut Core, now: Time, cumulative: Serial) -> Option<Reason> {
        let view = SackView { cumulative, a_rwnd: None, packets: 0, renegable: &[], kept: &[], full: false };
        match self.outbound.handle_sack(core, now, &view) {
            Verdict::Invalid => Some(self.refuse(core, violation("acknowledgement of TSNs never sent"))),
            _ => None,
        }
    }

    fn handle_control(&mut self, core: &mut Core, now: Time, origin: Origin, chunk: Chunk) -> Step {
        match chunk {
            Chunk::Heartbeat(heartbeat) => {
                let back = (origin.destination, origin.source);
                let packet = core.envelope(back, self.peer_tag, vec![Chunk::HeartbeatAck(heartbeat)]);
                core.out.push_back(packet);
                Step::Next
            }
            Chunk::HeartbeatAck(heartbeat) => {
                core.heartbeat_answered(now, &heartbeat.info);
                Step::Next
            }
            Chunk::Abort(_) => Step::End(Reason::Reset),
            Chunk::Error(_) => {
                core.totals.errors_received += 1;
                Step::Next
            }
            Chunk::Shutdown(shutdown) => Step::of(self.handle_shutdown(core, now, shutdown)),
            Chunk::ShutdownAck => Step::of(self.handle_shutdown_ack(core, origin)),
            Chunk::ShutdownComplete(_) => Step::of(self.handle_shutdown_complete()),
            Chunk::Asconf(asconf) => {
                self.handle_asconf(core, now, origin, &asconf);
                Step::Next
            }
            Chunk::AsconfAck(ack) => Step::of(self.handle_asconf_ack(core, now, &ack)),
            Chunk::Unknown(unknown) => {
                let action = unknown.action();
                if action.reports() {
                    self.report_unknown(core, origin, &Chunk::Unknown(unknown));
                }
                if action.stops() { Step::Stop } else { Step::Next }
            }
            // Partial reliability (RFC 3758) is never agreed on: the same as unknown, to be skipped and reported.
            Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) => {
                self.report_unknown(core, origin, &chunk);
                Step::Next
            }
            // These come alone (RFC 9260 §6.10).
            Chunk::Init(_) | Chunk::InitAck(_) => Step::Stop,
            // A cookie that comes with other chunks has been dealt with before them.
            _ => Step::Next,
        }
    }

    /// Tells the peer, where its packet came from (RFC 9260 §6.4), that a chunk of its is not known (§3.2).
    fn report_unknown(&self, core: &mut Core, origin: Origin, chunk: &Chunk) {
        let causes = vec![Cause::UnrecognizedChunk(chunk.to_bytes())];
        let back = (origin.destination, origin.source);
        let packet = core.envelope(back, self.peer_tag, vec![Chunk::Error(sctp::Error { causes })]);
        core.out.push_back(packet);
    }

    /// Ends the association because of what the peer did.
    pub fn refuse(&self, core: &mut Core, cause: Cause) -> Reason {
        let at = core.preferred();
        let abort = Abort { reflected_tag: false, causes: vec![cause] };
        core.send_control(at, self.peer_tag, Chunk::Abort(abort));
        Reason::Aborted
    }

    /// The next packet with data or an acknowledgement.
    pub fn next_packet(&mut self, core: &mut Core, now: Time) -> Option<Packet> {
        // With several paths an urgent SACK does not wait for data that happens to go its way.
        if self.inbound.urgent() && (core.paths.len() > 1 || !self.phase.sends_data()) {
            return Some(self.sack_packet(core));
        }
        if self.phase.sends_data() {
            if let Some(at) = self.outbound.path_to_resend(core, now)
                && let Some(packet) = self.data_packet(core, (at, now), true)
            {
                return Some(packet);
            }
            if let Some(at) = self.outbound.choose_path(core, now)
                && let Some(packet) = self.data_packet(core, (at, now), false)
            {
                return Some(packet);
            }
        }
        if self.inbound.urgent() {
            return Some(self.sack_packet(core));
        }
        if self.phase.sends_data() {
            self.outbound.settle(core, now);
        } else {
            core.unblock(now);
        }
        None
    }

    fn data_packet(&mut self, core: &mut Core, (at, now): (usize, Time), again: bool) -> Option<Packet> {
        let mut chunks = Vec::with_capacity(1);
        let mut room = core.paths[at].room;
        if self.inbound.pending() && at == self.ack_path {
            let sack = self.inbound.make_sack(&core.inbox, room);
            core.totals.sacks_sent += 1;
            room -= sack.wire_len().min(room);
            chunks.push(sack);
        }
        if again {
            self.outbound.refill(core, (at, now), room, &mut chunks);
        } else {
            self.outbound.fill(core, (at, now), room, &mut chunks);
        }
        if chunks.is_empty() {
            return None;
        }
        core.paths[at].counters.packets_sent += 1;
        Some(core.packet(at, self.peer_tag, chunks))
    }

    fn sack_packet(&mut self, core: &mut Core) -> Packet {
        let at = self.ack_path;
        let sack = self.inbound.make_sack(&core.inbox, core.paths[at].room);
        core.totals.sacks_sent += 1;
        core.paths[at].counters.packets_sent += 1;
        core.envelope(self.ack_pair, self.peer_tag, vec![sack])
    }

    /// Runs every timer that is due.
    pub fn handle_timeout(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        self.inbound.handle_timeout(now);
        for at in 0..core.paths.len() {
            core.paths[at].burst_left = core.config.max_burst.unwrap_or(u32::MAX);
            if core.paths[at].retransmission_timer.is_some_and(|due| due <= now) {
                self.outbound.retransmission_timeout(core, at, now);
            }
            self.heartbeat_timeout(core, at, now);
            if let Some(rate) = &mut core.paths[at].rate {
                rate.on_timeout(now);
            }
        }
        if matches!(self.outbound.probe, Probe::Waiting(due) if due <= now) {
            self.outbound.probe = Probe::Due;
        }
        self.handle_asconf_timeout(core, now);
        if let Some(reason) = self.shutdown_timeout(core, now) {
            return Some(reason);
        }
        if core.exhausted() {
            return Some(Reason::TimedOut);
        }
        None
    }

    fn heartbeat_timeout(&mut self, core: &mut Core, at: usize, now: Time) {
        match core.paths[at].heartbeat {
            Heartbeat::Idle { due } if due <= now => {
                let quiet_since = core.paths[at].last_sent;
                let interval = core.config.heartbeat_interval.unwrap_or(Duration::ZERO);
                let next = quiet_since + interval + core.paths[at].rtt.rto();
                if core.paths[at].active() && core.paths[at].counters.data_packets_sent > 0 && next > now {
                    core.paths[at].heartbeat = Heartbeat::Idle { due: next };
                } else {
                    core.send_heartbeat(now, at, self.peer_tag);
                }
            }
            Heartbeat::Waiting { until, .. } if until <= now => {
                core.heartbeat_lost(now, at, self.peer_tag);
                core.evacuate();
            }
            _ => {}
        }
    }

    /// The next time at which [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self, core: &Core) -> Time {
        let mut next = self.inbound.due().unwrap_or(Time::MAX);
        if let Probe::Waiting(due) = self.outbound.probe {
            next = next.min(due);
        }
        next = next.min(self.phase.due()).min(self.asconf.due());
        core.paths.iter().fold(next, |next, path| next.min(path.next_timeout()))
    }
}

/// How to go on after a control chunk.
pub(super) enum Step {
    Next,
    /// The rest of the packet is not looked at.
    Stop,
    End(Reason),
}

impl Step {
    fn of(end: Option<Reason>) -> Self {
        end.map_or(Self::Next, Self::End)
    }
}

pub(super) fn violation(what: &str) -> Cause {
    Cause::ProtocolViolation(what.as_bytes().into())
}
