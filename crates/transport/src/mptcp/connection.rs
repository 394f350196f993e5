//! A Multipath TCP connection: subflows that are TCP blocks, one byte stream each way, and the deciders.
//!
//! What arrives is in `input.rs`, what leaves in `output.rs`, addresses and subflows in `paths.rs`.

use super::config::Config;
use super::data::{DataFin, ReceiveSpace, SendSpace};
use super::keys::Key;
use super::mapping::Placed;
use super::subflow::{Confirmation, Handshake, Keys, Life, Resend, Subflow};
use crate::blocked::{Blocked, Cause, Waits};
use crate::endpoint::{
    Delivery, Endpoint, Event, Gauge, Held, NetworkEvent, PathReport, Placement, Quote, Reason, Report,
    Scheduled, Write,
};
use crate::tcp::{Context, Numbers, Route, State, Tcb, Tuple, of_connection};
use crate::{Address, Ends, Secrets};
use core::net::{IpAddr, SocketAddr};
use multipath::PathId;
use multipath::congestion::CongestionControl;
use multipath::path_manager::{Pair, PathManager};
use multipath::scheduler::{PathState, Scheduler};
use multipath::time::{Duration, Time};
use std::collections::VecDeque;
use wire::seq::Serial;
use wire::tcp::mptcp::Control;
use wire::{Content, Packet};

/// A connection without a single subflow is kept this long for a path to come back.
pub(super) const LINGER: Duration = Duration::from_secs(120);

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The initial subflow is being established.
    Opening,
    /// Multipath TCP is in use.
    Multipath,
    /// Plain TCP on the initial subflow (RFC 8684 §3.7).
    Plain,
    /// Over, and why.
    Closed(Reason),
}

/// The other host's address under an identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteAddress {
    pub id: u8,
    pub at: SocketAddr,
    pub removed: bool,
}

/// Our address and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalAddress {
    pub address: Address,
    pub up: bool,
    /// An `ADD_ADDR` to send until it is echoed: when next, and how often it was sent.
    pub announce: Option<(Time, u32)>,
}

/// An option that nothing acknowledges, to be sent a few times.
#[derive(Clone, Debug)]
pub(super) struct Repeated {
    pub control: Control,
    pub again: Resend,
}

/// Data is sent again that was lost above the subflows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// What was sent until it began ends here.
    pub until: u64,
    /// Bytes that were sent again at once.
    pub burst: u64,
}

/// Connection-level counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub opportunistic: u64,
    pub penalisations: u64,
    pub data_timeouts: u64,
    pub joins: u64,
    pub checksum_failures: u64,
}

/// What the application has been told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub readable: u64,
    pub finished: bool,
    pub starved: bool,
    pub connected: bool,
}

/// One end of a Multipath TCP connection. See [`Endpoint`] for how to drive it.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) role: Role,
    pub(super) phase: Phase,
    /// Over all subflows.
    pub(super) congestion: Box<dyn CongestionControl>,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) path_manager: Box<dyn PathManager>,
    /// Of the host; what each subflow begins with comes from it.
    pub(super) secrets: Secrets,
    /// Of this connection, from its beginning on: keys and nonces.
    pub(super) random: Secrets,
    pub(super) port: u16,
    /// Address and port that the client connects to first.
    pub(super) remote: SocketAddr,
    pub(super) keys: Keys,
    pub(super) checksum: bool,
    pub(super) subflows: Vec<Subflow>,
    pub(super) locals: Vec<LocalAddress>,
    pub(super) remotes: Vec<RemoteAddress>,
    pub(super) send: SendSpace,
    pub(super) receive: ReceiveSpace,
    /// Data that is not in `receive` yet, where there are checksums.
    pub(super) placed: Placed,
    /// Of the last packet.
    pub(super) placements: VecDeque<Placement>,
    /// Options to send once, on any subflow.
    pub(super) control: VecDeque<Control>,
    /// Options to send a few times.
    pub(super) repeated: Vec<Repeated>,
    /// Packets for subflows that do not exist.
    pub(super) resets: VecDeque<Packet>,
    /// Data-level retransmission and window probes.
    pub(super) data_timer: Option<Time>,
    pub(super) data_backoff: u32,
    /// Expiries of the data timer in a row without any `DATA_ACK`.
    pub(super) silence: u32,
    pub(super) repair: Option<Repair>,
    /// Subflows that something on the way made useless since data last made progress, in either direction.
    pub(super) futile: u32,
    /// When subflows that failed are tried again.
    pub(super) retry_at: Option<Time>,
    /// When a connection without subflows is given up.
    pub(super) linger_until: Option<Time>,
    /// Offset that was last sent again for a closed window.
    pub(super) opportunistic_at: Option<u64>,
    pub(super) closing: bool,
    pub(super) fast_closing: bool,
    /// There has been no subflow but the first that either end may have sent data on.
    pub(super) alone: bool,
    /// As plain TCP: what follows this position of the initial subflow has to be acknowledged before the peer is believed to
    /// know.
    pub(super) plain_from: Option<u64>,
    /// The peer takes no joins at the address and port of the initial subflow (RFC 8684 §3.1, C).
    pub(super) refuses_joins: bool,
    /// Pairs of a local and a remote address that no route connects.
    pub(super) unroutable: Vec<(IpAddr, IpAddr)>,
    pub(super) active: bool,
    /// Subflows that wait for a port.
    pub(super) portless: VecDeque<Pair>,
    pub(super) tally: Tally,
    pub(super) seen: Seen,
    pub(super) blocked: Blocked<Cause, 2>,
    pub(super) events: VecDeque<Event>,
    /// Scheduling decisions, if somebody asked for them.
    pub(super) decisions: Option<VecDeque<Scheduled>>,
    /// Scratch of the output path: one state per subflow.
    pub(super) states: Vec<PathState>,
}

impl Connection {
    /// The connecting end: the initial subflow goes from its first address to the other end's first. A host hands the
    /// same secrets to all its connections.
    pub fn connecting(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        let ((local, mtu), remote) = (ends.first_local(), ends.first_remote());
        let mut connection = Self::new(config, (Role::Client, remote), ends, secrets);
        let route = Route { local, remote, path: PathId(0), mtu };
        let block = Tcb::client(connection.config.tcp.clone(), route);
        let handshake = Handshake::Capable(Confirmation::Awaited);
        let backup = ends.local[0].backup;
        connection.install(Time::ZERO, 0, Subflow::new(block, Pair::default(), handshake, backup));
        connection.remotes.push(RemoteAddress { id: 0, at: remote, removed: false });
        connection
    }

    /// The listening end: the first connection to any of its addresses is served.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        let unknown = SocketAddr::new(ends.first_local().0.ip(), 0);
        Self::new(config, (Role::Server, unknown), ends, secrets)
    }

    /// No subflow is tried between these pairs of a local and a remote address: the host knows that no route connects them.
    #[must_use]
    pub fn with_unroutable(mut self, pairs: Vec<(IpAddr, IpAddr)>) -> Self {
        self.unroutable = pairs;
        self
    }

    fn new(config: Config, (role, remote): (Role, SocketAddr), ends: &Ends, secrets: Secrets) -> Self {
        let locals =
            ends.local.iter().map(|&address| LocalAddress { address, up: true, announce: None }).collect();
        Self {
            checksum: config.checksum,
            congestion: config.tcp.congestion.build(),
            scheduler: (config.scheduler.build)(),
            path_manager: config.path_manager.build(),
            config,
            role,
            phase: Phase::Opening,
            random: secrets.clone(),
            secrets,
            port: ends.local_port,
            remote,
            keys: Keys { local: Key::new(0), remote: None },
            subflows: Vec::new(),
            locals,
            remotes: Vec::new(),
            send: SendSpace::default(),
            receive: ReceiveSpace::default(),
            placed: Placed::default(),
            placements: VecDeque::new(),
            control: VecDeque::new(),
            repeated: Vec::new(),
            resets: VecDeque::new(),
            data_timer: None,
            data_backoff: 0,
            silence: 0,
            repair: None,
            futile: 0,
            retry_at: None,
            linger_until: None,
            opportunistic_at: None,
            closing: false,
            fast_closing: false,
            alone: true,
            plain_from: None,
            refuses_joins: false,
            unroutable: Vec::new(),
            portless: VecDeque::new(),
            active: role == Role::Server,
            tally: Tally::default(),
            seen: Seen::default(),
            blocked: Blocked::default(),
            events: VecDeque::new(),
            decisions: None,
            states: Vec::new(),
        }
    }

    /// The connection begins between these two ends: its key is drawn. Nothing that could name it has arrived before.
    pub(super) fn begin(&mut self, now: Time, ends: Tuple) {
        self.random = of_connection(&self.secrets, now, ends);
        self.keys.local = Key::new(self.random.next_u64());
    }

    /// Names this connection to joins (RFC 8684 §3.2), from its beginning on. A host has one connection of each name: one
    /// that begins with a name already taken it refuses, and the peer's next attempt gets another.
    pub const fn token(&self) -> u32 {
        self.keys.local.token
    }

    /// The subflows, dead ones included; the index is the path's identifier.
    pub fn blocks(&self) -> impl Iterator<Item = &Tcb> {
        self.subflows.iter().map(|s| &s.block)
    }

    /// The connection runs as plain TCP although more was asked for.
    pub fn is_fallback(&self) -> bool {
        self.phase == Phase::Plain
    }

    /// The receive window to advertise, bytes from the next byte expected. It never shrinks, and opens in useful
    /// steps only (RFC 9293 §3.8.6.2.2).
    pub(super) fn receive_window(&self) -> u64 {
        let buffer = self.config.tcp.receive_buffer;
        let edge = self.receive.read + buffer;
        let step = u64::from(self.locals[0].address.mtu).min(buffer / 2);
        let edge = if edge < self.receive.edge + step { self.receive.edge } else { edge };
        edge - self.receive.nxt.min(edge)
    }

    /// Runs `f` with the block of a subflow and the context it needs.
    pub(super) fn with_block<T>(
        &mut self,
        now: Time,
        index: usize,
        f: impl FnOnce(&mut Tcb, &mut Context<'_>) -> T,
    ) -> T {
        let receive_window = self.receive_window();
        let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
        f(&mut self.subflows[index].block, &mut context)
    }

    /// The subflow whose packet an ICMP error quotes.
    fn quoted(&self, quote: &Quote) -> Option<usize> {
        let ours = |s: &Subflow| (s.block.local(), s.block.remote()) == (quote.local, quote.remote);
        self.subflows.iter().position(|s| !s.is_dead() && ours(s))
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// Both directions are at their end, and both sides know.
    pub(super) fn is_done(&self) -> bool {
        self.send.fin == DataFin::Acknowledged && self.receive.finished()
    }

    /// The application learns of an event; after the end there are none.
    pub(super) fn tell(&mut self, event: Event) {
        if !self.is_closed() {
            self.events.push_back(event);
        }
    }

    pub(super) fn finish(&mut self, reason: Reason) {
        if !self.is_closed() {
            self.tell_progress(); // the end may come with the last data
            self.tell(Event::Closed(reason));
            self.phase = Phase::Closed(reason);
            self.data_timer = None;
            self.retry_at = None;
            self.linger_until = None;
            // What is still under way, a join for example, must not come to life.
            for subflow in self.subflows.iter_mut().filter(|s| !s.is_dead() && !s.block.is_over()) {
                subflow.block.abort();
            }
        }
    }

    /// Tells the application what it can read and write.
    fn tell_progress(&mut self) {
        if self.receive.nxt > self.seen.readable {
            self.seen.readable = self.receive.nxt;
            self.tell(Event::Readable);
        }
        if self.receive.finished() && !self.seen.finished {
            self.seen.finished = true;
            self.tell(Event::Finished);
        }
        if self.seen.starved && self.send_space() > 0 {
            self.seen.starved = false;
            self.tell(Event::Writable);
        }
    }

    /// Tells the application what changed, and ends what is done.
    pub(super) fn notice(&mut self) {
        self.tell_progress();
        if self.is_closed() {
            return;
        }
        let done = self.is_done();
        if done && self.phase == Phase::Multipath {
            // RFC 8684 §3.3.3: both directions are done, so the subflows end.
            for subflow in &mut self.subflows {
                match subflow.life {
                    Life::Up { .. } => {
                        subflow.life = Life::Closing;
                        subflow.block.close();
                    }
                    Life::Opening => subflow.block.abort(),
                    Life::Closing | Life::Dead | Life::ResetPending => {}
                }
            }
        }
        let over = |s: &Subflow| s.is_dead() || s.block.is_over();
        if !self.subflows.is_empty() && self.subflows.iter().all(over) {
            self.on_last_subflow_over(done);
        }
    }

    fn on_last_subflow_over(&mut self, done: bool) {
        let last = self.subflows.iter().rev().find_map(|s| match s.block.state() {
            State::Closed(reason) => Some(reason),
            _ => None,
        });
        match self.phase {
            Phase::Multipath if !done => {} // it may come back: see `linger_until`
            Phase::Opening | Phase::Plain => self.finish(last.unwrap_or(Reason::Closed)),
            _ => self.finish(Reason::Closed),
        }
    }
}

impl Endpoint for Connection {
    fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) {
        self.placements.clear();
        self.on_packet(now, &packet, content);
        // The peer may have lost a subflow whose FIN is awaited here. All data is where it belongs: that ends by itself.
        if self.phase == Phase::Multipath && self.is_done() {
            self.linger_until.get_or_insert(now + LINGER);
        }
        self.notice();
    }

    fn poll_placement(&mut self) -> Option<Placement> {
        self.placements.pop_front()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.on_timeout(now);
        self.notice();
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        if self.active { self.poll(now) } else { None }
    }

    fn next_timeout(&self) -> Option<Time> {
        let mut next = Time::MAX;
        let mut consider = |at: Option<Time>| {
            if let Some(at) = at {
                next = next.min(at);
            }
        };
        consider(self.data_timer);
        consider(self.retry_at);
        consider(self.linger_until);
        for subflow in &self.subflows {
            // Of a dead one nothing but its TIME-WAIT may remain.
            consider(subflow.block.next_timeout());
            if !subflow.is_dead() && !subflow.block.is_over() {
                consider(subflow.next_repetition());
            }
        }
        // Before and after the multipath phase nothing is announced, and what is due must not wake anyone.
        if self.phase == Phase::Multipath {
            consider(self.next_signal());
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
        // A subflow has no gaps: what it has not got acknowledged it sends again, even if another has brought the data.
        let unacknowledged = |subflow: &Subflow| subflow.sent.iter().map(|mapping| mapping.data).min();
        let oldest =
            self.subflows.iter().filter(|subflow| !subflow.is_dead()).filter_map(unacknowledged).min();
        oldest.map_or(self.send.una, |oldest| oldest.min(self.send.una))
    }

    fn send_space(&self) -> u64 {
        if self.closing || !matches!(self.phase, Phase::Multipath | Phase::Plain) {
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
        self.tell_window();
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
        match self.phase {
            // A client that began gets its answer first.
            Phase::Opening if self.role == Role::Server && !self.subflows.is_empty() => {}
            Phase::Opening => self.finish(Reason::Closed),
            Phase::Multipath => self.send.fin = DataFin::Wanted,
            Phase::Plain => self.subflows.iter_mut().filter(|s| !s.is_dead()).for_each(|s| s.block.close()),
            Phase::Closed(_) => {}
        }
        self.notice();
    }

    fn abort(&mut self, _now: Time) {
        self.closing = true;
        self.fast_close();
        self.notice();
    }

    fn handle_network(&mut self, now: Time, event: NetworkEvent) {
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
                    if self.subflows[index].block.is_over() {
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
        self.on_port(now, port);
    }

    fn keep_decisions(&mut self) {
        self.decisions.get_or_insert_default();
    }

    fn poll_decision(&mut self) -> Option<Scheduled> {
        self.decisions.as_mut()?.pop_front()
    }

    fn report(&self) -> Report {
        Report {
            paths: (0..self.subflows.len()).filter_map(|i| self.path(PathId(i as u8))).collect(),
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
            ],
            fallback: self.is_fallback(),
        }
    }

    fn blocked(&self, now: Time) -> Waits {
        Waits {
            connection: self.blocked.report(now),
            paths: self.subflows.iter().map(|subflow| subflow.blocked.report(now)).collect(),
        }
    }

    fn path(&self, path: PathId) -> Option<PathReport> {
        let subflow = self.subflows.get(path.index())?;
        let mut report = subflow.block.report(&*self.congestion);
        report.usable = subflow.is_usable();
        report.backup = subflow.backup;
        report.counters.bytes_new = subflow.new;
        Some(report)
    }

    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        for subflow in &self.subflows {
            each(subflow.block.gauge(&*self.congestion));
        }
    }

    fn held(&self) -> Held {
        let reordering = self.waiting();
        Held { bytes: self.readable() + reordering, reordering }
    }
}
