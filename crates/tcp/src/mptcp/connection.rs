//! A Multipath TCP connection: subflows that are TCP blocks, one byte stream in each direction, scheduler, path
//! manager and congestion control.
//!
//! The driving interface is in `driving.rs`, input in `input.rs`, output in `output.rs`, addresses and subflows in
//! `paths.rs`.

use super::Config;
use super::data::{DataFin, ReceiveSpace, SendSpace};
use super::keys::Key;
use super::mapping::Placed;
use super::opening::Opening;
use super::subflow::{Confirmation, Handshake, Keys, Life, Resend, Subflow};
use crate::tcp::{Context, Route, State, Tcb, Tuple, of_connection};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Event, Placement, Reason, SchedulingDecision};
use anabranch_endpoint::gap::GapClock;
use anabranch_endpoint::limits::LimitClock;
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_multipath::PathId;
use anabranch_multipath::buffer::RangeSet;
use anabranch_multipath::buffer::StartUp;
use anabranch_multipath::congestion::CongestionControl;
use anabranch_multipath::path_manager::{Pair, PathManager};
use anabranch_multipath::scheduler::{PathState, Scheduler};
use anabranch_wire::BoxedIfSet;
use anabranch_wire::Packet;
use anabranch_wire::tcp::mptcp::{Control, Options};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// How long a connection without a subflow waits for a path to return, and a connection whose data has all arrived
/// for the ends of its subflows.
pub(super) const LINGER: Duration = Duration::from_secs(120);

/// Role of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// Phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// The initial subflow is being established.
    Opening,
    /// Multipath TCP is in use.
    Multipath,
    /// Plain TCP on the initial subflow (RFC 8684 §3.7).
    Plain,
    /// Closed, with the reason.
    Closed(Reason),
}

/// The other host's address under an identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteAddress {
    pub id: u8,
    pub at: SocketAddr,
    pub removed: bool,
}

/// A local address, whether it is up, and its pending announcement.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalAddress {
    pub address: Address,
    pub up: bool,
    /// An `ADD_ADDR` to send until it is echoed: when next, and how often it was sent.
    pub announce: Option<(Time, u32)>,
}

/// An option that is never acknowledged, to be sent a few times.
#[derive(Clone, Debug)]
pub(super) struct Repeated {
    pub control: Control,
    pub again: Resend,
}

/// Retransmission of data that was lost above the subflows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// End of the data sent before the repair began.
    pub until: u64,
    /// Bytes that were retransmitted at once.
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

/// Why data of the connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitCause {
    /// No path has room, or the scheduler prefers to wait.
    CongestionWindow,
    /// The peer's receive window is closed.
    ReceiveWindow,
}

/// State that was last reported to the application.
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
    pub(super) phase: ConnectionPhase,
    /// The connecting end: pairs of addresses over which it may begin.
    pub(super) opening: Opening,
    /// Congestion control of all subflows.
    pub(super) congestion: Box<dyn CongestionControl>,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) path_manager: Box<dyn PathManager>,
    /// Secrets of the host, from which the initial numbers of each subflow are derived.
    pub(super) secrets: Secrets,
    /// Secrets of this connection, from its beginning on: keys and nonces.
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
    /// Ranges of the stream that have arrived and wait, while a subflow holds some of them. Otherwise they are
    /// `receive.ahead`.
    pub(super) waiting: Option<RangeSet>,
    /// Data that is not in `receive` yet, where there are checksums.
    pub(super) placed: Placed,
    /// Placements of the last packet's data.
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
    /// Consecutive subflows that a middlebox made useless since data last made progress, in either direction.
    pub(super) futile: u32,
    /// When subflows that failed are tried again.
    pub(super) retry_at: Option<Time>,
    /// Time at which a connection without subflows ends.
    pub(super) linger_until: Option<Time>,
    /// Opportunistic retransmission may be disabled until start-up is over.
    pub(super) start_up: StartUp,
    /// Data in flight on slower paths has been retransmitted up to here.
    pub(super) opportunistic_to: u64,
    /// When that was done last.
    pub(super) opportunistic_at: Option<Time>,
    pub(super) closing: bool,
    pub(super) fast_closing: bool,
    /// No subflow other than the first has existed on which either end may have sent data.
    pub(super) alone: bool,
    /// A join is confirmed at this end, so the peer also knows of a second subflow. Until then each byte is sent once
    /// on the first subflow, because the peer may fall back to plain TCP on it.
    pub(super) shared: bool,
    /// As plain TCP: the peer is known to have fallen back once data beyond this position of the initial subflow is
    /// acknowledged.
    pub(super) plain_from: Option<u64>,
    /// As plain TCP: the peer has fallen back, too, since it sent an infinite mapping or none at all.
    pub(super) peer_is_plain: bool,
    /// The peer takes no joins at the address and port of the initial subflow (RFC 8684 §3.1, C).
    pub(super) refuses_joins: bool,
    pub(super) active: bool,
    /// Subflows that wait for a port.
    pub(super) portless: VecDeque<Pair>,
    pub(super) tally: Tally,
    pub(super) seen: Seen,
    /// Why data waits, as the last attempt to send found.
    pub(super) waiting_for: Option<WaitCause>,
    /// Times of the connection by cause.
    pub(super) clock: LimitClock,
    /// Times of gaps in the peer's data, and the offset behind the highest data that a subflow has acknowledged.
    pub(super) gap: GapClock,
    pub(super) arrived_to: u64,
    /// Since this time a full segment has had to wait for room on any path, or for a decision of the scheduler, and
    /// the only event was that the application wrote more.
    pub(super) waits: Option<Time>,
    pub(super) events: VecDeque<Event>,
    /// Scheduling decisions, if they are recorded.
    pub(super) decisions: Option<VecDeque<SchedulingDecision>>,
    /// Scratch of the output path: one state per subflow.
    pub(super) states: Vec<PathState>,
    /// Options of the last packet that arrived: their memory serves the next segment that is sent.
    pub(super) spare_options: BoxedIfSet<Options>,
    /// The data that waited at the last complete snapshot fills a segment on each path.
    pub(super) ample: bool,
    /// At this time, only the state of this path is out of date.
    pub(super) outdated: Option<(Time, PathId)>,
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
        connection.opening = Opening::between(ends);
        connection
    }

    /// The listening end: the first connection to any of its addresses is served.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        let unknown = SocketAddr::new(ends.first_local().0.ip(), 0);
        Self::new(config, (Role::Server, unknown), ends, secrets)
    }

    fn new(config: Config, (role, remote): (Role, SocketAddr), ends: &Ends, secrets: Secrets) -> Self {
        let start_up = StartUp::new(config.mechanisms_in_start_up);
        let locals =
            ends.local.iter().map(|&address| LocalAddress { address, up: true, announce: None }).collect();
        Self {
            checksum: config.checksum,
            congestion: config.tcp.congestion.build(),
            scheduler: (config.scheduler.build)(),
            path_manager: config.path_manager.build(),
            config,
            role,
            phase: ConnectionPhase::Opening,
            opening: Opening::default(),
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
            waiting: None,
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
            start_up,
            opportunistic_to: 0,
            opportunistic_at: None,
            closing: false,
            fast_closing: false,
            alone: true,
            shared: false,
            plain_from: None,
            peer_is_plain: false,
            refuses_joins: false,
            portless: VecDeque::new(),
            active: role == Role::Server,
            tally: Tally::default(),
            seen: Seen::default(),
            waiting_for: None,
            clock: LimitClock::default(),
            gap: GapClock::default(),
            arrived_to: 0,
            waits: None,
            events: VecDeque::new(),
            decisions: None,
            states: Vec::new(),
            spare_options: BoxedIfSet::default(),
            ample: false,
            outdated: None,
        }
    }

    /// The connection begins between these two endpoints: generates its key. No packet that could contain its token
    /// has arrived before.
    pub(super) fn begin(&mut self, now: Time, ends: Tuple) {
        self.random = of_connection(&self.secrets, now, ends);
        self.keys.local = Key::new(self.random.next_u64());
    }

    /// The token that identifies this connection in joins (RFC 8684 §3.2). It exists from the first SYN on. Tokens of
    /// a host are unique: the host refuses a new connection whose token is already in use, and the peer's next attempt
    /// has another token.
    pub const fn token(&self) -> u32 {
        self.keys.local.token
    }

    /// The subflows, dead ones included; the index is the path's identifier.
    pub fn blocks(&self) -> impl Iterator<Item = &Tcb> {
        self.subflows.iter().map(|s| &s.block)
    }

    /// The connection runs as plain TCP although Multipath TCP was requested.
    pub fn is_fallback(&self) -> bool {
        self.phase == ConnectionPhase::Plain
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

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Closed(_))
    }

    /// Both directions have ended, and both sides know.
    pub(super) fn is_done(&self) -> bool {
        self.send.fin == DataFin::Acknowledged && self.receive.finished()
    }

    /// Reports an event to the application; after the end there are none.
    pub(super) fn tell(&mut self, event: Event) {
        if !self.is_closed() {
            self.events.push_back(event);
        }
    }

    pub(super) fn finish(&mut self, reason: Reason) {
        if !self.is_closed() {
            self.tell_progress(); // the end may come with the last data
            self.tell(Event::Closed(reason));
            self.phase = ConnectionPhase::Closed(reason);
            self.data_timer = None;
            self.retry_at = None;
            self.linger_until = None;
            // Pending operations, a join for example, must not complete.
            for subflow in self.subflows.iter_mut().filter(|s| !s.is_dead() && !s.block.is_over()) {
                subflow.block.abort();
            }
        }
    }

    /// Notifies the application of data to read and room to write.
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

    /// Notifies the application of changes, and ends completed parts.
    pub(super) fn notice(&mut self) {
        self.tell_progress();
        if self.is_closed() {
            return;
        }
        let done = self.is_done();
        if done && self.phase == ConnectionPhase::Multipath {
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
        if !self.subflows.is_empty() && self.subflows.iter().all(over) && !self.opening.waits {
            self.on_last_subflow_over(done);
        }
    }

    fn on_last_subflow_over(&mut self, done: bool) {
        let last = self.subflows.iter().rev().find_map(|s| match s.block.state() {
            State::Closed(reason) => Some(reason),
            _ => None,
        });
        match self.phase {
            ConnectionPhase::Multipath if !done => {} // a path may return: see `linger_until`
            ConnectionPhase::Opening | ConnectionPhase::Plain => self.finish(last.unwrap_or(Reason::Closed)),
            _ => self.finish(Reason::Closed),
        }
    }
}
