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
//! use anabranch_wire::pcapng::Writer;
//!
//! // Headers of IPv4 and TCP, from 192.0.2.1:50000 to 192.0.2.2:80, and eight bytes of data.
//! let ip = [0x45, 0, 0, 48, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
//! let tcp = [0xc3, 0x50, 0, 80, 0, 0, 0, 100, 0, 0, 0, 200, 0x50, 0x10, 1, 0xf4, 0, 0, 0, 0];
//! let packet = [&ip[..], &tcp, &[0; 8]].concat();
//!
//! let mut writer = Writer::new(Vec::new())?;
//! let interface = writer.add_interface("eth0")?;
//! writer.bytes(interface.at(1_000_000_000), &packet)?;
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
