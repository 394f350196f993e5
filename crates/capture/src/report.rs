//! The results of reading captures, as documents.

use crate::oddity::Oddity;
use serde::Serialize;

/// All connections of one or several captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The files, in the order in which they were named.
    pub files: Vec<FileReport>,
    /// Time of the first packet, seconds since the Unix epoch, or since the beginning of a simulation.
    pub begins_s: f64,
    /// From the first to the last packet, seconds.
    pub duration_s: f64,
    /// Packets of TCP and SCTP that were read.
    pub packets: u64,
    /// Packets that were not read, by the reason; the most frequent first.
    pub skipped: Vec<Skipped>,
    /// Connections that the bound of memory or of the report left out: those with the fewest bytes.
    pub left_out: u64,
    /// Payload of these connections, bytes.
    pub left_out_bytes: u64,
    /// The connections, those with the most data first.
    pub connections: Vec<ConnectionReport>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileReport {
    /// Its name as it was given.
    pub name: String,
    /// Records that were read.
    pub records: u64,
    /// Names of its interfaces, as far as it has them.
    pub interfaces: Vec<String>,
    /// Why its rest is unreadable: the end of a sentence that begins with its name.
    pub broken: Option<String>,
}

/// Packets that were not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Noun phrase for the packets.
    pub reason: String,
    /// Their number.
    pub packets: u64,
}

/// A connection or association.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// `mptcp`, `tcp` or `sctp`.
    pub protocol: &'static str,
    /// Client and server with their ports. Without a handshake, the end with the lower port counts as the server.
    pub ends: [String; 2],
    /// Whether the handshake shows which end is the client.
    pub has_handshake: bool,
    /// Version of Multipath TCP.
    pub version: Option<u8>,
    /// Tokens of Multipath TCP, or verification tags of SCTP, of client and server.
    pub tokens: [Option<String>; 2],
    /// Values that the capture does not show, since it lacks packets.
    pub unknown: Vec<String>,
    /// Advertised addresses of client and server on which no subflow was seen.
    pub unused_addresses: Vec<String>,
    /// Oddities in their order.
    pub oddities: Vec<Oddity>,
    /// Oddities beyond those in the list.
    pub oddities_left_out: u64,
    /// Data from client to server, and back.
    pub directions: [DirectionReport; 2],
    /// Subflows or paths, in the order of their first packets.
    pub subflows: Vec<SubflowReport>,
}

/// One direction of a connection's data, over all subflows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Data that was seen, each byte once.
    pub bytes: u64,
    /// Data that was acknowledged since the first packet; `None` if no acknowledgement was seen.
    pub acknowledged_bytes: Option<u64>,
    /// Data that was acknowledged, but never seen: the capture lacks it. For SCTP the number of chunks.
    pub unseen: u64,
    /// Data that was sent before on another subflow.
    pub reinjected_bytes: u64,
    /// `bytes` over the time from the first to the last data, bit/s.
    pub goodput_bps: Option<f64>,
    /// Largest rate of acknowledged data over at least 0.2 s, bit/s.
    pub largest_rate_bps: Option<f64>,
    /// Time of the first data since the beginning of the capture, seconds.
    pub start_s: Option<f64>,
    /// Time of the last data.
    pub end_s: Option<f64>,
    /// Largest number of bytes between the last acknowledged and the last sent one.
    pub flight_bytes: u64,
    /// Mean number of these bytes while there were any.
    pub flight_mean_bytes: Option<f64>,
    /// Largest window that the receiver offered, bytes.
    pub window_bytes: Option<u64>,
    /// Whether the end of the data was seen.
    pub has_end: bool,
    /// Time by cause from the first data to the last packet.
    pub waits: WaitsReport,
    /// First number of the data: sequence number, data sequence number or TSN.
    pub first_number: Option<u64>,
    /// Pieces of data in the order of their packets, for figures.
    pub pieces: Vec<Piece>,
    /// How many packets each piece stands for.
    pub packets_per_piece: u32,
}

/// A piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Piece {
    /// Time since the beginning of the capture, seconds.
    pub at_s: f64,
    /// Number of the subflow or path.
    pub subflow: usize,
    /// First number, relative to `first_number`.
    pub from: u64,
    /// Length in bytes.
    pub len: u32,
    /// Whether it was sent before.
    pub is_repeated: bool,
}

/// Time by cause, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitsReport {
    /// Nothing in flight, and nothing sent: the application or the scheduler had nothing.
    pub idle_s: f64,
    /// The receive window had no room; `None` if its scale is unknown.
    pub window_s: Option<f64>,
    /// Data in flight, and the window had room: congestion window, pacing, send buffer or the path.
    pub sending_s: f64,
    /// Lost data was being repaired.
    pub recovery_s: f64,
    /// Silence before a retransmission by timeout.
    pub timeout_s: f64,
}

/// A subflow or path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubflowReport {
    /// Client and server with their ports; addresses alone for SCTP.
    pub ends: [String; 2],
    /// How it was found to belong to its connection: `handshake`, `token` or `numbers`.
    pub joined: &'static str,
    /// Whether a side asked to use it as a backup.
    pub is_backup: bool,
    /// Whether packets of both sides were seen.
    pub is_open: bool,
    /// Whether it goes on as plain TCP.
    pub has_fallen_back: bool,
    /// Whether it was reset.
    pub is_reset: bool,
    /// Packets that one interface showed twice; they count once.
    pub copies: u64,
    /// Data from client to server, and back.
    pub directions: [SubflowDirection; 2],
}

/// One direction of a subflow or path, at the interface nearest to its sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SubflowDirection {
    /// All packets.
    pub packets: u64,
    /// Packets with data.
    pub data_packets: u64,
    /// Payload, retransmissions included.
    pub bytes: u64,
    /// Payload, each byte once.
    pub new_bytes: u64,
    /// Payload that this interface had shown before.
    pub retransmitted_bytes: u64,
    /// Packets with such payload.
    pub retransmitted_packets: u64,
    /// Payload that fills a gap after a round trip: its first copy was lost before the interface.
    pub lost_before_bytes: u64,
    /// Payload that fills a gap earlier: packets in another order.
    pub reordered_bytes: u64,
    /// Payload that was acknowledged, but never seen: the capture lacks it.
    pub unseen_bytes: u64,
    /// Payload that is new to the connection.
    pub stream_new_bytes: u64,
    /// Payload that another subflow had carried before.
    pub reinjected_bytes: u64,
    /// Payload without a mapping to the connection's data.
    pub unmapped_bytes: u64,
    /// Acknowledged payload.
    pub acknowledged_bytes: Option<u64>,
    /// Payload at the interface nearest to the receiver, if that is another one.
    pub arrived_bytes: Option<u64>,
    /// The same, each byte once.
    pub arrived_new_bytes: Option<u64>,
    /// Packets there.
    pub arrived_packets: Option<u64>,
    /// Retransmissions after a silence of at least 0.19 s and a round trip and a half.
    pub timeouts: u64,
    /// Packets with the ECN mark CE.
    pub marked: u64,
    /// Largest segment that the other side accepts.
    pub mss: Option<u16>,
    /// Largest payload of a packet; segmentation offload makes it larger than a segment.
    pub longest: u32,
    /// Largest number of bytes in flight.
    pub flight_bytes: u64,
    /// Mean number of bytes in flight while there were any.
    pub flight_mean_bytes: Option<f64>,
    /// `new_bytes` over the time from the first to the last data, bit/s.
    pub goodput_bps: Option<f64>,
    /// Largest rate of acknowledged payload over at least 0.2 s, bit/s.
    pub largest_rate_bps: Option<f64>,
    /// Time of the first packet since the beginning of the capture, seconds.
    pub start_s: Option<f64>,
    /// Time of the last packet.
    pub end_s: Option<f64>,
    /// Smallest round-trip time, seconds.
    pub rtt_min_s: Option<f64>,
    /// Mean round-trip time.
    pub rtt_mean_s: Option<f64>,
    /// Largest round-trip time.
    pub rtt_max_s: Option<f64>,
    /// Number of its samples.
    pub rtt_samples: u64,
    /// The place of the interface: `sender`, `middle` or `receiver`; `None` if no round trip to the sender was seen.
    pub position: Option<&'static str>,
    /// Time by cause from the first data to the last packet.
    pub waits: WaitsReport,
}
