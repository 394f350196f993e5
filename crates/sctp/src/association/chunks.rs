//! Handles each chunk of an established association.

use crate::common::{Core, violation};
use crate::extensions::auth;
use crate::open::Open;
use crate::origin::Origin;
use crate::receiver::inbound::Received;
use crate::receiver::reassembly::Fragment;
use crate::sender::sack::{SackOutcome, SackView};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Event, Place, Placement, Reason};
use anabranch_settings::policy::SackPath;
use anabranch_wire::Payload;
use anabranch_wire::sctp::{self, Action, Auth, Cause, Chunk, Data, DataFlags, IData, NrSack, Sack, kind};
use anabranch_wire::seq::Serial;

/// Maximum number of gap blocks in Linux's SACKs, even if more would fit. A SACK with this number may omit further
/// blocks.
const MAX_LINUX_GAP_BLOCKS: usize = 16;

impl Open {
    /// Handles the chunks of a packet with the correct tag. `genuine` is true if a valid AUTH precedes them. Returns
    /// the reason if the association has ended.
    pub fn handle_chunks<'a>(
        &mut self,
        core: &mut Core,
        now: Time,
        origin: Origin,
        (mut genuine, chunks): (bool, impl Iterator<Item = &'a Chunk>),
    ) -> Option<Reason> {
        let at = core.find(origin.destination, origin.source);
        if at.is_some_and(|at| core.follow_encapsulation(at, origin.udp)) {
            self.outbound.paths_changed(core);
        }
        core.note_peer_alive(now, self.peer_tag);
        let (mut data, mut lowest) = (false, u64::MAX);
        for chunk in chunks {
            let end = match chunk {
                Chunk::Auth(auth) if self.auth.is_some() => {
                    genuine = self.is_genuine(core, origin, auth);
                    // Chunks behind a forged AUTH are ignored (RFC 4895 §6.3).
                    if !genuine {
                        break;
                    }
                    None
                }
                other if !genuine && self.auth.as_ref().is_some_and(|auth| auth.expects(other.kind())) => {
                    None
                }
                Chunk::Data(chunk) => {
                    data = true;
                    let piece = self.fragment(chunk);
                    lowest = lowest.min(piece.tsn);
                    self.handle_data(core, at.map(|at| (at, origin)), &piece, chunk.payload)
                }
                Chunk::IData(chunk) => {
                    data = true;
                    let piece = self.interleaved(chunk);
                    lowest = lowest.min(piece.tsn);
                    self.handle_data(core, at.map(|at| (at, origin)), &piece, chunk.payload)
                }
                forward @ (Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_)) if self.extensions.forward_tsn => {
                    // While a reset of all TSNs is pending, `handle_forward` ignores the FORWARD TSN. A SACK would then make
                    // the peer send the FORWARD TSN again in each round trip (RFC 3758 §3.5).
                    data |= !self.reconfig.awaits_numbers();
                    self.handle_forward(core, forward)
                }
                Chunk::Sack(sack) => self.handle_sack(core, (now, at), sack, &[]),
                Chunk::NrSack(sack) if self.extensions.nr_sack => {
                    self.handle_sack(core, (now, at), &sack.sack, &sack.nr_gaps)
                }
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
                let owes_report = self.control.as_ref().is_some_and(|control| control.owes_report(at));
                if owes_report || self.sets_ack_path(core, at) {
                    self.ack_path = at;
                    self.ack_pair = (origin.destination, origin.source);
                }
                if core.learn_source(at, origin.destination) {
                    self.outbound.paths_changed(core);
                }
            }
            if origin.marked && lowest < u64::MAX {
                self.note_mark(at, lowest);
            }
            self.inbound.packet_done(now);
            self.follow_deferred(core);
            self.inbound.take_abandoned(&mut core.forgotten);
            self.answer_data_in_shutdown(core, now);
        }
        // A stream reset may deliver messages, too, so readable data is reported after every packet.
        if core.inbox.take_fresh() {
            core.events.push_back(Event::Readable);
        }
        self.progress(core, now)
    }

    /// True if the next SACK goes to the source of this packet (RFC 9260 §6.4). A SACK that acknowledges packets of
    /// several paths may be sent on any of them. If configured, it uses the one with the smallest measured round-trip
    /// time.
    fn sets_ack_path(&self, core: &Core, at: usize) -> bool {
        let rtt = |at: usize| core.paths[at].rtt.srtt().unwrap_or(Duration::MAX);
        core.config.sack_path == SackPath::Last
            || !self.inbound.has_unacknowledged_packets()
            || rtt(at) <= rtt(self.ack_path)
    }

    pub(crate) fn fragment(&self, chunk: &Data) -> Fragment {
        Fragment {
            tsn: self.unwrap(chunk.tsn),
            stream: chunk.stream,
            unordered: chunk.flags.contains(DataFlags::UNORDERED),
            first: chunk.flags.contains(DataFlags::BEGINNING),
            last: chunk.flags.contains(DataFlags::END),
            immediate: chunk.flags.contains(DataFlags::IMMEDIATE),
            message: u32::from(chunk.ssn),
            number: None,
            ppid: chunk.ppid,
            len: chunk.payload.len,
        }
    }

    pub(crate) fn interleaved(&self, chunk: &IData) -> Fragment {
        Fragment {
            tsn: self.unwrap(chunk.tsn),
            stream: chunk.stream,
            unordered: chunk.flags.contains(DataFlags::UNORDERED),
            first: chunk.flags.contains(DataFlags::BEGINNING),
            last: chunk.flags.contains(DataFlags::END),
            immediate: chunk.flags.contains(DataFlags::IMMEDIATE),
            message: chunk.mid.0,
            number: Some(chunk.fsn()),
            ppid: chunk.ppid().unwrap_or(0),
            len: chunk.payload.len,
        }
    }

    fn unwrap(&self, tsn: Serial) -> u64 {
        tsn.unwrap_near(self.inbound.cumulative())
    }

    fn handle_data(
        &mut self,
        core: &mut Core,
        at: Option<(usize, Origin)>,
        piece: &Fragment,
        payload: Payload,
    ) -> Option<Reason> {
        if piece.len == 0 {
            return Some(self.refuse(core, Cause::NoUserData { tsn: Serial(piece.tsn as u32) }));
        }
        if piece.number.is_some() != self.extensions.i_data {
            return Some(self.refuse(core, violation("DATA and I-DATA mixed")));
        }
        let unclear = piece.tsn > self.inbound.cumulative() && self.reconfig.awaits_numbers();
        if !self.phase.takes_data() || unclear || self.inbound.is_from_before(piece.tsn) {
            return None;
        }
        match self.inbound.receive(piece, &mut core.inbox) {
            Err(what) => Some(self.refuse(core, violation(what))),
            Ok(Received::NoSuchStream) => {
                let causes = vec![Cause::InvalidStream { stream: piece.stream }];
                let to = at.map_or_else(|| core.preferred(), |(at, _)| at);
                core.send_control(to, self.peer_tag, Chunk::Error(sctp::Error { causes }));
                None
            }
            Ok(received) => {
                if received == Received::New {
                    let place = Place::Fragment { key: piece.tsn };
                    core.placements.push_back(Placement { payload, place });
                }
                if let Some((at, origin)) = at {
                    core.paths[at].counters.bytes_received += u64::from(piece.len);
                    if received == Received::New {
                        origin.count(&mut core.arrivals, piece.len.into());
                    }
                }
                None
            }
        }
    }

    fn handle_sack(
        &mut self,
        core: &mut Core,
        (now, at): (Time, Option<usize>),
        sack: &Sack,
        kept: &[sctp::GapBlock],
    ) -> Option<Reason> {
        let entries = sack.gaps.len() + kept.len() + sack.duplicates.len();
        let length = NrSack::HEADER_LEN + Sack::ENTRY_LEN * entries as u32;
        let room = core.paths.iter().map(|path| path.room).min().unwrap_or(0);
        let kind = if self.extensions.nr_sack { kind::NR_SACK } else { kind::SACK };
        let room = room.saturating_sub(self.auth.as_ref().map_or(0, |auth| auth.overhead_of(kind)));
        let at_end = sack.gaps.last().into_iter().chain(kept.last()).any(|block| block.end == u16::MAX);
        let view = SackView {
            cumulative: sack.cumulative_tsn,
            a_rwnd: Some(sack.a_rwnd),
            packets: sack.flags.packets_answered(),
            renegable: &sack.gaps,
            kept,
            duplicates: sack.duplicates.as_slice(),
            full: length + Sack::ENTRY_LEN > room || at_end || sack.gaps.len() == MAX_LINUX_GAP_BLOCKS,
        };
        core.totals.sacks_received += 1;
        core.sack_path = at;
        if view.packets > 0 && core.delays_for_cmt() && !self.extensions.dac {
            // RFC 9260 §3.3.4 reserves these bits. A peer that sets them uses DAC; FreeBSD's stack does so without
            // negotiation.
            self.extensions.dac = true;
            self.inbound.delay_for_cmt();
        }
        self.outbound.forwarding.heard = true;
        match self.outbound.handle_sack(core, now, &view) {
            SackOutcome::Taken(_) => None,
            SackOutcome::Ignored => {
                core.totals.sacks_ignored += 1;
                None
            }
            SackOutcome::Invalid => Some(self.refuse(core, violation("acknowledgement of TSNs never sent"))),
        }
    }

    /// A SHUTDOWN acknowledges data like a SACK without gap blocks (RFC 9260 §9.2). A TSN that was never sent acknowledges
    /// nothing, and is no reason to lose data by an ABORT: sctp-proto 0.10 writes the last TSN that it has sent.
    pub fn acknowledge_up_to(&mut self, core: &mut Core, now: Time, cumulative: Serial) {
        let view = SackView {
            cumulative,
            a_rwnd: None,
            packets: 0,
            renegable: &[],
            kept: &[],
            duplicates: &[],
            full: false,
        };
        let _ignored_if_wrong = self.outbound.handle_sack(core, now, &view);
    }

    fn handle_control(&mut self, core: &mut Core, now: Time, origin: Origin, chunk: &Chunk) -> Step {
        match chunk {
            Chunk::Heartbeat(heartbeat) => {
                core.reply(origin, self.peer_tag, Chunk::HeartbeatAck(heartbeat.clone()));
                // The peer sends on this path, so the path may just have recovered.
                let tried = core.find(origin.destination, origin.source);
                if let Some(at) = tried.filter(|&at| core.paths[at].doubted.is_some_and(|since| since < now))
                {
                    core.probe_now(now, at, self.peer_tag);
                }
                Step::Next
            }
            Chunk::HeartbeatAck(heartbeat) => {
                if let Some(answer) = core.heartbeat_answered(now, &heartbeat.info, self.peer_tag) {
                    if answer.moved {
                        self.outbound.paths_changed(core);
                    }
                    if answer.doubted {
                        self.outbound.resend_unanswered(core, now, (answer.at, answer.sent));
                    }
                }
                for at in 0..core.paths.len() {
                    self.follow_discovery(core, at);
                }
                Step::Next
            }
            Chunk::Abort(_) => Step::End(Reason::Reset),
            Chunk::Error(_) => {
                core.totals.errors_received += 1;
                Step::Next
            }
            Chunk::CongestionEcho(echo) if self.extensions.ecn => {
                let at = core.find(origin.destination, origin.source);
                self.handle_echo(core, now, at, *echo);
                Step::Next
            }
            Chunk::CongestionReduced(reduced) => {
                self.handle_reduced(core.find(origin.destination, origin.source), *reduced);
                Step::Next
            }
            Chunk::Shutdown(shutdown) => Step::of(self.handle_shutdown(core, now, *shutdown)),
            Chunk::ShutdownAck => Step::of(self.handle_shutdown_ack(core, (now, origin))),
            Chunk::ShutdownComplete(_) => Step::of(self.handle_shutdown_complete()),
            Chunk::Asconf(asconf) if self.extensions.asconf => {
                self.handle_asconf(core, now, origin, asconf);
                Step::Next
            }
            Chunk::AsconfAck(ack) if self.extensions.asconf => {
                Step::of(self.handle_asconf_ack(core, now, ack))
            }
            Chunk::Reconfig(reconfig) if self.extensions.reconfig => {
                let end = self.handle_reconfig(core, now, origin, reconfig);
                self.inbound.take_abandoned(&mut core.forgotten);
                Step::of(end)
            }
            Chunk::NetworkControl(control) => {
                let at = core.find(origin.destination, origin.source);
                self.handle_network_control(core, at, control);
                Step::Next
            }
            Chunk::Unknown(unknown) if unknown.kind == kind::NETWORK_CONTROL => {
                self.ignore_network_control(core);
                Step::Next
            }
            // Chunks of an extension that was not negotiated are treated as unknown.
            Chunk::Unknown(_)
            | Chunk::Auth(_)
            | Chunk::NrSack(_)
            | Chunk::Asconf(_)
            | Chunk::AsconfAck(_)
            | Chunk::Reconfig(_)
            | Chunk::ForwardTsn(_)
            | Chunk::IForwardTsn(_) => {
                let action = Action::of_chunk(chunk.kind());
                if action.reports() {
                    self.report_unknown(core, origin, chunk);
                }
                if action.stops() { Step::Stop } else { Step::Next }
            }
            // These chunks must not be bundled (RFC 9260 §6.10).
            Chunk::Init(_) | Chunk::InitAck(_) => Step::Stop,
            // A COOKIE ECHO bundled with other chunks was handled before them.
            _ => Step::Next,
        }
    }

    /// True if the peer computed this AUTH. An algorithm that was never offered is reported (RFC 4895 §6.3).
    fn is_genuine(&self, core: &mut Core, origin: Origin, auth: &Auth) -> bool {
        let verdict = self.auth.as_ref().map(|own| own.verify(auth));
        if verdict == Some(auth::AuthCheck::Unsupported) {
            let causes = vec![Cause::UnsupportedHmac(auth.algorithm)];
            core.reply(origin, self.peer_tag, Chunk::Error(sctp::Error { causes }));
        }
        core.totals.forgeries += u64::from(verdict == Some(auth::AuthCheck::Forged));
        verdict == Some(auth::AuthCheck::Genuine)
    }

    /// Reports an unknown chunk to the source of its packet (RFC 9260 §3.2, §6.4). The report contains as much of the
    /// chunk as fits a packet.
    fn report_unknown(&self, core: &mut Core, origin: Origin, chunk: &Chunk) {
        let room = core.room_to(origin) - sctp::CHUNK_HEADER_LEN - sctp::cause::HEADER_LEN;
        let mut copy = chunk.to_bytes().into_vec();
        copy.truncate(room as usize);
        let causes = vec![Cause::UnrecognizedChunk(copy.into())];
        core.reply(origin, self.peer_tag, Chunk::Error(sctp::Error { causes }));
    }
}

/// Continuation after a control chunk.
pub(crate) enum Step {
    Next,
    /// Ignore the rest of the packet.
    Stop,
    End(Reason),
}

impl Step {
    fn of(end: Option<Reason>) -> Self {
        end.map_or(Self::Next, Self::End)
    }
}
