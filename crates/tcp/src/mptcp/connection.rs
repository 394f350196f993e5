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
use super::requests::Requests;
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
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Control, Options};
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Time that a connection without a subflow waits for a path to return, and time that a connection with all data
/// delivered waits for its subflows to end.
pub(super) const LINGER_TIMEOUT: Duration = Duration::from_secs(120);

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
    /// The connection has ended, for this reason.
    Closed(Reason),
}

/// An address of the other host, with its address identifier (RFC 8684 §3.4.1).
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
    /// Pending `ADD_ADDR`: time of its next transmission and number of transmissions; `None` once the peer has echoed
    /// it.
    pub announce: Option<(Time, u32)>,
}

/// An option that the peer never acknowledges, and that is sent a few times for that reason.
#[derive(Clone, Debug)]
pub(super) struct Repeated {
    pub control: Control,
    pub again: Resend,
}

/// Retransmission of data that every subflow has delivered and no `DATA_ACK` covers: the receiver lost it above the
/// subflows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// End of the data sent before the repair began.
    pub until: u64,
    /// Bytes of the last burst; each further burst is twice as long.
    pub burst: u64,
}

/// Connection-level counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionCounters {
    pub opportunistic: u64,
    pub penalisations: u64,
    pub data_timeouts: u64,
    pub joins: u64,
    pub checksum_failures: u64,
}

/// Reason for which written data is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitCause {
    /// No path has room, or the scheduler prefers to wait.
    CongestionWindow,
    /// The peer's receive window is closed.
    ReceiveWindow,
}

/// State that was last reported to the application.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
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
    /// At the connecting end, pairs of addresses that the initial subflow may use.
    pub(super) opening: Opening,
    /// Congestion control of all subflows.
    pub(super) congestion: Box<dyn CongestionControl>,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) path_manager: Box<dyn PathManager>,
    /// Secrets of the host, from which the initial numbers of each subflow are derived.
    pub(super) secrets: Secrets,
    /// Secrets of this connection alone, from which its keys and nonces are drawn.
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
    /// Received ranges of the stream that the application cannot read yet. `None` while no subflow holds such data:
    /// then `receive.ahead` is complete.
    pub(super) waiting: Option<RangeSet>,
    /// With checksums: data that is stored and not part of `receive` yet.
    pub(super) placed: Placed,
    /// Placements of the last packet's data.
    pub(super) placements: VecDeque<Placement>,
    /// Options to send once, on any subflow.
    pub(super) control: VecDeque<Control>,
    /// Options to send a few times.
    pub(super) repeated: Vec<Repeated>,
    /// RSTs that answer segments of unknown subflows.
    pub(super) resets: VecDeque<Packet>,
    /// Deadline of the data-level retransmission or window probe.
    pub(super) data_timer: Option<Time>,
    pub(super) data_backoff: u32,
    /// Consecutive expiries of the data timer without any `DATA_ACK`.
    pub(super) unanswered_timeouts: u32,
    pub(super) repair: Option<Repair>,
    /// Consecutive subflows that a middlebox made useless. Progress of the data in either direction sets the number
    /// to 0.
    pub(super) futile: u32,
    /// Time of the next attempt to open a subflow that failed.
    pub(super) retry_at: Option<Time>,
    /// Time at which a connection without subflows ends.
    pub(super) linger_until: Option<Time>,
    /// Start-up of the connection; a setting can disable opportunistic retransmission until its end.
    pub(super) start_up: StartUp,
    /// Offset up to which opportunistic retransmission has copied data of slower paths.
    pub(super) opportunistic_to: u64,
    /// Time of the last opportunistic retransmission.
    pub(super) opportunistic_at: Option<Time>,
    pub(super) closing: bool,
    /// Subflow with an acknowledgement due, which carries the `DATA_ACK` of the peer's `DATA_FIN` before any FIN.
    pub(super) acknowledges_end: Option<usize>,
    pub(super) fast_closing: bool,
    /// True until there is a second subflow that may have carried data of either end.
    pub(super) has_one_subflow: bool,
    /// True once this end has confirmed a join, so that the peer knows of a second subflow. Until then each byte is
    /// sent once on the first subflow, because the peer may fall back to plain TCP on it.
    pub(super) shared: bool,
    /// After fallback: position on the initial subflow. An acknowledgement beyond it shows that the peer has fallen
    /// back, too.
    pub(super) plain_from: Option<u64>,
    /// After fallback: the peer has sent an infinite mapping, or a segment without mapping, so it has fallen back,
    /// too.
    pub(super) peer_is_plain: bool,
    /// The peer takes no joins at the address and port of the initial subflow (RFC 8684 §3.1, C).
    pub(super) refuses_joins: bool,
    pub(super) active: bool,
    /// Subflows that wait for a port.
    pub(super) portless: VecDeque<Pair>,
    pub(super) tally: ConnectionCounters,
    pub(super) requests: Requests,
    pub(super) seen: Reported,
    /// Reason for which data waits, found by the last attempt to send.
    pub(super) waiting_for: Option<WaitCause>,
    /// Times of the connection by the cause that limits sending.
    pub(super) clock: LimitClock,
    /// Times with a gap in the data that the peer has received.
    pub(super) gap: GapClock,
    pub(super) arrived_to: u64,
    /// Time since which no packet of data could be sent, although a full segment waits. Set while the only later
    /// events are writes of the application, which cannot change that.
    pub(super) blocked_since: Option<Time>,
    pub(super) events: VecDeque<Event>,
    /// Scheduling decisions, if the program records them.
    pub(super) decisions: Option<VecDeque<SchedulingDecision>>,
    /// States of the subflows for the scheduler, kept to reuse the memory.
    pub(super) states: Vec<PathState>,
    /// The initial sequence number and the key that a SYN cookie has determined.
    pub(super) cookie: Option<(Serial, u64)>,
    /// Options of the last packet that arrived, kept so that the next sent segment reuses their memory.
    pub(super) spare_options: BoxedIfSet<Options>,
    /// True if the waiting data would fill a segment on each path, as of the last complete snapshot.
    pub(super) ample: bool,
    /// The snapshot taken at this time is valid for all paths except this one.
    pub(super) outdated: Option<(Time, PathId)>,
}

impl Connection {
    /// Creates the connecting end. The initial subflow goes from the first local address to the first remote one. All
    /// connections of a host get the same secrets.
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

    /// Creates the listening end, which accepts the first connection to any of its addresses.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Self {
        let unknown = SocketAddr::new(ends.first_local().0.ip(), 0);
        Self::new(config, (Role::Server, unknown), ends, secrets)
    }

    /// Sets the initial sequence number and the key, for a listening end that a host creates from a SYN cookie, as
    /// [`tcp::Connection::with_initial_sequence`](crate::tcp::Connection::with_initial_sequence) does.
    #[must_use]
    pub const fn with_cookie(mut self, number: u32, key: u64) -> Self {
        self.cookie = Some((Serial(number), key));
        self
    }

    fn new(config: Config, (role, remote): (Role, SocketAddr), ends: &Ends, secrets: Secrets) -> Self {
        let start_up = StartUp::new(config.mechanisms_in_start_up);
        let locals =
            ends.local.iter().map(|&address| LocalAddress { address, up: true, announce: None }).collect();
        Self {
            checksum: config.checksum,
            congestion: config.tcp.congestion.build(),
            scheduler: (config.scheduler.build)(),
            path_manager: config.path_manager.build(config.source_routes.len()),
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
            unanswered_timeouts: 0,
            repair: None,
            futile: 0,
            retry_at: None,
            linger_until: None,
            start_up,
            opportunistic_to: 0,
            opportunistic_at: None,
            closing: false,
            acknowledges_end: None,
            fast_closing: false,
            has_one_subflow: true,
            shared: false,
            plain_from: None,
            peer_is_plain: false,
            refuses_joins: false,
            portless: VecDeque::new(),
            active: role == Role::Server,
            tally: ConnectionCounters::default(),
            requests: Requests::default(),
            seen: Reported::default(),
            waiting_for: None,
            clock: LimitClock::default(),
            gap: GapClock::default(),
            arrived_to: 0,
            blocked_since: None,
            events: VecDeque::new(),
            decisions: None,
            states: Vec::new(),
            cookie: None,
            spare_options: BoxedIfSet::default(),
            ample: false,
            outdated: None,
        }
    }

    /// Generates the key, now that both endpoints of the initial subflow are known. No earlier packet can contain the
    /// token of this key.
    pub(super) fn begin(&mut self, now: Time, ends: Tuple) {
        self.random = of_connection(&self.secrets, now, ends);
        let drawn = self.random.next_u64();
        self.keys.local = Key::new(self.cookie.map_or(drawn, |(_, key)| key));
    }

    /// Token that identifies this connection in joins (RFC 8684 §3.2). It exists from the first SYN on. Tokens are
    /// unique on a host: the host refuses a new connection whose token is in use, and the peer's next attempt has
    /// another token.
    pub const fn token(&self) -> u32 {
        self.keys.local.token
    }

    /// All subflows, including dead ones, in the order of their path identifiers.
    pub fn blocks(&self) -> impl Iterator<Item = &Tcb> {
        self.subflows.iter().map(|s| &s.block)
    }

    /// Returns true if the connection runs as plain TCP although Multipath TCP was requested.
    pub fn is_fallback(&self) -> bool {
        self.phase == ConnectionPhase::Plain
    }

    /// Receive window to advertise, in bytes from the next expected byte. The right edge never moves back, and moves
    /// forward in useful steps only (RFC 9293 §3.8.6.2.2).
    pub(super) fn receive_window(&self) -> u64 {
        let buffer = self.config.tcp.receive_buffer;
        let edge = self.receive.read + buffer;
        let step = u64::from(self.locals[0].address.mtu).min(buffer / 2);
        let edge = if edge < self.receive.edge + step { self.receive.edge } else { edge };
        edge - self.receive.nxt.min(edge)
    }

    /// Calls `f` with the block of a subflow and the context that the block needs.
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

    /// Returns true once both directions have ended and both ends know it.
    pub(super) fn is_done(&self) -> bool {
        self.send.fin == DataFin::Acknowledged && self.receive.finished()
    }

    /// Queues an event for the application, unless the connection is closed.
    pub(super) fn notify(&mut self, event: Event) {
        if !self.is_closed() {
            self.events.push_back(event);
        }
    }

    pub(super) fn finish(&mut self, reason: Reason) {
        if !self.is_closed() {
            self.notify_progress(); // the last data and the end may arrive together
            self.notify(Event::Closed(reason));
            self.phase = ConnectionPhase::Closed(reason);
            self.data_timer = None;
            self.retry_at = None;
            self.linger_until = None;
            // Operations that are still pending, such as a join, must not complete after the end.
            for subflow in self.subflows.iter_mut().filter(|s| !s.is_dead() && !s.block.is_over()) {
                subflow.block.abort();
            }
        }
    }

    /// Notifies the application of readable data, of room to write, and of the established connection.
    fn notify_progress(&mut self) {
        if self.receive.nxt > self.seen.readable {
            self.seen.readable = self.receive.nxt;
            self.notify(Event::Readable);
        }
        if self.receive.finished() && !self.seen.finished {
            self.seen.finished = true;
            self.notify(Event::Finished);
        }
        if self.seen.starved && self.send_space() > 0 {
            self.seen.starved = false;
            self.notify(Event::Writable);
        }
    }

    /// Notifies the application of changes, and closes subflows and connection when their data is complete.
    pub(super) fn notice(&mut self) {
        self.notify_progress();
        if self.is_closed() {
            return;
        }
        let done = self.is_done();
        if done && self.phase == ConnectionPhase::Multipath {
            // RFC 8684 §3.3.3: once both ends have acknowledged the `DATA_FIN` of the other, the subflows are closed.
            for (index, subflow) in self.subflows.iter_mut().enumerate() {
                match subflow.life {
                    Life::Up { .. } => {
                        if subflow.block.wants_ack() {
                            self.acknowledges_end = Some(index);
                        }
                        subflow.life = Life::Closing;
                        subflow.block.close();
                    }
                    Life::Opening => subflow.block.abort(),
                    Life::Closing | Life::Dead | Life::ResetPending => {}
                }
            }
        }
        let over = |s: &Subflow| s.is_dead() || s.block.is_over();
        if !self.subflows.is_empty() && self.subflows.iter().all(over) && !self.opening.needs_port {
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
