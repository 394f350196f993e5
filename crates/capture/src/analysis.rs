//! Reading several captures as one, in the order of their times.

use crate::associations::{self, Associations};
use crate::collect::{self, Clock};
use crate::file::{Capture, Head, ReadError, is_readable};
use crate::link;
use crate::report::{ConnectionReport, FileReport, Report, Skipped};
use crate::table::Table;
use crate::{association, table};
use anabranch_wire::{Body, Ecn, ParseError, Problem, captured};
use core::fmt;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of files that are read as one. Each needs a buffer of 8 MB.
pub const MAX_FILES: usize = 32;
/// Maximum number of bytes that are read of a packet: enough for any header and for the chunks of the largest SCTP
/// packets.
const MAX_PACKET_BYTES: usize = 16_384;
/// Number of packets between two calls of the progress function.
const PACKETS_PER_CALL: u64 = 16_384;
/// Maximum number of pieces of data kept for figures over all TCP connections; the same number applies to SCTP.
const MAX_TOTAL_POINTS: usize = 4_000_000;
/// Maximum number of connections in a report.
const MAX_REPORTED: usize = 1_000;
/// Maximum number of different reasons for skipped packets.
const MAX_REASONS: usize = 64;

/// The reason why there is no report.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file is not usable; the text is the rest of a sentence that begins with the file's name.
    File(PathBuf, String),
    /// A file cannot be read.
    Io(PathBuf, io::Error),
    /// The number of files is zero or too large.
    Files(usize),
    /// The progress function stopped the reading.
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, sentence) => write!(f, "{} {sentence}", file.display()),
            Self::Io(file, error) => write!(f, "{} cannot be read: {error}", file.display()),
            Self::Files(count) => write!(f, "{count} captures; give 1 to {MAX_FILES}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl core::error::Error for Error {}

/// Reads captures of the same time as one, for example of several interfaces. Calls `progress` regularly with the
/// number of bytes read and the size of all files; a result of `false` stops the reading.
///
/// # Errors
///
/// A file that is no capture or cannot be read, or captures without a packet of TCP or SCTP. A file with an
/// unreadable rest is no error: the report states where the rest begins.
pub fn read(files: &[PathBuf], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Report, Error> {
    if files.is_empty() || files.len() > MAX_FILES {
        return Err(Error::Files(files.len()));
    }
    let open = |file: &PathBuf| Capture::open(file).map(Source::new).map_err(|trouble| error(file, trouble));
    let sources = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    read_sources(files, sources, progress)
}

/// Reads a capture in memory; `name` is its name in errors and in the report.
///
/// # Errors
///
/// As for [`read`].
pub fn read_bytes(name: &str, bytes: Vec<u8>) -> Result<Report, Error> {
    let name = PathBuf::from(name);
    let capture = Capture::from_bytes(bytes).map_err(|trouble| error(&name, trouble))?;
    read_sources(&[name], vec![Source::new(capture)], &mut |_, _| true)
}

fn read_sources(
    files: &[PathBuf],
    mut sources: Vec<Source>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Report, Error> {
    let mut analysis = Analysis::new();
    let size = sources.iter().map(|source| source.capture.size).sum();
    let mut count = 0_u64;
    sources.iter_mut().enumerate().for_each(|(at, source)| analysis.fetch(at, source));
    loop {
        let next = sources.iter().enumerate().filter_map(|(at, source)| Some((source.head?.at_ns, at))).min();
        let Some((_, at)) = next else { break };
        if count.is_multiple_of(PACKETS_PER_CALL) {
            let read = sources.iter().map(|source| source.capture.position()).sum();
            if !progress(read, size) {
                return Err(Error::Stopped);
            }
        }
        count += 1;
        analysis.process(&sources[at]);
        analysis.fetch(at, &mut sources[at]);
    }
    analysis.finish(files, &sources)
}

fn error(file: &Path, trouble: ReadError) -> Error {
    match trouble {
        ReadError::NoCapture(sentence) => Error::File(file.to_owned(), sentence),
        ReadError::Io(error) => Error::Io(file.to_owned(), error),
    }
}

/// A file and its next packet.
struct Source {
    capture: Capture,
    head: Option<Head>,
    bytes: Vec<u8>,
    tap: u32,
    skipped: usize,
}

impl Source {
    fn new(capture: Capture) -> Self {
        Self { capture, head: None, bytes: Vec::new(), tap: 0, skipped: 0 }
    }
}

/// State of the reading of all files.
struct Analysis {
    table: Table,
    associations: Associations,
    /// Number of each interface, by file, interface of the file, and interface within a capture of all interfaces.
    taps: BTreeMap<(usize, usize, u32), u32>,
    skipped: BTreeMap<String, u64>,
    packets: u64,
    times: Option<(u64, u64)>,
}

impl Analysis {
    fn new() -> Self {
        Self {
            table: Table::new(table::MAX_SUBFLOWS, MAX_TOTAL_POINTS),
            associations: Associations::new(associations::MAX_ASSOCIATIONS, MAX_TOTAL_POINTS),
            taps: BTreeMap::new(),
            skipped: BTreeMap::new(),
            packets: 0,
            times: None,
        }
    }

    /// Reads packets of a file up to the next one with an IP packet.
    fn fetch(&mut self, file: usize, source: &mut Source) {
        loop {
            source.head = source.capture.next(&mut source.bytes, MAX_PACKET_BYTES);
            let Some(head) = source.head else { return };
            let interface = &source.capture.interfaces[head.interface];
            if !interface.is_passing {
                continue;
            }
            if !is_readable(interface) {
                self.skip(format!("frames of link type {}", interface.link));
                continue;
            }
            let Some(frame) = link::ip(interface.link, &source.bytes) else {
                self.skip("frames without an IP packet".to_owned());
                continue;
            };
            source.skipped = frame.skipped as usize;
            let next = self.taps.len() as u32;
            source.tap = *self.taps.entry((file, head.interface, frame.interface)).or_insert(next);
            return;
        }
    }

    fn skip(&mut self, reason: String) {
        if self.skipped.len() < MAX_REASONS || self.skipped.contains_key(&reason) {
            *self.skipped.entry(reason).or_default() += 1;
        }
    }

    /// Processes the packet that was fetched.
    fn process(&mut self, source: &Source) {
        let Some(head) = source.head else { return };
        let bytes = source.bytes.get(source.skipped..).unwrap_or_default();
        let packet = match captured::parse(bytes, head.original_len.saturating_sub(source.skipped as u32)) {
            Ok(packet) => packet,
            Err(error) => return self.skip(reason(&error)),
        };
        let (at_ns, tap) = (head.at_ns, source.tap);
        let (from, to) = self.times.unwrap_or((at_ns, at_ns));
        let is_marked = packet.packet.ecn == Ecn::Ce;
        let (source, destination) = (packet.packet.source, packet.packet.destination);
        match &packet.packet.body {
            Body::Tcp(segment) => self.table.on_segment(table::Sighting {
                at_ns,
                tap,
                source: SocketAddr::new(source, segment.source_port),
                destination: SocketAddr::new(destination, segment.destination_port),
                identification: packet.identification,
                is_marked,
                segment,
            }),
            Body::Sctp(sctp) => self.associations.on_packet(&association::Sighting {
                is_cut: packet.is_cut,
                at_ns,
                tap,
                source,
                destination,
                is_marked,
                packet: sctp,
            }),
            Body::Udp(_) => return self.skip("datagrams of UDP".to_owned()),
            Body::Icmp(_) => return self.skip("messages of ICMP".to_owned()),
        }
        self.packets += 1;
        self.times = Some((from.min(at_ns), to.max(at_ns)));
        if packet.is_cut {
            self.skip(
                "packets with cut or malformed options or chunks (their other contents are used)".to_owned(),
            );
        }
    }

    fn finish(mut self, files: &[PathBuf], sources: &[Source]) -> Result<Report, Error> {
        let Some((begin_ns, end_ns)) = self.times else { return Err(self.no_packet_error(files, sources)) };
        let clock = Clock { begin_ns };
        let mut connections = collect::connections(&self.table, clock);
        let all = self.associations.all.values();
        connections.extend(all.map(|found| collect::association(found, clock)));
        connections.sort_by_key(|found| core::cmp::Reverse(data_of(found)));
        let forgotten = [self.table.forgotten, self.associations.forgotten];
        let beyond = connections.iter().skip(MAX_REPORTED);
        let left_out_bytes =
            beyond.map(data_of).sum::<u64>() + forgotten.iter().map(|each| each.payload).sum::<u64>();
        let left_out = connections.len().saturating_sub(MAX_REPORTED) as u64
            + forgotten.iter().map(|each| each.conversations).sum::<u64>();
        connections.truncate(MAX_REPORTED);
        let unusable = sources.iter().map(|source| source.capture.unusable).sum::<u64>();
        if unusable > 0 {
            self.skipped.insert("records without a time or interface".to_owned(), unusable);
        }
        let skipped = self.skipped.into_iter().map(|(reason, packets)| Skipped { reason, packets });
        let mut skipped: Vec<Skipped> = skipped.collect();
        skipped.sort_by_key(|each| core::cmp::Reverse(each.packets));
        Ok(Report {
            files: files
                .iter()
                .zip(sources)
                .map(|(name, source)| file_report(name, &source.capture))
                .collect(),
            begins_s: begin_ns as f64 / 1e9,
            duration_s: (end_ns - begin_ns) as f64 / 1e9,
            packets: self.packets,
            skipped,
            left_out,
            left_out_bytes,
            connections,
        })
    }

    /// The error for captures without a packet of TCP or SCTP.
    fn no_packet_error(&self, files: &[PathBuf], sources: &[Source]) -> Error {
        let records: u64 = sources.iter().map(|source| source.capture.records).sum();
        let most = self.skipped.iter().max_by_key(|(_, count)| **count);
        let broken = sources.iter().find_map(|source| source.capture.broken.as_ref());
        let reason = match (most, broken) {
            (Some((reason, count)), _) => format!("{count} are {reason}"),
            (None, Some(broken)) => format!("the file {broken}"),
            (None, None) => "it ends there".to_owned(),
        };
        Error::File(
            files[0].clone(),
            format!("contains no packet of TCP or SCTP in {records} records: {reason}"),
        )
    }
}

/// Number of data bytes of a connection in both directions.
fn data_of(found: &ConnectionReport) -> u64 {
    found.directions.iter().map(|direction| direction.bytes).sum()
}

fn file_report(name: &Path, capture: &Capture) -> FileReport {
    let names =
        capture.interfaces.iter().filter(|interface| interface.is_passing && !interface.name.is_empty());
    FileReport {
        name: name.display().to_string(),
        records: capture.records,
        interfaces: names.map(|interface| interface.name.clone()).collect(),
        broken: capture.broken.clone(),
    }
}

/// A noun phrase for packets with an error.
fn reason(error: &ParseError) -> String {
    match error.problem {
        Problem::Fragment => "fragments of IP".to_owned(),
        Problem::Protocol(protocol) => format!("packets of IP protocol {protocol}"),
        Problem::Truncated { .. } => "packets that the capture cut within their headers".to_owned(),
        _ => format!("packets with a malformed {}", error.header),
    }
}
