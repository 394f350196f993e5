//! The contract by which every protocol core is driven and observed.

pub use crate::counters::{Counters, Repeated};
use crate::limits::Limits;
pub use crate::scheduling::{DecisionReason, SchedulingDecision};
use crate::wanted::WantedPath;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::shared_bottleneck::Grouping;
pub use anabranch_settings::policy::Reliability;
use anabranch_wire::sctp::NetworkControl;
use anabranch_wire::{Content, Packet, Payload};
use core::net::{IpAddr, SocketAddr};

/// One end of one connection (TCP, MPTCP) or association (SCTP).
///
/// Drive it in this order: pass an input ([`handle_packet`](Self::handle_packet),
/// [`handle_timeout`](Self::handle_timeout), [`handle_network`](Self::handle_network) or an application call); after a
/// packet call [`poll_placement`](Self::poll_placement) until it returns `None`; then
/// [`poll_transmit`](Self::poll_transmit) until `None`, then [`poll_event`](Self::poll_event) until `None`; then sleep
/// until [`next_timeout`](Self::next_timeout) or the next input. Packets that have arrived together may be passed, each
/// with its placements, before the output of all is polled.
///
/// Time never goes backwards. An endpoint has no bytes: a write is a length, and the driver keeps the bytes. The driver
/// keeps written bytes by their offset, counted over everything written, until [`released`](Self::released) has passed
/// them; a packet's payload names the offset of its first byte. It keeps received bytes at the place that a [`Placement`]
/// names, until a [`Delivery`] hands them to the application.
pub trait Endpoint: Send {
    /// Handles a packet for this end; `content` gives access to its payload bytes. A core uses only the payload's
    /// length; the payload's offset is a mark of the driver, which the core returns in [`Placement::payload`].
    fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content);

    /// The place of the next part of the last packet's payload. The driver discards parts for which the core returns
    /// no place.
    fn poll_placement(&mut self) -> Option<Placement> {
        None
    }

    /// Placed fragments that will never be read, as a run of [`Place::Fragment`] keys: the first key and the number of
    /// successive keys. The driver may forget their bytes. Protocols without messages return `None`.
    fn poll_forgotten(&mut self) -> Option<(u64, u32)> {
        None
    }

    /// Handles a change of an interface of this host, or an ICMP error.
    fn handle_network(&mut self, now: Time, event: NetworkEvent);

    /// Handles the timeouts that are due at the time of [`next_timeout`](Self::next_timeout); early and spurious
    /// calls do no harm.
    fn handle_timeout(&mut self, now: Time);

    /// The next packet to send, if there is one.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet>;

    /// Latest time for the next [`handle_timeout`](Self::handle_timeout); `None` if no timer runs.
    fn next_timeout(&self) -> Option<Time>;

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;

    /// Opens the connection (connecting end only); packets to send follow.
    fn connect(&mut self, now: Time);

    /// Free bytes in the send buffer; a write of at most this length is accepted. Zero before the connection accepts
    /// data and after [`close`](Self::close).
    fn send_space(&self) -> u64;

    /// Adds a write of the application to the send buffer; returns the number of accepted bytes. Byte-stream
    /// protocols accept a part of a write, message protocols all or nothing. If a write is refused for another reason
    /// than a full buffer, an event reports the reason ([`Event::NoSuchStream`]).
    fn write(&mut self, now: Time, write: Write) -> u64;

    /// Bytes that [`read`](Self::read) would return.
    fn readable(&self) -> u64;

    /// Hands up to `max` bytes to the application: the next in-order run. A message protocol returns one message of
    /// any size, or a part of a message that fills the receive buffer ([`Delivery::more`]).
    fn read(&mut self, now: Time, max: u64) -> Option<Delivery>;

    /// True if a read has opened the window far enough for a window update. Otherwise the driver need not poll for
    /// packets after a read.
    fn window_update_due(&self) -> bool;

    /// The fragments of the last message, or part of a message, that was read: in order, as runs of [`Place::Fragment`]
    /// keys, each a first key and a number of successive keys. Empty for byte streams.
    fn fragments(&self) -> &[(u64, u32)] {
        &[]
    }

    /// Offset below which no byte will be sent or retransmitted; the driver may forget the bytes below.
    fn released(&self) -> u64;

    /// A request for a local port for another path from this address to that remote end. The driver must answer with
    /// [`give_port`](Self::give_port) next.
    fn port_wanted(&self) -> Option<(IpAddr, SocketAddr)> {
        None
    }

    /// Passes the answer to [`port_wanted`](Self::port_wanted): a port, or `None` if no port is free.
    fn give_port(&mut self, now: Time, port: Option<u16>) {
        let _ = (now, port);
    }

    /// Requests a change of the streams (RFC 6525); an event reports the outcome. Returns false, without an event, if the
    /// protocol or the peer lacks the extension, a stream does not exist, or the association is not established.
    fn change_streams(&mut self, now: Time, change: StreamChange) -> bool {
        let _ = (now, change);
        false
    }

    /// Ends writing: the rest of the send buffer is sent, then the connection is closed in order.
    fn close(&mut self, now: Time);

    /// Ends the connection at once (RST, `MP_FASTCLOSE`, ABORT).
    fn abort(&mut self, now: Time);

    /// Records the scheduler's decisions from now on, for [`poll_decision`](Self::poll_decision). A protocol without a
    /// scheduler records none.
    fn keep_decisions(&mut self) {}

    /// The oldest scheduling decision that was recorded and not yet polled.
    fn poll_decision(&mut self) -> Option<SchedulingDecision> {
        None
    }

    /// The state and the counters at this moment.
    fn report(&self) -> Report;

    /// Number of entries before the position of an arrived packet in the receiver's lists: the list of gaps,
    /// and the list of data that waits for its reassembly. The packet has not been handled yet. Only a driver
    /// that models the time of a processor calls this method.
    fn entries_before(&self, packet: &Packet) -> u64 {
        let _ = packet;
        0
    }

    /// Bytes received between each pair of addresses, as in the [`report`](Self::report).
    fn arrivals(&self) -> Vec<Arrival> {
        self.report().arrivals
    }

    /// Times of this end's paths up to `now`, by the cause that limited their sending. Empty for a protocol without
    /// congestion control.
    fn limits(&self, now: Time) -> Limits;

    /// The paths that this end wants to have, opened or not, between all addresses that it knows. Empty for a
    /// protocol with a single path.
    fn wanted_paths(&self) -> Vec<WantedPath> {
        Vec::new()
    }

    /// The state of one path without allocating, for traces and sampling; `None` if there is no such path.
    fn path(&self, path: PathId) -> Option<PathReport>;

    /// Calls `each` with the [`Gauge`] of every path, dead ones included, in the order of their identifiers. Cheap enough
    /// for meters that sample after every event.
    fn gauges(&self, each: &mut dyn FnMut(Gauge)) {
        self.report().paths.iter().map(Gauge::from).for_each(each);
    }

    /// The contents of the receive buffer.
    fn held(&self) -> Held {
        let report = self.report();
        Held { bytes: report.receive_buffer, reordering: report.reordering_buffer }
    }

    /// Out-of-order bytes of each stream in the receive buffer; empty for a protocol or connection with one stream.
    fn held_by_stream(&self) -> &[u64] {
        &[]
    }
}

/// The values of a path that change with nearly every packet.
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

/// The contents of a receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes received and not yet read, out-of-order ones included.
    pub bytes: u64,
    /// The part of `bytes` that is out of order: later bytes than the first missing one.
    pub reordering: u64,
}

/// A write of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Length in bytes.
    pub len: u64,
    /// Stream identifier; byte-stream protocols ignore it.
    pub stream: u16,
    /// True if the message may overtake others; byte-stream protocols ignore it.
    pub unordered: bool,
    /// Payload protocol identifier, which the reader gets with the message (RFC 9260 §3.3.1); byte-stream protocols ignore
    /// it.
    pub ppid: u32,
    /// The limit on the lifetime or the number of transmissions of the message. Byte-stream protocols ignore it. If
    /// the peer lacks partial reliability, the limit applies until the first byte of the message is sent.
    pub reliability: Reliability,
}

impl Write {
    /// A reliable, ordered write of `len` bytes on stream 0.
    pub const fn bytes(len: u64) -> Self {
        Self { len, stream: 0, unordered: false, ppid: 0, reliability: Reliability::Full }
    }
}

/// Data for the application: a run of the stream, or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Number of bytes read before. In a byte stream, that is the offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Stream identifier.
    pub stream: u16,
    /// True if the message was sent unordered.
    pub unordered: bool,
    /// Payload protocol identifier; zero from byte-stream protocols.
    pub ppid: u32,
    /// True if this delivery is a part of a message that is too large for the receive buffer, and not the last part
    /// (RFC 9260 §6.9). The next delivery of its stream and kind (ordered or unordered) continues the message. The
    /// end is missing if the association ends or restarts.
    pub more: bool,
    /// True if the sender has abandoned the message of which the previous deliveries were parts. The message has no
    /// end, and this delivery has no bytes (partial reliability, RFC 3758 §3.6).
    pub aborted: bool,
}

impl Delivery {
    /// `len` bytes of a byte stream, from `offset` on.
    pub const fn bytes(offset: u64, len: u64) -> Self {
        Self { offset, len, stream: 0, unordered: false, ppid: 0, more: false, aborted: false }
    }
}

/// A part of a received payload, and the place at which the driver stores its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The part that the core accepted, with its offset in the packet's payload, by which the driver finds the bytes.
    pub payload: Payload,
    /// The place for these bytes.
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
    /// A fragment of a message. Once the message is complete, [`Endpoint::fragments`] lists its keys in order.
    Fragment {
        /// The fragment's key: with SCTP its unwrapped TSN.
        key: u64,
    },
}

/// A change of an interface, or an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// The host has this address (again): the address was added to an interface, or the interface's link came up.
    AddressUp {
        /// The address.
        address: IpAddr,
        /// Largest IP packet of the interface with this address, bytes.
        mtu: u32,
    },
    /// The host has lost this address, or its link went down.
    AddressDown {
        /// The address.
        address: IpAddr,
    },
    /// A router could not forward a packet of this length (RFC 1191, RFC 8201). The host has checked by the addresses
    /// and ports that the quoted packet may be from this endpoint; the endpoint checks [`Quote::number`].
    PacketTooBig {
        /// The quoted packet: the one that was dropped.
        quote: Quote,
        /// The largest IP packet that would have passed, bytes.
        mtu: u32,
    },
    /// A packet did not reach its destination (RFC 5461 for TCP, RFC 9260 §10.1 for SCTP).
    Unreachable {
        /// The quoted packet: the one that was dropped.
        quote: Quote,
        /// The kind of error.
        what: Unreachable,
    },
}

impl NetworkEvent {
    /// The event that an address of an interface with this MTU appears (`up`) or disappears.
    pub const fn address(address: IpAddr, mtu: u32, up: bool) -> Self {
        if up { Self::AddressUp { address, mtu } } else { Self::AddressDown { address } }
    }
}

/// The kind of an ICMP error about an unreachable destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network or host, or none for now: a soft error (RFC 1122 §4.2.3.9).
    Host,
    /// Forbidden by a filter: a soft error.
    Prohibited,
    /// The host does not support the protocol.
    Protocol,
    /// The port has no listener.
    Port,
}

/// A packet of this end, as an ICMP error quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Source of the quoted packet: this end.
    pub local: SocketAddr,
    /// Destination of the quoted packet.
    pub remote: SocketAddr,
    /// TCP's sequence number or SCTP's verification tag, which an off-path attacker cannot know (RFC 5927 §4.1).
    pub number: u32,
    /// The initiate tag of an SCTP packet with INIT, whose verification tag is zero (RFC 9260 §10, ICMP6); `None` for
    /// other packets, or if the quote is too short to contain it.
    pub initiate_tag: Option<u32>,
}

/// A change of the streams of an association (RFC 6525). Lists without a stream stand for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamChange {
    /// Resets these outgoing streams; writes after the request follow the reset.
    ResetOutgoing(Box<[u16]>),
    /// Asks the peer to reset these of its outgoing streams.
    ResetIncoming(Box<[u16]>),
    /// Resets all streams of both directions and the TSNs.
    ResetAll,
    /// Adds this number of outgoing streams.
    AddOutgoing(u16),
    /// Asks the peer to add this number of outgoing streams.
    AddIncoming(u16),
}

/// An event that a core reports to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The connection is established: writes are accepted.
    Connected,
    /// A path was added to the connection and is usable.
    PathUp(PathId),
    /// A path failed or was closed; the connection goes on.
    PathDown(PathId),
    /// The peer has lost its state and restarted the association (SCTP, RFC 9260 §5.2.4 A); writes go on.
    Restarted {
        /// Bytes that were written before the restart and not acknowledged; they will not be sent or retransmitted.
        discarded: u64,
    },
    /// A write was refused because its stream does not exist.
    NoSuchStream {
        /// The requested stream.
        stream: u16,
        /// Number of streams.
        streams: u16,
    },
    /// A message was abandoned because of its [`Reliability`]: no part of it will be sent or retransmitted. Parts
    /// that were sent may have arrived.
    Abandoned {
        /// Offset of the message's first byte in all that was written.
        offset: u64,
        /// Length of the message in bytes.
        len: u64,
        /// True if a part of the message was sent.
        sent: bool,
    },
    /// A stream, or every stream, was reset. The data that is readable before this event precedes the reset; on an
    /// outgoing stream, the writes before the request precede it.
    StreamReset {
        /// True for a stream on which the peer sends.
        incoming: bool,
        /// Identifier of the stream; `None` for all streams.
        stream: Option<u16>,
    },
    /// All streams of both directions and the TSNs were reset.
    NumbersReset,
    /// Streams were added.
    StreamsAdded {
        /// True if the peer sends on the added streams.
        incoming: bool,
        /// Number of streams now.
        streams: u16,
    },
    /// The peer refused the request of [`Endpoint::change_streams`].
    ChangeRefused,
    /// Data, or a part of a message, can be read.
    Readable,
    /// The send buffer has room again, after a write that was not accepted in full.
    Writable,
    /// The peer has finished sending; the application has read all its data or can read it now.
    Finished,
    /// The connection has ended for this reason. No event follows.
    Closed(Reason),
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Both ends closed the connection in order.
    Closed,
    /// The peer reset or aborted the connection.
    Reset,
    /// This end aborted the connection.
    Aborted,
    /// The peer did not answer in time.
    TimedOut,
    /// The peer did not answer in time, and an ICMP error had reported it unreachable.
    Unreachable,
    /// The connection was refused.
    Refused,
}

/// State and counters of one end.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Paths in order of their identifiers, dead ones included.
    pub paths: Vec<PathReport>,
    /// Received bytes by pair of addresses. For SCTP, whose paths have only a destination, the pairs are those on
    /// which the peer sends; for other protocols, those of the paths.
    pub arrivals: Vec<Arrival>,
    /// Bytes the application has written.
    pub written: u64,
    /// Bytes delivered to the application, in order.
    pub delivered: u64,
    /// Bytes written and not yet acknowledged by the other side.
    pub send_buffer: u64,
    /// Bytes received and not yet read, out-of-order ones included.
    pub receive_buffer: u64,
    /// The part of `receive_buffer` that is out of order: later bytes than the first missing one.
    pub reordering_buffer: u64,
    /// Receive window that the peer last advertised, bytes.
    pub peer_window: u64,
    /// Protocol-specific counters by name, e.g. `("opportunistic_retransmissions", 3)`.
    pub extra: Vec<(&'static str, u64)>,
    /// True if the connection was opened as Multipath TCP and has fallen back to TCP.
    pub fallback: bool,
    /// The last records of routers about each path for which an answer to a network control chunk has arrived.
    pub network: Vec<(PathId, NetworkControl)>,
}

/// Bytes received between one pair of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Destination of the packets: this end.
    pub local: SocketAddr,
    /// Source of the packets.
    pub remote: SocketAddr,
    /// Payload bytes that were new to the connection, since the start.
    pub new: u64,
}

/// State and counters of one path.
#[derive(Clone, Copy, Debug)]
pub struct PathReport {
    /// Identifier of the path.
    pub id: PathId,
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Index of the gateway through which source routes lead the packets of the path from this end.
    pub gateway: Option<u8>,
    /// True if the path is established and not considered failed.
    pub usable: bool,
    /// True if the path carries data only while no other path is usable.
    pub backup: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Smallest smoothed round-trip time.
    pub srtt_min: Option<Duration>,
    /// Largest delivery rate over a smoothed round-trip time, payload bytes a second; `None` before the first.
    pub delivery_rate_max: Option<u64>,
    /// Retransmission timeout, back-off included.
    pub rto: Duration,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Largest payload of one packet, bytes.
    pub mss: u32,
    /// The detected bottleneck of the path, if the congestion control detects shared bottlenecks.
    pub grouping: Option<Grouping>,
    /// Event counts since the start.
    pub counters: Counters,
}
