//! [`Endpoint`](anabranch_endpoint::Endpoint) for an association, and the first checks of a received packet.

use super::handshake::readable;
use super::state::{Association, State};
use crate::origin::{Origin, behind_auth};
use crate::path::state::Reachability;
use anabranch_base::time::Time;
use anabranch_endpoint::WantedPath;
use anabranch_endpoint::endpoint::{
    Arrival, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Placement, Reason, Report,
    SchedulingDecision, StreamChange, Write,
};
use anabranch_endpoint::limits::Limits;
use anabranch_multipath::PathId;
use anabranch_wire::sctp::{Abort, Cause, Chunk};
use anabranch_wire::{Body, Content, Packet};

impl Association {
    /// Clears the cached result "nothing to send", because an event at `now` may allow data to be sent.
    pub(crate) const fn clear_wait(&mut self, now: Time) {
        self.now = now;
        if let State::Open(open) = &mut self.state {
            open.outbound.clear_wait();
        }
    }

    /// Dispatches the chunks of a packet: those of the handshake are handled here, the others by the open
    /// association.
    fn dispatch(&mut self, now: Time, origin: Origin, packet: &anabranch_wire::sctp::Packet) {
        let tag = packet.verification_tag;
        let chunks = behind_auth(&packet.chunks);
        // An AUTH before the COOKIE ECHO authenticates the chunks after the COOKIE ECHO, too.
        let mut vouched = false;
        match chunks.first() {
            // INIT and INIT ACK must not be bundled; INIT has tag zero (§6.10, §8.5.1 A).
            Some(Chunk::Init(init)) if packet.chunks.len() == 1 && tag == 0 => {
                let init = readable(init);
                self.handle_init(now, origin, &init);
                return;
            }
            Some(Chunk::CookieEcho(echo)) => {
                let auth = match &packet.chunks[0] {
                    Chunk::Auth(auth) => Some(&**auth),
                    _ => None,
                };
                if !self.handle_cookie(now, origin, tag, (auth, echo)) {
                    self.core.totals.packets_discarded += 1;
                    return;
                }
                vouched = auth.is_some();
            }
            None if packet.chunks.is_empty() => {
                self.core.totals.packets_discarded += 1;
                return;
            }
            Some(Chunk::Init(_)) => {
                self.core.totals.packets_discarded += 1;
                return;
            }
            _ => {}
        }
        match &mut self.state {
            State::Open(open) => {
                if !tag_fits(tag, open.local_tag, open.peer_tag, &packet.chunks) {
                    self.core.totals.packets_discarded += 1;
                    return;
                }
                let chunks = packet.chunks[usize::from(vouched)..].iter();
                let end = open.handle_chunks(&mut self.core, now, origin, (vouched, chunks));
                self.end_if(end);
            }
            State::CookieWait(wait) => {
                let own = wait.tag;
                self.while_waiting(now, origin, (tag, own), &packet.chunks);
            }
            State::CookieEchoed(echoed) => {
                let own = echoed.tag;
                self.while_waiting(now, origin, (tag, own), &packet.chunks);
            }
            State::Idle | State::Listening | State::Closed => {
                self.core.totals.packets_discarded += 1;
                self.core.out.extend(origin.out_of_the_blue(tag, &packet.chunks));
            }
        }
    }

    /// Handles a packet without INIT and COOKIE ECHO during the handshake.
    fn while_waiting(&mut self, now: Time, origin: Origin, (tag, own): (u32, u32), chunks: &[Chunk]) {
        let peer = if let State::CookieEchoed(echoed) = &self.state { echoed.peer.tag } else { 0 };
        if let [Chunk::ShutdownAck, ..] = behind_auth(chunks) {
            // The peer is still shutting down an earlier association (§8.5.1 E).
            self.core.out.extend(origin.out_of_the_blue(tag, chunks));
            return;
        }
        if !tag_fits(tag, own, peer, chunks) {
            self.core.totals.packets_discarded += 1;
            return;
        }
        for (at, chunk) in chunks.iter().enumerate() {
            match chunk {
                Chunk::InitAck(init) if at == 0 && chunks.len() == 1 => {
                    self.handle_init_ack(now, origin, &readable(init));
                }
                Chunk::Abort(_) => {
                    self.end(Reason::Refused);
                    return;
                }
                Chunk::CookieAck if matches!(self.state, State::CookieEchoed(_)) => {
                    self.handle_cookie_ack(now);
                    let State::Open(open) = &mut self.state else { return };
                    // An AUTH before the chunk authenticates all chunks behind it.
                    let auth = chunks[..at].iter().filter(|chunk| matches!(chunk, Chunk::Auth(_)));
                    let rest = auth.chain(&chunks[at + 1..]);
                    let end = open.handle_chunks(&mut self.core, now, origin, (false, rest));
                    self.end_if(end);
                    return;
                }
                // Heartbeats are answered from COOKIE-ECHOED on (§8.3): on a faster path, a heartbeat may overtake the
                // COOKIE ACK.
                Chunk::Heartbeat(heartbeat) => {
                    if let State::CookieEchoed(echoed) = &self.state {
                        let tag = echoed.peer.tag;
                        self.core.reply(origin, tag, Chunk::HeartbeatAck(heartbeat.clone()));
                    }
                }
                Chunk::Error(error) => {
                    self.core.totals.errors_received += 1;
                    for cause in &error.causes {
                        if let Cause::StaleCookie { staleness_us } = cause {
                            self.handle_stale_cookie(now, *staleness_us);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Packets need neither an AUTH nor a zero checksum.
    fn needs_no_finishing(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.auth.is_none() && !open.extensions.zero_checksum)
    }

    /// The next packet, whose AUTH and checksum are still to be set. Queued packets are sent first.
    fn next_packet(&mut self, now: Time) -> Option<Packet> {
        match &mut self.state {
            _ if !self.core.out.is_empty() => self.core.out.pop_front(),
            State::Open(open) => open.next_packet(&mut self.core, now),
            _ => {
                self.note_limits_of_handshake(now);
                None
            }
        }
    }

    fn path_report(&self, at: usize) -> PathReport {
        let path = &self.core.paths[at];
        let control = &self.core.congestion;
        PathReport {
            id: path.id,
            local: path.local,
            remote: path.remote,
            gateway: None,
            usable: path.active(),
            backup: false,
            cwnd: control.window(path.id),
            ssthresh: control.ssthresh(path.id),
            srtt: path.rtt.srtt(),
            srtt_min: path.rtt.min_srtt(),
            delivery_rate_max: path.peak.rate(),
            rto: path.rtt.rto(),
            outstanding: path.in_flight(self.core.sends_copies),
            mss: path.mss,
            grouping: None,
            counters: path.counters,
        }
    }
}

/// Checks the verification tag (RFC 9260 §8.5): a packet has the local tag. ABORT and SHUTDOWN COMPLETE may reflect
/// the peer's tag if they answer an out-of-the-blue packet; then they are not bundled (§8.4).
fn tag_fits(tag: u32, own: u32, peer: u32, chunks: &[Chunk]) -> bool {
    let reflected = chunks.iter().any(|chunk| match chunk {
        Chunk::Abort(abort) => abort.reflected_tag,
        Chunk::ShutdownComplete(complete) => complete.reflected_tag,
        _ => false,
    });
    if reflected { tag == peer && peer != 0 && chunks.len() == 1 } else { tag == own }
}

impl Endpoint for Association {
    fn handle_packet(&mut self, now: Time, packet: Packet, _content: &dyn Content) {
        self.clear_wait(now);
        self.core.placements.clear();
        let Some((origin, body)) = Origin::of(&packet) else { return };
        let known_port =
            matches!(self.state, State::Listening) || origin.source_port == self.core.remote_port;
        if origin.destination_port != self.core.local_port || !known_port {
            self.core.totals.packets_discarded += 1;
            return;
        }
        if body.zero_checksum && !self.trusts_carrier(body) {
            self.core.totals.packets_discarded += 1;
            return;
        }
        self.dispatch(now, origin, body);
    }

    fn poll_placement(&mut self) -> Option<Placement> {
        self.core.placements.pop_front()
    }

    fn poll_forgotten(&mut self) -> Option<(u64, u32)> {
        self.core.forgotten.pop_front()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.clear_wait(now);
        match &mut self.state {
            State::Open(open) => {
                let end = open.handle_timeout(&mut self.core, now);
                self.end_if(end);
            }
            State::CookieWait(_) | State::CookieEchoed(_) => self.handshake_timeout(now),
            State::Idle | State::Closed | State::Listening => {}
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.now = now;
        // Most packets need no change; passing them through avoids a copy.
        if self.needs_no_finishing() {
            return self.next_packet(now);
        }
        let mut packet = self.next_packet(now)?;
        self.authenticate(&mut packet);
        self.leave_out_checksum(&mut packet);
        Some(packet)
    }

    fn next_timeout(&self) -> Option<Time> {
        let next = match &self.state {
            State::Open(open) => open.next_timeout(&self.core),
            State::CookieWait(wait) => wait.due,
            State::CookieEchoed(echoed) => echoed.due,
            State::Idle | State::Closed | State::Listening => Time::MAX,
        };
        (next != Time::MAX).then_some(next)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    fn connect(&mut self, now: Time) {
        self.now = now;
        if matches!(self.state, State::Idle) {
            self.open(now);
        }
    }

    fn send_space(&self) -> u64 {
        match &self.state {
            State::Open(open) if open.phase.takes_writes() => open.outbound.space(&self.core),
            _ => 0,
        }
    }

    fn write(&mut self, now: Time, write: Write) -> u64 {
        self.now = now;
        match &mut self.state {
            State::Open(open) if open.phase.takes_writes() => {
                open.outbound.write(&mut self.core, now, &write)
            }
            _ => 0,
        }
    }

    fn change_streams(&mut self, now: Time, change: StreamChange) -> bool {
        self.clear_wait(now);
        match &mut self.state {
            State::Open(open) => open.change_streams(&mut self.core, now, change),
            _ => false,
        }
    }

    fn readable(&self) -> u64 {
        self.core.inbox.bytes()
    }

    fn read(&mut self, now: Time, _max: u64) -> Option<Delivery> {
        self.now = now;
        let message = self.core.inbox.pop()?;
        if let State::Open(open) = &mut self.state {
            open.inbound.window_opened(&self.core.inbox);
        }
        Some(message)
    }

    fn window_update_due(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.inbound.urgent())
    }

    fn fragments(&self) -> &[(u64, u32)] {
        self.core.inbox.last()
    }

    fn close(&mut self, now: Time) {
        self.clear_wait(now);
        match &mut self.state {
            State::Open(open) => {
                let end = open.close(&mut self.core, now);
                self.end_if(end);
            }
            State::CookieWait(_) | State::CookieEchoed(_) | State::Listening => self.end(Reason::Closed),
            State::Idle | State::Closed => {}
        }
    }

    fn abort(&mut self, now: Time) {
        self.now = now;
        match &self.state {
            State::Open(open) => {
                open.refuse(&mut self.core, Cause::UserInitiatedAbort(Box::default()));
            }
            State::CookieEchoed(echoed) => {
                let (at, tag) = (self.core.primary, echoed.peer.tag);
                self.core.send_control(at, tag, Chunk::Abort(Abort::default()));
            }
            State::CookieWait(_) | State::Listening => {}
            State::Idle | State::Closed => return,
        }
        self.end(Reason::Aborted);
    }

    fn handle_network(&mut self, now: Time, event: NetworkEvent) {
        self.clear_wait(now);
        self.network_event(now, event);
    }

    fn released(&self) -> u64 {
        match &self.state {
            State::Open(open) => open.outbound.released(),
            _ => self.core.written,
        }
    }

    fn keep_decisions(&mut self) {
        if self.core.config.cmt {
            self.core.decisions.get_or_insert_default();
        }
    }

    fn poll_decision(&mut self) -> Option<SchedulingDecision> {
        self.core.decisions.as_mut()?.pop_front()
    }

    fn report(&self) -> Report {
        let mut report = Report {
            paths: (0..self.core.paths.len()).map(|at| self.path_report(at)).collect(),
            arrivals: self.arrivals(),
            written: self.core.written,
            delivered: self.core.inbox.delivered(),
            send_buffer: self.core.unacknowledged,
            receive_buffer: self.core.inbox.bytes(),
            extra: self.core.totals.list(),
            ..Report::default()
        };
        if let State::Open(open) = &self.state {
            report.send_buffer = open.outbound.used();
            report.reordering_buffer = open.inbound.held();
            report.receive_buffer += open.inbound.held();
            report.peer_window = open.outbound.advertised;
            report.extra.extend(open.inbound.losses());
            let reports = open.control.iter().flat_map(|control| control.reports());
            report.network = reports.map(|(path, records)| (path, records.clone())).collect();
        }
        report
    }

    fn arrivals(&self) -> Vec<Arrival> {
        self.core.arrivals.clone()
    }

    fn limits(&self, now: Time) -> Limits {
        self.limits_up_to(now)
    }

    fn wanted_paths(&self) -> Vec<WantedPath> {
        self.wanted()
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        let known = self.core.paths.get(path.index())?;
        (known.reachability != Reachability::Removed).then(|| self.path_report(path.index()))
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        for path in &self.core.paths {
            each(Gauge {
                cwnd: self.core.congestion.window(path.id),
                outstanding: path.in_flight(self.core.sends_copies),
                srtt: path.rtt.srtt(),
            });
        }
    }

    fn entries_before(&self, packet: &Packet) -> u64 {
        match (&self.state, &packet.body) {
            (State::Open(open), Body::Sctp(packet)) => open.entries_before(&packet.chunks),
            _ => 0,
        }
    }

    fn held(&self) -> Held {
        let reordering = if let State::Open(open) = &self.state { open.inbound.held() } else { 0 };
        Held { bytes: self.core.inbox.bytes() + reordering, reordering }
    }

    fn held_by_stream(&self) -> &[u64] {
        if let State::Open(open) = &self.state { open.inbound.held_by_stream() } else { &[] }
    }
}
