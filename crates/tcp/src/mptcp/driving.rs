//! Implementation of [`Endpoint`] for a Multipath TCP connection: each call is passed to the module that
//! handles it.

use super::connection::{Connection, ConnectionPhase, LINGER_TIMEOUT, Role};
use super::data::DataFin;
use super::subflow::Subflow;
use crate::tcp::Numbers;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::WantedPath;
use anabranch_endpoint::endpoint::{
    Arrival, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Placement, Quote, Reason,
    Report, SchedulingDecision, Write,
};
use anabranch_endpoint::limits::Limits;
use anabranch_multipath::PathId;
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Content, Packet};
use core::net::{IpAddr, SocketAddr};

impl Connection {
    /// Changes the user timeout (RFC 5482) of present and later subflows, also of data that is outstanding.
    pub fn set_user_timeout(&mut self, now: Time, timeout: Option<Duration>) {
        self.config.tcp.user_timeout = timeout;
        for subflow in self.subflows.iter_mut().filter(|subflow| !subflow.is_dead()) {
            subflow.block.set_user_timeout(now, timeout);
        }
    }

    /// The subflow whose packet an ICMP error quotes.
    fn quoted(&self, quote: &Quote) -> Option<usize> {
        let ours = |s: &Subflow| (s.block.local(), s.block.remote()) == (quote.local, quote.remote);
        self.subflows.iter().position(|s| !s.is_dead() && ours(s))
    }
}

impl Endpoint for Connection {
    fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) {
        self.discard_snapshot();
        self.placements.clear();
        self.on_packet(now, &packet, content);
        self.note_gap(now);
        if let Body::Tcp(segment) = packet.body {
            self.spare_options = segment.options.mptcp;
        }
        // This end waits for the FIN of a subflow that the peer may have lost. All data has arrived, so
        // `LINGER_TIMEOUT` limits the wait.
        if self.phase == ConnectionPhase::Multipath && self.is_done() {
            let end = now + LINGER_TIMEOUT;
            self.linger_until = Some(self.linger_until.map_or(end, |at| at.min(end)));
        }
        self.notice();
    }

    fn poll_placement(&mut self) -> Option<Placement> {
        self.placements.pop_front()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.discard_snapshot();
        self.on_timeout(now);
        self.notice();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if !self.active || self.blocked_since == Some(now) {
            return None;
        }
        let packet = self.poll(now);
        if packet.is_some() {
            self.blocked_since = None;
        }
        packet
    }

    fn next_timeout(&self) -> Option<Time> {
        let due = |at: Option<Time>| at.unwrap_or(Time::MAX);
        let mut next = due(self.data_timer).min(due(self.retry_at)).min(due(self.linger_until));
        // Outside the multipath phase no signal is sent. A pending one must not wake the driver.
        let multipath = self.phase == ConnectionPhase::Multipath;
        for subflow in &self.subflows {
            // A dead subflow has a timer only in TIME-WAIT or while its RST is repeated.
            next = next.min(due(subflow.block.next_timeout()));
            if !subflow.is_dead() && !subflow.block.is_over() {
                next = next.min(subflow.next_repetition());
            }
            if multipath {
                next = next.min(due(subflow.reset_again.map(|again| again.at)));
            }
        }
        if multipath {
            next = next.min(self.next_signal());
        }
        (next < Time::MAX).then_some(next)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn connect(&mut self, now: Time) {
        if !self.active {
            let ends = (self.subflows[0].block.local(), self.remote);
            self.begin(now, ends);
            self.subflows[0].block.begin(Numbers::new(&self.secrets, now, ends));
            self.active = true;
        }
    }

    fn released(&self) -> u64 {
        // A subflow cannot skip bytes: it retransmits its unacknowledged data, even if another subflow has delivered
        // that data.
        let unacknowledged = |subflow: &Subflow| subflow.sent.iter().map(|mapping| mapping.data).min();
        let oldest =
            self.subflows.iter().filter(|subflow| !subflow.is_dead()).filter_map(unacknowledged).min();
        oldest.map_or(self.send.una, |oldest| oldest.min(self.send.una))
    }

    fn send_space(&self) -> u64 {
        if self.closing || !matches!(self.phase, ConnectionPhase::Multipath | ConnectionPhase::Plain) {
            return 0;
        }
        self.config.tcp.send_buffer.saturating_sub(self.send.written - self.send.una)
    }

    fn write(&mut self, _now: Time, write: Write) -> u64 {
        let accepted = write.len.min(self.send_space());
        self.send.written += accepted;
        self.seen.starved |= accepted < write.len;
        accepted
    }

    fn readable(&self) -> u64 {
        self.receive.nxt - self.receive.read
    }

    fn read(&mut self, _now: Time, max: u64) -> Option<Delivery> {
        let len = self.readable().min(max);
        if len == 0 {
            return None;
        }
        let offset = self.receive.read;
        self.receive.read += len;
        self.discard_snapshot();
        self.update_window();
        Some(Delivery::bytes(offset, len))
    }

    fn window_update_due(&self) -> bool {
        self.subflows.iter().any(|subflow| subflow.block.wants_ack())
    }

    fn close(&mut self, _now: Time) {
        if self.closing {
            return;
        }
        self.closing = true;
        self.discard_snapshot();
        match self.phase {
            // A client's pending handshake is answered first.
            ConnectionPhase::Opening if self.role == Role::Server && !self.subflows.is_empty() => {}
            ConnectionPhase::Opening => self.finish(Reason::Closed),
            ConnectionPhase::Multipath => self.send.fin = DataFin::Wanted,
            ConnectionPhase::Plain => {
                self.subflows.iter_mut().filter(|s| !s.is_dead()).for_each(|s| s.block.close());
            }
            ConnectionPhase::Closed(_) => {}
        }
        self.notice();
    }

    fn abort(&mut self, _now: Time) {
        self.closing = true;
        self.discard_snapshot();
        self.fast_close();
        self.notice();
    }

    fn handle_network(&mut self, now: Time, event: NetworkEvent) {
        self.discard_snapshot();
        match event {
            NetworkEvent::AddressUp { address, mtu } => self.on_address_up(now, address, mtu),
            NetworkEvent::AddressDown { address } => self.on_address_down(now, address),
            NetworkEvent::PacketTooBig { quote, mtu } => {
                if let Some(index) = self.quoted(&quote) {
                    self.with_block(now, index, |block, context| {
                        block.on_packet_too_big(context, Serial(quote.number), mtu);
                    });
                }
            }
            NetworkEvent::Unreachable { quote, what } => {
                if let Some(index) = self.quoted(&quote) {
                    self.subflows[index].block.on_unreachable(Serial(quote.number), what);
                    if !self.try_next_pair_at_once(index) && self.subflows[index].block.is_over() {
                        self.on_subflow_over(now, index);
                    }
                }
            }
        }
        self.notice();
    }

    fn port_wanted(&self) -> Option<(IpAddr, SocketAddr)> {
        self.wanted_ends()
    }

    fn give_port(&mut self, now: Time, port: Option<u16>) {
        self.discard_snapshot();
        self.on_port(now, port);
    }

    fn keep_decisions(&mut self) {
        self.decisions.get_or_insert_default();
    }

    fn poll_decision(&mut self) -> Option<SchedulingDecision> {
        self.decisions.as_mut()?.pop_front()
    }

    fn report(&self) -> Report {
        Report {
            paths: (0..self.subflows.len()).filter_map(|i| self.path(PathId(i as u8))).collect(),
            arrivals: self.arrivals(),
            written: self.send.written,
            delivered: self.receive.read,
            send_buffer: self.send.written - self.send.una,
            receive_buffer: self.held().bytes,
            reordering_buffer: self.held().reordering,
            peer_window: self.send.edge.saturating_sub(self.send.una),
            extra: vec![
                ("opportunistic_retransmissions", self.tally.opportunistic),
                ("penalisations", self.tally.penalisations),
                ("data_timeouts", self.tally.data_timeouts),
                ("joins", self.tally.joins),
                ("checksum_failures", self.tally.checksum_failures),
                ("network_requests_sent", self.requests.sent),
                ("network_requests_received", self.requests.received),
                ("network_controls_ignored", self.requests.ignored),
            ],
            fallback: self.is_fallback(),
            network: Vec::new(),
        }
    }

    fn arrivals(&self) -> Vec<Arrival> {
        self.subflows.iter().map(|subflow| subflow.block.arrival(subflow.new)).collect()
    }

    fn limits(&self, now: Time) -> Limits {
        let paths: Vec<_> = self.subflows.iter().map(|s| s.block.limiting.clock.up_to(now)).collect();
        let gaps = self.gap.up_to(now, paths.len());
        Limits { connection: self.clock.up_to(now), paths, buffers: Vec::new(), gaps }
    }

    fn wanted_paths(&self) -> Vec<WantedPath> {
        self.wanted()
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        let subflow = self.subflows.get(path.index())?;
        let mut report = subflow.block.report(&*self.congestion);
        report.usable = subflow.is_usable();
        report.backup = subflow.backup;
        report.gateway = self.gateway_of(subflow.pair).map(|gateway| gateway as u8);
        Some(report)
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        for subflow in &self.subflows {
            each(subflow.block.gauge(&*self.congestion));
        }
    }

    fn entries_before(&self, packet: &Packet) -> u64 {
        self.ranges_before(packet)
    }

    fn held(&self) -> Held {
        let reordering = self.waiting();
        Held { bytes: self.readable() + reordering, reordering }
    }
}
