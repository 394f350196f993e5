//! The transmission control block: state and timers of one TCP connection or Multipath TCP subflow.
//!
//! It owns sequence numbers, the scoreboard, reassembly and timers. Its owner, a TCP or an MPTCP connection, passes
//! the data to send, the window to advertise and the congestion control with each call (see [`Context`]). Input is in
//! `input.rs`, output in `output.rs`, loss detection in `recovery.rs` and `rack.rs`.

use super::autotuning::EchoAge;
use super::deadlines::{Life, Timers};
use super::limiting::Limiting;
use super::phase::{Prr, RecoveryPhase};
use super::rack::Rack;
use super::receiver::Receiver;
use super::scoreboard::Scoreboard;
use super::suspect::Suspect;
use super::time_wait::TimeWaitState;
use super::window_use::WindowUse;
use super::{Config, Numbers, Tuple};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Arrival, Counters, Gauge, PathReport, Reason};
use anabranch_endpoint::rate::PathRate;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{CongestionControl, PathSetup, Rules};
use anabranch_multipath::rtt::RttEstimator;
use anabranch_wire::Payload;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Segment};
use core::net::SocketAddr;

/// Connection states (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent, or is about to be.
    SynSent,
    /// A SYN was received, the handshake is not complete.
    SynReceived,
    /// Data flows.
    Established,
    /// This side closed; its FIN is not acknowledged.
    FinWait1,
    /// This side closed; its FIN is acknowledged.
    FinWait2,
    /// The other side closed.
    CloseWait,
    /// Both closed at once; this side's FIN is not acknowledged.
    Closing,
    /// The other side closed, then this one; its FIN is not acknowledged.
    LastAck,
    /// Waiting until old segments have left the network.
    TimeWait,
    /// Closed, with the reason.
    Closed(Reason),
}

/// Values that the owner of a control block passes with each call.
#[derive(Debug)]
pub struct Context<'a> {
    /// The current time.
    pub now: Time,
    /// The connection's congestion control.
    pub congestion: &'a mut dyn CongestionControl,
    /// The receive window to advertise, in bytes from the next byte expected in order.
    pub receive_window: u64,
}

/// Addresses, ports and path of a control block's segments.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// The path's identifier.
    pub path: PathId,
    /// Largest IP packet that may be sent, bytes.
    pub mtu: u32,
}

/// Options negotiated in the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    /// Both sides scale their windows.
    pub scaling: bool,
    /// Shift of the windows that the peer advertises.
    pub send_shift: u8,
    /// Shift of the windows advertised to the peer.
    pub receive_shift: u8,
}

/// Progress of this side's FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    NotYet,
    Wanted,
    Sent,
}

/// State of ECN, as sender and as receiver (RFC 3168).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// Receiver: ECE is set until the sender answers with CWR.
    pub echo: bool,
    /// Sender: the next segment announces the reduced window (CWR).
    pub reduced: bool,
    /// Sender: no further reduction before this offset is acknowledged.
    pub reduced_until: u64,
}

/// State of the timestamps (RFC 7323 §4 and §5).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Offset added to the clock, which hides the uptime.
    pub offset: u32,
    /// The peer's timestamp to echo, and its time of arrival.
    pub recent: u32,
    pub recent_at: Time,
    /// Position of the last acknowledgement sent.
    pub last_ack: u64,
    /// Measures the age of the timestamps that data echoes.
    pub age: EchoAge,
}

/// The receive window that the peer advertises.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerWindow {
    /// Bytes from the lowest unacknowledged one.
    pub bytes: u64,
    /// Largest window advertised, for sender-side silly window avoidance (RFC 9293 §3.8.6.2.1).
    pub max: u64,
    /// Position and acknowledgement of the segment that set the window (SND.WL1, SND.WL2).
    pub set_by: (u64, u64),
}

/// A transmission control block.
#[derive(Debug)]
pub struct Tcb {
    pub(super) config: Config,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) path: PathId,
    /// Assumed path MTU: largest IP packet, bytes.
    pub(super) mtu: u32,
    /// Largest IP packet of the interface, bytes.
    pub(super) interface_mtu: u32,
    pub(super) state: State,
    pub(super) agreed: Agreed,
    /// True for a subflow: the window is the connection's, and the block does no flow control (RFC 8684 §3.3.5).
    pub(super) shared_window: bool,
    /// Option bytes that the owner adds: to segments with data, and to those without.
    pub(super) reserved: (u32, u32),
    /// Bytes of options in the IP header of every packet that this end sends.
    pub(super) ip_options: u32,
    /// Largest payload of a segment.
    pub(super) mss: u32,
    /// Largest segment that the peer accepts, from its MSS option.
    pub(super) peer_mss: u32,

    /// Sequence number of the first data byte; positions count from it.
    pub(super) first: Serial,
    /// Lowest unacknowledged position.
    pub(super) una: u64,
    /// Next position to send.
    pub(super) nxt: u64,
    pub(super) fin: Fin,
    pub(super) peer: PeerWindow,
    pub(super) board: Scoreboard,
    pub(super) phase: RecoveryPhase,
    pub(super) prr: Prr,
    pub(super) rack: Rack,
    /// The last reaction to a loss or timeout, while it may prove spurious.
    pub(super) suspect: Option<Suspect>,
    /// Rate samples and pacing, if congestion control uses them.
    pub(super) rate: Option<Box<PathRate>>,
    /// True if congestion control uses samples of delay.
    pub(super) tells_delays: bool,
    /// Consecutive duplicate acknowledgements.
    pub(super) duplicates: u32,
    pub(super) used: WindowUse,
    pub(super) last_sent: Time,
    pub(super) rtt: RttEstimator,
    /// Consecutive timeouts without an acknowledgement.
    pub(super) attempts: u32,
    /// An ICMP message reported the peer as unreachable, and the peer has sent nothing since.
    pub(super) unreachable: bool,
    pub(super) ecn: EcnState,
    pub(super) clock: Clock,
    pub(super) timers: Timers,
    pub(super) life: Life,
    pub(super) receiver: Receiver,
    /// A SYN or SYN/ACK is due.
    pub(super) syn_due: bool,
    /// Send time of the SYN; `None` once it was retransmitted.
    pub(super) syn_sent_at: Option<Time>,
    /// SYNs sent.
    pub(super) syns: u32,
    /// Fixed interval between SYNs after the second, instead of exponential backoff.
    pub(super) syn_interval: Option<Duration>,
    /// A window probe is due.
    pub(super) probe_due: bool,
    /// True if one segment may be retransmitted regardless of the congestion window: at the start of a recovery,
    /// after a partial acknowledgement, or after a timeout.
    pub(super) force: bool,
    /// RST to send: sequence number and, with ACK, acknowledgement number.
    pub(super) reset: Option<(Serial, Option<Serial>)>,
    pub(super) counters: Counters,
    /// New payload bytes received.
    pub(super) new: u64,
    /// Times by cause.
    pub(crate) limiting: Limiting,
}

impl Tcb {
    fn new(config: Config, route: Route) -> Self {
        let Route { local, remote, path, mtu } = route;
        let rtt = RttEstimator::new(config.rto);
        let header = if local.is_ipv4() { 40 } else { 60 };
        let peer_mss = mtu.saturating_sub(header);
        Self {
            local,
            remote,
            path,
            mtu,
            interface_mtu: mtu,
            state: State::Listen,
            agreed: Agreed::default(),
            shared_window: false,
            reserved: (0, 0),
            ip_options: 0,
            mss: peer_mss,
            peer_mss,
            first: Serial(0),
            una: 0,
            nxt: 0,
            fin: Fin::NotYet,
            peer: PeerWindow::default(),
            board: Scoreboard::default(),
            phase: RecoveryPhase::Open,
            prr: Prr::default(),
            rack: Rack::new(),
            suspect: None,
            rate: None,
            tells_delays: false,
            duplicates: 0,
            used: WindowUse::default(),
            last_sent: Time::ZERO,
            rtt,
            attempts: 0,
            unreachable: false,
            ecn: EcnState::default(),
            clock: Clock::default(),
            timers: Timers::default(),
            life: Life::default(),
            receiver: Receiver::new(),
            syn_due: false,
            syn_sent_at: None,
            syns: 0,
            syn_interval: None,
            probe_due: false,
            force: false,
            reset: None,
            counters: Counters::default(),
            new: 0,
            limiting: Limiting::default(),
            config,
        }
    }

    /// Creates a block of the connecting side. [`begin`](Self::begin) must follow before anything else.
    pub fn client(config: Config, route: Route) -> Self {
        let mut block = Self::new(config, route);
        block.state = State::SynSent;
        block.syn_due = true;
        block
    }

    /// Creates a block of the listening side, whose first SYN determines the peer. [`begin`](Self::begin) must
    /// precede it.
    pub fn server(config: Config, (local, mtu): (SocketAddr, u32), path: PathId) -> Self {
        let remote = SocketAddr::new(local.ip(), 0);
        Self::new(config, Route { local, remote, path, mtu })
    }

    /// Sets the initial numbers.
    pub fn begin(&mut self, numbers: Numbers) {
        self.first = numbers.sequence.add(1);
        self.clock.offset = numbers.timestamps;
    }

    /// Makes this block a subflow, whose receive window belongs to the connection.
    pub fn share_window(&mut self) {
        self.shared_window = true;
    }

    /// Undoes [`share_window`](Self::share_window) when the connection falls back to plain TCP on this block.
    pub fn own_window(&mut self) {
        self.shared_window = false;
    }

    /// Reserves space for the owner's option bytes: in segments with payload, and in those without.
    pub fn reserve_options(&mut self, congestion: &mut dyn CongestionControl, reserved: (u32, u32)) {
        self.reserved = reserved;
        self.update_mss();
        if self.is_synchronised() {
            congestion.set_mss(self.path, self.mss);
        }
    }

    /// Reserves space for options in the IP header of every packet (RFC 9293 §3.7.1); the owner adds them. It must precede
    /// [`begin`](Self::begin) and [`reserve_options`](Self::reserve_options).
    pub fn reserve_ip_options(&mut self, bytes: u32) {
        self.ip_options = bytes;
    }

    /// Bytes of IP and TCP header without options.
    pub(super) fn header(&self) -> u32 {
        if self.local.is_ipv4() { 40 } else { 60 }
    }

    pub(super) fn update_mss(&mut self) {
        let options = if self.agreed.timestamps { 12 } else { 0 } + self.reserved.0 + self.ip_options;
        let space = self.mtu.saturating_sub(self.header()).min(self.peer_mss);
        self.mss = space.saturating_sub(options).max(1);
    }

    /// Parameters of this path for congestion control.
    pub(super) fn path_setup(&self) -> PathSetup {
        let mss = u64::from(self.mss);
        // RFC 5681 §3.1: after a lost SYN the initial window is one segment.
        let segments = if self.attempts > 0 { 1 } else { u64::from(self.config.initial_window) };
        PathSetup {
            mss: self.mss,
            initial_window: segments * mss,
            initial_ssthresh: u64::MAX,
            rules: Rules::Tcp,
            floor: self.config.ssthresh_floor,
            abc_limit: self.config.abc_limit,
            whole_packets: self.config.whole_packets,
        }
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// The path's identifier.
    pub fn path(&self) -> PathId {
        self.path
    }

    /// Local address and port.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Remote address and port.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns true if this end may send and receive data. The peer may have closed.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait)
    }

    /// Returns true between the end of the handshake and the end of the connection.
    #[inline]
    pub fn is_synchronised(&self) -> bool {
        !matches!(self.state, State::Listen | State::SynSent | State::SynReceived | State::Closed(_))
    }

    /// Returns true if the block is closed or in TIME-WAIT.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Closed(_) | State::TimeWait)
    }

    /// Bytes in flight.
    pub fn outstanding(&self) -> u64 {
        self.board.pipe()
    }

    /// Lowest unacknowledged position; a FIN counts one.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// Next position to be sent.
    pub fn sent(&self) -> u64 {
        self.nxt
    }

    /// In-order bytes received, the FIN not counted.
    pub fn received(&self) -> u64 {
        self.receiver.data()
    }

    /// Returns true if the peer's FIN and all data before it have arrived.
    pub fn peer_finished(&self) -> bool {
        self.receiver.finished()
    }

    /// `Some` if this end ends its stream; contains the position of the FIN once it was sent.
    pub fn finishes(&self) -> Option<Option<u64>> {
        match self.fin {
            Fin::NotYet => None,
            Fin::Wanted => Some(None),
            Fin::Sent => Some(Some(self.nxt - 1)),
        }
    }

    /// Largest payload of a segment, bytes.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// Round-trip times.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The round-trip time for a receiver of data: from timestamps, otherwise from its own segments.
    pub(super) fn receive_rtt(&self) -> Option<Duration> {
        self.clock.age.smoothed().or(self.rtt.srtt())
    }

    /// Consecutive timeouts without an acknowledgement.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The peer's receive window in bytes, from the last acknowledged byte.
    pub fn peer_window(&self) -> u64 {
        self.peer.bytes
    }

    /// Settings of the block.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes received out of order.
    pub fn out_of_order(&self) -> u64 {
        self.receiver.out_of_order()
    }

    /// Bytes that the peer has acknowledged selectively.
    pub fn sacked_bytes(&self) -> u64 {
        self.board.sacked_bytes()
    }

    /// Positions of out-of-order data.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.receiver.ahead()
    }

    /// Counts of events up to now.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counters, for events that only the owner of the block observes.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Ends the data: a FIN follows the data already sent.
    pub fn close(&mut self) {
        match self.state {
            State::Listen | State::SynSent => self.state = State::Closed(Reason::Closed),
            // The FIN waits until the handshake is complete.
            State::SynReceived => self.fin = Fin::Wanted,
            State::Established => {
                self.fin = Fin::Wanted;
                self.state = State::FinWait1;
            }
            State::CloseWait => {
                self.fin = Fin::Wanted;
                self.state = State::LastAck;
            }
            _ => {}
        }
    }

    /// Ends the connection with an RST.
    pub fn abort(&mut self) {
        let suspended =
            matches!(self.state, State::Closed(Reason::Aborted | Reason::TimedOut)) && self.nxt > 0;
        if self.is_synchronised() || self.state == State::SynReceived || suspended {
            self.reset = Some((self.first.add(self.nxt as u32), Some(self.receiver.ack())));
        }
        self.end(Reason::Aborted);
    }

    /// Ends the connection without sending a segment.
    pub fn end(&mut self, reason: Reason) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(reason);
        }
        self.timers = Timers::default();
        self.rack.stop();
        (self.syn_due, self.probe_due, self.force) = (false, false, false);
    }

    /// The window that a segment from the peer advertises, bytes.
    pub fn scaled_window(&self, segment: &Segment) -> u64 {
        let shift = if segment.flags.contains(Flags::SYN) { 0 } else { self.agreed.send_shift };
        u64::from(segment.window) << shift
    }

    /// The window that a segment to the peer advertises, bytes.
    pub fn scaled(&self, window: u16) -> u64 {
        u64::from(window) << self.agreed.receive_shift
    }

    /// Ends the block without sending a segment, but keeps its state: a later [`abort`](Self::abort) can still send
    /// an RST.
    pub fn suspend(&mut self) {
        self.end(Reason::Aborted);
    }

    /// Position of a sequence number in the peer's byte stream.
    pub fn stream_position(&self, seq: Serial) -> u64 {
        self.receiver.position(seq)
    }

    /// Number of out-of-order ranges before a sequence number.
    pub fn ranges_before(&self, seq: Serial) -> u64 {
        self.receiver.ranges_before(seq)
    }

    /// The next kept part of the last segment's payload, and its position in the peer's byte stream.
    pub fn poll_kept(&mut self) -> Option<(Payload, u64)> {
        self.receiver.poll_kept()
    }

    /// The parts of `[start, end)` in the peer's byte stream that have not arrived, ascending.
    pub(crate) fn missing(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.receiver.missing(start, end)
    }

    /// Returns true if the peer assumes a window that is small for a `buffer` of this size, and `receive_window` is worth
    /// an update (RFC 9293 §3.8.6.2.2).
    pub fn window_would_open(&self, buffer: u64, receive_window: u64) -> bool {
        let standing = self.receiver.edge.saturating_sub(self.receiver.nxt);
        let worth = (2 * u64::from(self.peer_mss)).min(buffer / 2).max(1);
        standing < buffer / 2 && receive_window >= standing + worth
    }

    /// Returns true if an acknowledgement must be sent now.
    pub(crate) fn wants_ack(&self) -> bool {
        self.receiver.wants_ack()
    }

    /// Requests an acknowledgement without a received segment, for example because the window opened.
    pub fn ack_now(&mut self) {
        self.receiver.ack_now();
    }

    /// Requests a segment without data that the peer must answer, for an owner whose shared window is closed.
    pub fn probe(&mut self) {
        self.probe_due = true;
    }

    /// TIME-WAIT state and endpoints of an ended connection, for its host to keep while segments may be in flight.
    pub fn remains(&self) -> Option<(Tuple, TimeWaitState)> {
        let timestamps = self.agreed.timestamps.then_some((self.clock.recent, self.clock.offset));
        let next_sequence = self.first.add(self.nxt as u32);
        let remains = TimeWaitState { next_sequence, expected: self.receiver.ack(), timestamps };
        (self.state == State::TimeWait).then_some(((self.local, self.remote), remains))
    }

    /// The part of the report that changes with nearly every packet.
    #[inline]
    pub(crate) fn gauge(&self, congestion: &dyn CongestionControl) -> Gauge {
        let cwnd = if self.is_synchronised() { congestion.window(self.path) } else { 0 };
        Gauge { cwnd, outstanding: self.board.pipe(), srtt: self.rtt.srtt() }
    }

    /// Report of `new` bytes that arrived between this block's endpoints.
    pub const fn arrival(&self, new: u64) -> Arrival {
        Arrival { local: self.local, remote: self.remote, new }
    }

    /// State and counters as a report.
    pub fn report(&self, congestion: &dyn CongestionControl) -> PathReport {
        let known = self.is_synchronised();
        PathReport {
            id: self.path,
            local: self.local,
            remote: self.remote,
            gateway: None,
            usable: self.is_open(),
            backup: false,
            cwnd: if known { congestion.window(self.path) } else { 0 },
            ssthresh: if known { congestion.ssthresh(self.path) } else { u64::MAX },
            srtt: self.rtt.srtt(),
            srtt_min: self.rtt.min_srtt(),
            delivery_rate_max: self.limiting.peak.rate(),
            rto: self.rtt.rto(),
            outstanding: self.board.pipe(),
            mss: self.mss,
            grouping: congestion.grouping(self.path),
            counters: self.counters,
        }
    }
}
