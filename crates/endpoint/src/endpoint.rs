//! The one way in which every protocol core is driven and observed.

use crate::blocked::Waits;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
pub use anabranch_multipath::policy::Reliability;
use anabranch_multipath::shared_bottleneck::Grouping;
use anabranch_wire::{Content, Packet, Payload};
use core::net::{IpAddr, SocketAddr};

/// One end of one connection (TCP, MPTCP) or association (SCTP).
///
/// Drive it so: tell it what happened ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout),
/// [`handle_network`](Self::handle_network) or an application call); after a packet take what it kept of it with
/// [`poll_placement`](Self::poll_placement) until there is nothing; then take packets with
/// [`poll_transmit`](Self::poll_transmit) until there is none, then events with [`poll_event`](Self::poll_event) until
/// there is none, then sleep until [`next_timeout`](Self::next_timeout) or the next thing that happens.
///
/// Time handed in never goes backwards. Nothing here has bytes: a write is a length, and whoever drives the endpoint keeps
/// the bytes. Those written it keeps by their offset, counted over everything written, until
/// [`released`](Self::released) has passed them: a packet's payload names the offset of its first byte. Those received it
/// keeps where a [`Placement`] says, until a [`Delivery`] hands them to the application.
pub trait Endpoint: Send {
    /// A packet addressed to this end arrived, and `content` knows its payload's bytes. Of a payload only the length counts;
    /// its offset is the driver's own mark, which comes back in [`Placement::payload`].
    fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content);

    /// Where the next part of the last packet's payload belongs. What no placement names was not kept.
    fn poll_placement(&mut self) -> Option<Placement> {
        None
    }

    /// Fragments that were placed and will never be read, as a run of [`Place::Fragment`] keys: the first and how many follow
    /// each other. Whoever keeps their bytes may forget them. For protocols without messages there is none.
    fn poll_forgotten(&mut self) -> Option<(u64, u32)> {
        None
    }

    /// Something happened to the network that this end is told of.
    fn handle_network(&mut self, now: Time, event: NetworkEvent);

    /// The time of [`next_timeout`](Self::next_timeout) has come; early and spurious calls do no harm.
    fn handle_timeout(&mut self, now: Time);

    /// The next packet to send, if there is one.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet>;

    /// When [`handle_timeout`](Self::handle_timeout) is due at the latest, if at all.
    fn next_timeout(&self) -> Option<Time>;

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;

    /// Opens the connection (connecting end only); packets to send follow.
    fn connect(&mut self, now: Time);

    /// Free bytes in the send buffer; a write of at most this length is accepted. Zero before the connection takes
    /// data and after [`close`](Self::close).
    fn send_space(&self) -> u64;

    /// The application writes; returns the bytes accepted. Byte-stream protocols accept a part, message protocols
    /// all or nothing. What is refused for another reason than want of room is reported ([`Event::NoSuchStream`]).
    fn write(&mut self, now: Time, write: Write) -> u64;

    /// Bytes that [`read`](Self::read) would return.
    fn readable(&self) -> u64;

    /// The application reads up to `max` bytes: the next in-order run. A message protocol returns one message however large,
    /// or a part of one that fills the receive buffer ([`Delivery::more`]).
    fn read(&mut self, now: Time, max: u64) -> Option<Delivery>;

    /// Whether reading has left something to send: the window has opened by as much as the peer has to be told. Whoever read
    /// need not ask for packets otherwise.
    fn window_update_due(&self) -> bool;

    /// The fragments of the message, or part, that was read last, in order, as runs of [`Place::Fragment`] keys: the first key and
    /// how many follow each other. Empty for byte streams.
    fn fragments(&self) -> &[(u64, u32)] {
        &[]
    }

    /// Everything written below this offset has left for good: nothing of it will be sent (again), and its bytes may be
    /// forgotten.
    fn released(&self) -> u64;

    /// A local port that this end needs before it can open another path: from this address to that remote end. The driver
    /// answers with [`give_port`](Self::give_port) before it goes on.
    fn port_wanted(&self) -> Option<(IpAddr, SocketAddr)> {
        None
    }

    /// The answer to [`port_wanted`](Self::port_wanted); `None` where no port is free.
    fn give_port(&mut self, now: Time, port: Option<u16>) {
        let _ = (now, port);
    }

    /// Asks for a change of the streams (RFC 6525); an event tells how it went. False, and no event, if it cannot be: of a
    /// protocol without such a thing, with a peer that does not know it, for streams that do not exist, or outside of the time
    /// in which data flows both ways.
    fn change_streams(&mut self, now: Time, change: StreamChange) -> bool {
        let _ = (now, change);
        false
    }

    /// No more writes: the rest of the send buffer goes out, then the connection ends in an orderly way.
    fn close(&mut self, now: Time);

    /// Ends the connection at once (RST, `MP_FASTCLOSE`, ABORT).
    fn abort(&mut self, now: Time);

    /// Keeps what its scheduler decides from now on, for [`poll_decision`](Self::poll_decision). A protocol that has
    /// nothing to decide keeps nothing.
    fn keep_decisions(&mut self) {}

    /// The next decision kept, oldest first.
    fn poll_decision(&mut self) -> Option<Scheduled> {
        None
    }

    /// State and counters as of now.
    fn report(&self) -> Report;

    /// How long data has waited here up to `now`, by cause: for TCP and MPTCP the congestion windows and the receive
    /// window, for SCTP as [`Blocking`](crate::sctp::Blocking) says. A protocol that makes nothing wait has nothing to
    /// say.
    fn blocked(&self, now: Time) -> Waits;

    /// The state of one path without allocating, for traces and sampling; `None` if there is no such path.
    fn path(&self, path: PathId) -> Option<PathReport>;

    /// Hands over what changes with nearly every packet of each path, in the order of their identifiers, dead ones included:
    /// cheap enough for meters that look after every event.
    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        self.report().paths.iter().map(Gauge::from).for_each(each);
    }

    /// What is in the receive buffer.
    fn held(&self) -> Held {
        let report = self.report();
        Held { bytes: report.receive_buffer, reordering: report.reordering_buffer }
    }
}

/// What of a path changes with nearly every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
}

impl From<&PathReport> for Gauge {
    fn from(report: &PathReport) -> Self {
        Self { cwnd: report.cwnd, outstanding: report.outstanding, srtt: report.srtt }
    }
}

/// What is in a receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes received and not yet read, out-of-order ones included.
    pub bytes: u64,
    /// Of these, bytes that wait for a gap to close.
    pub reordering: u64,
}

/// A scheduling decision: data that was given to a path, or that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When it was made.
    pub at: Time,
    /// The path, or none if the data has to wait.
    pub path: Option<PathId>,
    /// Offset of the data in the sender's stream.
    pub offset: u64,
    /// Length in bytes; zero for a wait.
    pub len: u32,
    /// Why.
    pub why: Why,
}

/// Why data was given to a path, or has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// New data on the path that the scheduler chose.
    New,
    /// Another copy for a path that carries all the data.
    Copy,
    /// It was lost and goes out again (CMT-SCTP; a subflow of Multipath TCP does that by itself).
    Retransmission,
    /// It clogs a buffer behind a gap and goes out on another path as well (chunk rescheduling).
    Rescheduling,
    /// It asks whether the peer's closed window has opened.
    WindowProbe,
    /// Another path lost it, or its path failed.
    Reinjection,
    /// It blocks the receive window, and a faster path has room (Raiciu2012).
    Opportunistic,
    /// Another path has it under way, and this one meets it (confluent sequence numbers, Becke2014 §7.5).
    Confluence,
    /// The paths' congestion windows are full, or the scheduler prefers to wait.
    NoRoom,
    /// Every path that has room has used up its share of a buffer.
    BufferShare,
    /// The peer's receive window is closed.
    ReceiveWindow,
}

impl Why {
    /// The reason as a word of a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new-data",
            Self::Copy => "copy",
            Self::Retransmission => "retransmission",
            Self::Rescheduling => "chunk-rescheduling",
            Self::WindowProbe => "window-probe",
            Self::Reinjection => "reinjection",
            Self::Opportunistic => "opportunistic-retransmission",
            Self::Confluence => "confluence",
            Self::NoRoom => "congestion-window",
            Self::BufferShare => "buffer-share",
            Self::ReceiveWindow => "receive-window",
        }
    }
}

/// What the application writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Length in bytes.
    pub len: u64,
    /// Stream identifier; byte-stream protocols ignore it.
    pub stream: u16,
    /// The message may overtake others; byte-stream protocols ignore it.
    pub unordered: bool,
    /// Payload protocol identifier, which the reader gets with the message (RFC 9260 §3.3.1); byte-stream protocols ignore
    /// it.
    pub ppid: u32,
    /// How long the message is worth sending; byte-stream protocols ignore it, and an association whose peer does not know
    /// partial reliability heeds it as long as nothing of the message has left.
    pub reliability: Reliability,
}

impl Write {
    /// `len` bytes on stream 0, in order, until they have arrived.
    pub const fn bytes(len: u64) -> Self {
        Self { len, stream: 0, unordered: false, ppid: 0, reliability: Reliability::Full }
    }
}

/// What the application reads: a run of the stream, or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes that were read before. In a byte stream, that is the offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Stream identifier.
    pub stream: u16,
    /// It was sent unordered.
    pub unordered: bool,
    /// Payload protocol identifier; zero from byte-stream protocols.
    pub ppid: u32,
    /// It is a part of a message that is too large for the receive buffer, and not the last (RFC 9260 §6.9): the next delivery
    /// of its stream, ordered or unordered as this one is, goes on with it. An association that ends or begins anew may leave
    /// it without its end.
    pub more: bool,
    /// The message of which the deliveries before this one were parts has been given up by its sender: it has no end, and
    /// this delivery no bytes (partial reliability, RFC 3758 §3.6).
    pub aborted: bool,
}

impl Delivery {
    /// `len` bytes of a byte stream, from `offset` on.
    pub const fn bytes(offset: u64, len: u64) -> Self {
        Self { offset, len, stream: 0, unordered: false, ppid: 0, more: false, aborted: false }
    }
}

/// Where a part of a received payload belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The part that was kept, with the offset that the packet's payload had there: the driver finds its bytes by it.
    pub payload: Payload,
    /// Where the driver keeps these bytes.
    pub place: Place,
}

/// A place for received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The peer's byte stream, from this offset on. With Multipath TCP that is the connection's stream.
    Stream {
        /// Offset of the first byte.
        offset: u64,
    },
    /// A fragment of a message. Which message it belongs to, and what stands before it, shows when the message is whole:
    /// [`Endpoint::fragments`] lists the keys then.
    Fragment {
        /// The fragment's key: with SCTP its unwrapped TSN.
        key: u64,
    },
}

/// What a host or its network tells an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// The host has this address (again): an interface got it, or its link came up.
    AddressUp {
        /// The address.
        address: IpAddr,
        /// Largest IP packet of its interface, bytes.
        mtu: u32,
    },
    /// The host has lost this address, or its link went down.
    AddressDown {
        /// The address.
        address: IpAddr,
    },
    /// A router could not forward a packet of this length (RFC 1191, RFC 8201). The host has checked that the quoted
    /// packet could be this endpoint's own by its addresses and ports; the endpoint checks [`Quote::number`].
    PacketTooBig {
        /// The packet that was dropped.
        quote: Quote,
        /// The largest IP packet that would have passed, bytes.
        mtu: u32,
    },
    /// A packet did not reach its destination (RFC 5461 for TCP, RFC 9260 §10.1 for SCTP).
    Unreachable {
        /// The packet that was dropped.
        quote: Quote,
        /// What could not be reached.
        what: Unreachable,
    },
}

impl NetworkEvent {
    /// An address of an interface with this MTU comes (`up`) or goes.
    pub const fn address(address: IpAddr, mtu: u32, up: bool) -> Self {
        if up { Self::AddressUp { address, mtu } } else { Self::AddressDown { address } }
    }
}

/// What could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network or host, or none for now: a soft error (RFC 1122 §4.2.3.9).
    Host,
    /// Forbidden by a filter: a soft error.
    Prohibited,
    /// The host does not speak the protocol.
    Protocol,
    /// Nobody listens on the port.
    Port,
}

/// A packet of this end, as an ICMP error quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Its source: this end.
    pub local: SocketAddr,
    /// Its destination.
    pub remote: SocketAddr,
    /// TCP's sequence number or SCTP's verification tag: what a stranger off the path cannot know (RFC 5927 §4.1).
    pub number: u32,
    /// The initiate tag of an SCTP packet with INIT, whose verification tag is zero (RFC 9260 §10, ICMP6); `None` of other
    /// packets, or if the error does not quote that much.
    pub initiate_tag: Option<u32>,
}

/// A change of the streams of an association (RFC 6525). Lists without a stream stand for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamChange {
    /// These outgoing streams begin anew: what is written from now on comes after the reset.
    ResetOutgoing(Box<[u16]>),
    /// The peer is to let these of its outgoing streams begin anew.
    ResetIncoming(Box<[u16]>),
    /// All streams of both directions begin anew, and the TSNs with them.
    ResetAll,
    /// So many more outgoing streams.
    AddOutgoing(u16),
    /// The peer is to add so many outgoing streams.
    AddIncoming(u16),
}

/// What a core tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established: writes are accepted.
    Connected,
    /// A path was added to the connection and is usable.
    PathUp(PathId),
    /// A path failed or was closed; the connection goes on.
    PathDown(PathId),
    /// The peer has lost all that it knew of the connection and begun anew (SCTP, RFC 9260 §5.2.4 A); writes go on.
    Restarted {
        /// Bytes written before that had not been acknowledged: nothing of them will be sent (again).
        discarded: u64,
    },
    /// A write was refused because its stream does not exist.
    NoSuchStream {
        /// The stream that was asked for.
        stream: u16,
        /// How many streams there are.
        streams: u16,
    },
    /// A message was given up as its [`Reliability`] says: nothing of it will be sent (again). What of it has left may have
    /// arrived.
    Abandoned {
        /// Offset of its first byte in all that was written.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// A part of it has left.
        sent: bool,
    },
    /// A stream, or all of them, began anew: what was readable before this event came before, and (of an outgoing stream) what
    /// was written before the change was asked for.
    StreamReset {
        /// It is the peer's to send on.
        incoming: bool,
        /// Which; `None` for all.
        stream: Option<u16>,
    },
    /// All streams of both directions began anew, and the TSNs with them.
    NumbersReset,
    /// There are more streams.
    StreamsAdded {
        /// They are the peer's to send on.
        incoming: bool,
        /// How many there are now.
        streams: u16,
    },
    /// The peer did not do what [`Endpoint::change_streams`] asked for.
    ChangeRefused,
    /// There is something to read.
    Readable,
    /// There is room in the send buffer again, after a write that was not accepted in full.
    Writable,
    /// The other side will send no more; everything it sent has been, or can now be, read.
    Finished,
    /// The connection has ended, and why. Nothing follows.
    Closed(Reason),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Both sides closed in order.
    Closed,
    /// The other side reset or aborted it.
    Reset,
    /// This side aborted it.
    Aborted,
    /// Nobody answered in time.
    TimedOut,
    /// Nobody answered in time, and the network said that the other side could not be reached.
    Unreachable,
    /// The connection was refused.
    Refused,
}

/// State and counters of one end.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Paths in order of their identifiers, dead ones included.
    pub paths: Vec<PathReport>,
    /// What has come, by the addresses between which it came: those of the paths, or where a path is a destination whichever
    /// pairs the other side sends on.
    pub arrivals: Vec<Arrival>,
    /// Bytes the application has written.
    pub written: u64,
    /// Bytes the application has been given, in order.
    pub delivered: u64,
    /// Bytes written and not yet acknowledged by the other side.
    pub send_buffer: u64,
    /// Bytes received and not yet read, out-of-order ones included.
    pub receive_buffer: u64,
    /// Of these, bytes that wait for a gap to close.
    pub reordering_buffer: u64,
    /// The other side's receive window as last seen, bytes.
    pub peer_window: u64,
    /// Protocol-specific counters by name, e.g. `("opportunistic_retransmissions", 3)`.
    pub extra: Vec<(&'static str, u64)>,
    /// The connection runs as plain TCP although more was asked for.
    pub fallback: bool,
}

/// What has come from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where it came to.
    pub local: SocketAddr,
    /// Where it came from.
    pub remote: SocketAddr,
    /// Payload bytes that were new to the connection, since the start.
    pub new: u64,
}

/// State and counters of one path.
#[derive(Clone, Copy, Debug)]
pub struct PathReport {
    /// Which path.
    pub id: PathId,
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Established and not believed to have failed.
    pub usable: bool,
    /// Used only when no other path is.
    pub backup: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Retransmission timeout, back-off included.
    pub rto: Duration,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
    /// Which bottleneck it was found to pass, if congestion control looks for that.
    pub grouping: Option<Grouping>,
    /// Event counts since the start.
    pub counters: Counters,
}

/// Counts of what happened on one path since the start. Payload bytes exclude all headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent, of any kind.
    pub packets_sent: u64,
    /// Packets sent that carry data.
    pub data_packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes received on this path, duplicates included.
    pub bytes_received: u64,
    /// Payload bytes acknowledged on this path.
    pub bytes_acked: u64,
    /// Data packets retransmitted in fast recovery (or its successors PRR and RACK).
    pub fast_retransmissions: u64,
    /// Data packets retransmitted after a timeout.
    pub timeout_retransmissions: u64,
    /// Data packets sent that another path had carried before (reinjection, opportunistic retransmission,
    /// rescheduling, redundant copies).
    pub reinjections: u64,
    /// Tail-loss and zero-window probes sent.
    pub probes: u64,
    /// Times a recovery phase was entered.
    pub recoveries: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Reactions to losses and timeouts that proved spurious and were undone.
    pub undone: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
}
