//! Reads captures of Multipath TCP, TCP and SCTP.
//!
//! For authors of tools that explain real traffic. [`read`] takes captures in pcap or pcapng from the sender, the
//! receiver or the middle, one file or one per interface, and returns a [`Report`]: connections with their subflows,
//! bytes, retransmissions, reinjections, round-trip times, and times by cause.
//!
//! A packet that several interfaces show counts at the interface nearest to its sender; the interface nearest to its
//! receiver counts arrivals. A subflow is assigned to its connection by keys and tokens or, without a captured
//! handshake, by data sequence numbers and addresses. A report lists the values that the capture does not show.
//!
//! Memory is bounded, whatever a file contains: by maximum numbers of conversations ([`Report::left_out`]), gaps,
//! mappings and pieces of data.
//!
//! ```
//! use anabranch_wire::{Packet, pcapng::Writer};
//!
//! let segment = "45000030000040004006000001020304050607080014005000000064000000c8501001f4";
//! let mut bytes: Vec<u8> =
//!     (0..segment.len()).step_by(2).map(|at| u8::from_str_radix(&segment[at..at + 2], 16).unwrap()).collect();
//! bytes.extend([0; 8]); // payload
//! let mut writer = Writer::new(Vec::new())?;
//! let interface = writer.add_interface("eth0")?;
//! writer.bytes(interface.at(1_000_000_000), &bytes)?;
//! let report = anabranch_capture::read_bytes("one.pcapng", writer.finish()?)?;
//! assert_eq!(report.connections[0].directions[0].bytes, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysis;
mod association;
mod associations;
mod collect;
mod connection;
mod data;
mod delayed;
mod file;
mod link;
mod mapping;
mod nearest;
mod oddity;
mod ranges;
mod recent;
mod report;
mod sending;
mod series;
mod stream;
mod subflow;
mod table;
mod view;
mod waits;

pub use analysis::{Error, MAX_FILES, read, read_bytes};
pub use oddity::{Kind, Oddity};
pub use report::{
    ConnectionReport, DirectionReport, FileReport, Piece, Report, Skipped, SubflowDirection, SubflowReport,
    WaitsReport,
};
