//! A plain TCP connection: one control block, one path, one byte stream in each direction.

use super::autotuning::{ReceiveSpace, send_space};
use super::tcb::{Context, Route, State, Tcb};
use super::{Config, Numbers};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{
    Arrival, Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Place, Placement, Reason,
    Report, Write,
};
use anabranch_endpoint::gap::GapClock;
use anabranch_endpoint::limits::Limits;
use anabranch_endpoint::{Ends, Secrets};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::CongestionControl;
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Content, Packet};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// One end of a TCP connection. See [`Endpoint`] for how to drive it.
#[derive(Debug)]
pub struct Connection {
    block: Tcb,
    congestion: Box<dyn CongestionControl>,
    receive_space: ReceiveSpace,
    /// Secrets of the host, from which the initial sequence number is derived.
    secrets: Secrets,
    /// The initial sequence number, if a SYN cookie has already determined it.
    forced_sequence: Option<Serial>,
    active: bool,
    /// True while the host lacks the local address.
    address_lost: bool,
    /// Bytes that the application has written and read.
    written: u64,
    read: u64,
    closing: bool,
    /// True if a write was cut short, so that the application has to be notified of free space.
    starved: bool,
    /// Time since which no packet could be sent, although a full segment waits. Set while the only later events are
    /// writes of the application, which cannot change that.
    blocked_since: Option<Time>,
    /// Times with a gap in the data that the peer has received.
    gap: GapClock,
    seen: Reported,
    events: VecDeque<Event>,
}

/// State that was last reported to the application.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    connected: bool,
    readable: u64,
    finished: bool,
    closed: bool,
}

impl Connection {
    /// Creates the connecting end, from its first local address to the first remote one. All connections of a host
    /// get the same secrets.
    pub fn connecting(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        let ((local, mtu), remote) = (ends.first_local(), ends.first_remote());
        Self::new(Tcb::client(config, Route { local, remote, path: PathId(0), mtu }), secrets, false)
    }

    /// Creates the listening end on its first address, which accepts the first connection that arrives.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        Self::new(Tcb::server(config, ends.first_local(), PathId(0)), secrets, true)
    }

    /// Sets the initial sequence number, for a listening end that a host creates from a SYN cookie (RFC 4987 §3.6).
    /// The SYN/ACK has already been sent, and is not sent again. Before polling for packets, pass the SYN as the
    /// cookie encodes it, and then the segment that returned the cookie.
    #[must_use]
    pub const fn with_initial_sequence(mut self, number: u32) -> Self {
        self.forced_sequence = Some(Serial(number));
        self
    }

    fn new(block: Tcb, secrets: Secrets, active: bool) -> Self {
        let config = block.config();
        Self {
            congestion: config.congestion.build(),
            receive_space: ReceiveSpace::new(config.receive_buffer, config.receive_autotuning),
            secrets,
            forced_sequence: None,
            active,
            address_lost: false,
            written: 0,
            read: 0,
            closing: false,
            starved: false,
            blocked_since: None,
            gap: GapClock::default(),
            seen: Reported::default(),
            events: VecDeque::new(),
            block,
        }
    }

    /// Starts the block, now that the remote endpoint is known.
    fn begin(&mut self, now: Time, remote: SocketAddr) {
        let mut numbers = Numbers::new(&self.secrets, now, (self.block.local(), remote));
        numbers.sequence = self.forced_sequence.unwrap_or(numbers.sequence);
        self.block.begin(numbers);
    }

    /// The connection's block, for tests and tools that inspect its state.
    pub fn block(&self) -> &Tcb {
        &self.block
    }

    /// Changes the user timeout (RFC 5482), also of data that is outstanding.
    pub fn set_user_timeout(&mut self, now: Time, timeout: Option<Duration>) {
        self.block.set_user_timeout(now, timeout);
    }

    /// Ends reading: data that arrives from now on resets the connection (RFC 9293 §3.6.1).
    pub fn refuse_data(&mut self) {
        self.block.refuse_data();
    }

    fn receive_window(&self) -> u64 {
        (self.read + self.receive_space.size()).saturating_sub(self.block.received())
    }

    /// Bytes of data that the peer has acknowledged.
    fn acknowledged(&self) -> u64 {
        self.block.acknowledged().min(self.written)
    }

    /// Notifies the application of changes.
    fn notice(&mut self) {
        if self.seen.closed {
            return;
        }
        let readable = self.block.received();
        if self.block.is_synchronised() && !self.seen.connected {
            self.seen.connected = true;
            self.events.push_back(Event::Connected);
            self.events.push_back(Event::PathUp(PathId(0)));
        }
        if readable > self.seen.readable {
            self.seen.readable = readable;
            self.events.push_back(Event::Readable);
        }
        if self.block.peer_finished() && !self.seen.finished {
            self.seen.finished = true;
            self.events.push_back(Event::Finished);
        }
        if self.starved && self.send_space() > 0 {
            self.starved = false;
            self.events.push_back(Event::Writable);
        }
        let reason = match self.block.state() {
            State::Closed(reason) => Some(reason),
            State::TimeWait => Some(Reason::Closed),
            _ => None,
        };
        if let Some(reason) = reason {
            self.seen.closed = true;
            self.events.push_back(Event::Closed(reason));
        }
    }

    fn poll(&mut self, now: Time) -> Option<Packet> {
        let receive_window = self.receive_window();
        let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
        if self.block.has_urgent()
            && let Some(output) = self.block.poll_urgent(&mut context)
        {
            return Some(output);
        }
        let available = self.written.saturating_sub(self.block.sent());
        if available > 0 {
            let len = self.block.next_len(&mut context, available);
            if len > 0 {
                return Some(self.block.send(&mut context, len, u64::from(len) == available));
            }
        }
        if self.block.has_rest(available == 0)
            && let Some(output) = self.block.poll_rest(&mut context, available == 0)
        {
            return Some(output);
        }
        if self.block.is_over() {
            self.block.limiting.clock.end(now);
        } else {
            let standing = self.block.standing();
            let limit =
                standing.unwrap_or_else(|| self.block.limit_alone(&context, (available, self.starved)));
            self.block.note_limit(now, limit);
        }
        if available == 0 {
            self.block.set_application_limited(&context);
        }
        // A full segment waits, so another call at this time would have the same result.
        self.blocked_since = (available >= u64::from(self.block.mss())).then_some(now);
        None
    }
}

impl Endpoint for Connection {
    fn handle_packet(&mut self, now: Time, packet: Packet, _content: &dyn Content) {
        let Body::Tcp(segment) = &packet.body else { return };
        self.blocked_since = None;
        let from = SocketAddr::new(packet.source, segment.source_port);
        if self.block.state() == State::Listen {
            self.begin(now, from);
        }
        let receive_window = self.receive_window();
        let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
        self.block.on_segment(&mut context, (from, packet.ecn), segment);
        let is_behind = self.block.sacked_bytes() > 0 && !self.block.is_over();
        if is_behind || !self.gap.is_idle() {
            self.gap.note(now, is_behind.then(|| self.block.acknowledged()), |_| Some(0));
        }
        self.notice();
    }

    fn poll_placement(&mut self) -> Option<Placement> {
        let (payload, offset) = self.block.poll_kept()?;
        Some(Placement { payload, place: Place::Stream { offset } })
    }

    fn handle_timeout(&mut self, now: Time) {
        self.blocked_since = None;
        let receive_window = self.receive_window();
        let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
        self.block.on_timeout(&mut context);
        self.notice();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.active && self.blocked_since != Some(now) { self.poll(now) } else { None }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.block.next_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn connect(&mut self, now: Time) {
        if !self.active {
            self.begin(now, self.block.remote());
            self.active = true;
        }
    }

    fn send_space(&self) -> u64 {
        if self.closing || !self.block.is_open() {
            return 0;
        }
        let config = self.block.config();
        let window = self.congestion.window(PathId(0));
        let room = send_space(config.send_buffer, config.send_autotuning, window);
        room.saturating_sub(self.written - self.acknowledged())
    }

    fn write(&mut self, _now: Time, write: Write) -> u64 {
        let accepted = write.len.min(self.send_space());
        self.written += accepted;
        self.starved |= accepted < write.len;
        accepted
    }

    fn readable(&self) -> u64 {
        self.block.received() - self.read
    }

    fn read(&mut self, now: Time, max: u64) -> Option<Delivery> {
        let len = self.readable().min(max);
        if len == 0 {
            return None;
        }
        let offset = self.read;
        self.read += len;
        self.blocked_since = None;
        self.receive_space.on_read(now, self.read, (self.block.receive_rtt(), self.block.mss()));
        if self.block.window_would_open(self.receive_space.size(), self.receive_window()) {
            self.block.ack_now();
        }
        Some(Delivery::bytes(offset, len))
    }

    fn window_update_due(&self) -> bool {
        self.block.wants_ack()
    }

    fn close(&mut self, _now: Time) {
        if !self.closing {
            (self.closing, self.blocked_since) = (true, None);
            self.block.close();
            self.notice();
        }
    }

    fn abort(&mut self, _now: Time) {
        (self.closing, self.blocked_since) = (true, None);
        self.block.abort();
        self.notice();
    }

    fn handle_network(&mut self, now: Time, event: NetworkEvent) {
        self.blocked_since = None;
        let ends = (self.block.local(), self.block.remote());
        let receive_window = self.receive_window();
        let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
        match event {
            NetworkEvent::PacketTooBig { quote, mtu } if (quote.local, quote.remote) == ends => {
                self.block.on_packet_too_big(&mut context, Serial(quote.number), mtu);
            }
            NetworkEvent::Unreachable { quote, what } if (quote.local, quote.remote) == ends => {
                self.block.on_unreachable(Serial(quote.number), what);
            }
            NetworkEvent::AddressUp { address, mtu } if address == ends.0.ip() => {
                // The interface returns with its MTU, but the path's MTU is at most the earlier one.
                let known = if self.address_lost { self.block.interface_mtu() } else { u32::MAX };
                self.block.set_interface_mtu(&mut context, mtu.min(known));
                if core::mem::take(&mut self.address_lost) {
                    self.block.restart_syn();
                }
            }
            NetworkEvent::AddressDown { address } if address == ends.0.ip() => self.address_lost = true,
            _ => {}
        }
        self.notice();
    }

    fn released(&self) -> u64 {
        self.acknowledged()
    }

    fn report(&self) -> Report {
        Report {
            paths: vec![self.block.report(&*self.congestion)],
            arrivals: self.arrivals(),
            written: self.written,
            delivered: self.read,
            send_buffer: self.written - self.acknowledged(),
            receive_buffer: self.held().bytes,
            reordering_buffer: self.held().reordering,
            peer_window: self.block.peer_window(),
            extra: Vec::new(),
            fallback: false,
            network: Vec::new(),
        }
    }

    fn arrivals(&self) -> Vec<Arrival> {
        vec![self.block.arrival(self.block.new)]
    }

    fn limits(&self, now: Time) -> Limits {
        let limited = self.block.limiting.clock.up_to(now);
        let gaps = self.gap.up_to(now, 1);
        Limits { connection: limited, paths: vec![limited], buffers: Vec::new(), gaps }
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        (path == PathId(0)).then(|| self.block.report(&*self.congestion))
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        each(self.block.gauge(&*self.congestion));
    }

    fn entries_before(&self, packet: &Packet) -> u64 {
        match &packet.body {
            Body::Tcp(segment) if segment.payload.len > 0 => self.block.ranges_before(segment.seq),
            _ => 0,
        }
    }

    fn held(&self) -> Held {
        let reordering = self.block.out_of_order();
        Held { bytes: self.readable() + reordering, reordering }
    }
}
