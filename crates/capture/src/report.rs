//! The results of reading captures, as documents.

use crate::oddity::Oddity;
use serde::Serialize;

/// All connections of one or several captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The files, in the order of the arguments.
    pub files: Vec<FileReport>,
    /// Time of the first packet, seconds since the Unix epoch, or since the beginning of a simulation.
    pub begins_s: f64,
    /// Time from the first to the last packet, seconds.
    pub duration_s: f64,
    /// Number of TCP and SCTP packets read.
    pub packets: u64,
    /// Packets that were skipped, by the reason; the most frequent reason first.
    pub skipped: Vec<Skipped>,
    /// Number of connections left out because of the bounds on memory or on the report's size: those with the fewest
    /// bytes.
    pub left_out: u64,
    /// Payload of the connections that are left out, bytes.
    pub left_out_bytes: u64,
    /// The connections, those with the most data first.
    pub connections: Vec<ConnectionReport>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileReport {
    /// Name as given by the caller.
    pub name: String,
    /// Number of records read.
    pub records: u64,
    /// Names of the file's interfaces, as far as they have names.
    pub interfaces: Vec<String>,
    /// The reason why the rest of the file is unreadable: the end of a sentence that begins with the file's name.
    pub broken: Option<String>,
}

/// Packets that were skipped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The reason, as a noun phrase for the packets.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// A connection or association.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// `mptcp`, `tcp` or `sctp`.
    pub protocol: &'static str,
    /// Client and server with their ports. Without a captured handshake, the end with the lower port counts as the
    /// server.
    pub ends: [String; 2],
    /// True if the handshake shows which end is the client.
    pub has_handshake: bool,
    /// Version of Multipath TCP.
    pub version: Option<u8>,
    /// Tokens of Multipath TCP, or verification tags of SCTP, of client and server.
    pub tokens: [Option<String>; 2],
    /// Values that the capture does not show because packets are missing.
    pub unknown: Vec<String>,
    /// Advertised addresses of client and server on which no subflow was seen.
    pub unused_addresses: Vec<String>,
    /// Oddities, oldest first.
    pub oddities: Vec<Oddity>,
    /// Number of oddities beyond those in the list.
    pub oddities_left_out: u64,
    /// Data from client to server, and back.
    pub directions: [DirectionReport; 2],
    /// Subflows or paths, in the order of their first packets.
    pub subflows: Vec<SubflowReport>,
}

/// One direction of a connection's data, over all subflows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Number of different data bytes in the capture.
    pub bytes: u64,
    /// Data that was acknowledged since the first packet; `None` if no acknowledgement was seen.
    pub acknowledged_bytes: Option<u64>,
    /// Data that was acknowledged but that the capture does not contain, in bytes; for SCTP the number of chunks.
    pub unseen: u64,
    /// Data that another subflow had carried before.
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
    /// Mean number of bytes in flight, over the time with data in flight.
    pub flight_mean_bytes: Option<f64>,
    /// Largest window that the receiver offered, bytes.
    pub window_bytes: Option<u64>,
    /// True if the capture contains the end of the data.
    pub has_end: bool,
    /// Time by cause from the first data to the last packet.
    pub waits: WaitsReport,
    /// First number of the data: sequence number, data sequence number or TSN.
    pub first_number: Option<u64>,
    /// Pieces of data in the order of their packets, for figures.
    pub pieces: Vec<Piece>,
    /// Maximum number of packets that one piece represents.
    pub packets_per_piece: u32,
}

/// A piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Piece {
    /// Time since the beginning of the capture, seconds.
    pub at_s: f64,
    /// Number of the subflow or path that carried the piece.
    pub subflow: usize,
    /// First number, relative to `first_number`.
    pub from: u64,
    /// Length in bytes.
    pub len: u32,
    /// True if the data had been sent before.
    pub is_repeated: bool,
}

/// Time by cause, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaitsReport {
    /// No data in flight and none sent: the application or the scheduler provided none.
    pub idle_s: f64,
    /// The receive window was full; `None` if its scale is unknown.
    pub window_s: Option<f64>,
    /// Data in flight, and the receive window had free space: the congestion window, pacing, the send buffer or the
    /// path limited the sender.
    pub sending_s: f64,
    /// The sender was repairing losses.
    pub recovery_s: f64,
    /// Time without packets before a retransmission by timeout.
    pub timeout_s: f64,
}

/// A subflow or path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubflowReport {
    /// Client and server with their ports; addresses alone for SCTP.
    pub ends: [String; 2],
    /// The means by which the subflow was assigned to its connection: `handshake`, `token` or `numbers`.
    pub joined: &'static str,
    /// True if a side requested that the subflow be a backup.
    pub is_backup: bool,
    /// True if the capture contains packets of both sides.
    pub is_open: bool,
    /// True if the subflow continues as plain TCP.
    pub has_fallen_back: bool,
    /// True if the subflow was reset.
    pub is_reset: bool,
    /// Number of packets that one interface showed twice; each counts once.
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
    /// Payload without retransmissions.
    pub new_bytes: u64,
    /// Payload that this interface had shown before.
    pub retransmitted_bytes: u64,
    /// Number of packets with retransmitted payload.
    pub retransmitted_packets: u64,
    /// Payload that fills a gap after a round-trip time: the first copy was lost before the interface.
    pub lost_before_bytes: u64,
    /// Payload that fills a gap earlier: the packets were reordered.
    pub reordered_bytes: u64,
    /// Payload that was acknowledged but that the capture does not contain.
    pub unseen_bytes: u64,
    /// Payload that is new to the connection.
    pub stream_new_bytes: u64,
    /// Payload that another subflow had carried before.
    pub reinjected_bytes: u64,
    /// Payload without a mapping to the connection's data.
    pub unmapped_bytes: u64,
    /// Acknowledged payload.
    pub acknowledged_bytes: Option<u64>,
    /// Payload at the interface nearest to the receiver, if it differs from the one nearest to the sender.
    pub arrived_bytes: Option<u64>,
    /// Payload without retransmissions at that interface.
    pub arrived_new_bytes: Option<u64>,
    /// Packets at that interface.
    pub arrived_packets: Option<u64>,
    /// Retransmissions after a time without packets of at least 0.19 s and one and a half round-trip times.
    pub timeouts: u64,
    /// Packets with the ECN mark CE.
    pub marked: u64,
    /// Maximum segment size that the other side has announced.
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
    /// Number of round-trip samples.
    pub rtt_samples: u64,
    /// The position of the interface on the path: `sender`, `middle` or `receiver`; `None` if there is no
    /// round-trip sample to the sender.
    pub position: Option<&'static str>,
    /// Time by cause from the first data to the last packet.
    pub waits: WaitsReport,
}
