//! A capture file in pcap or pcapng, read record by record.
//!
//! The crate `pcap-file` parses records, blocks, sections and byte orders. This module parses the fixed fields of
//! packet blocks, because the crate refuses packets that are longer than the snapshot length and does not scale
//! timestamps.

use crate::link;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{Endianness, PcapError, TsResolution};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Maximum number of interfaces of a section, which bounds the memory of the reader.
const MAX_INTERFACES: usize = 4_096;
/// Maximum length of an interface's block, bytes.
const MAX_INTERFACE_BYTES: u32 = 65_536;
const SECOND_NS: u64 = 1_000_000_000;
/// Maximum time, in the year 2116: sums of a few times do not overflow.
const MAX_NS: u64 = u64::MAX / 4;
/// Suffix of the names of interfaces at which simulations list dropped packets.
const DROPS_SUFFIX: &str = " dropped";

/// An interface of the capture.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub name: String,
    pub link: u32,
    /// Number of timestamp units per second.
    units: u64,
    offset_s: u64,
    /// False for an interface at which simulations list dropped packets: the packets have passed another interface
    /// before.
    pub is_passing: bool,
}

/// An error that prevents the reading of a file or ends it.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file is no capture; the text is the rest of a sentence that begins with the file's name.
    NoCapture(String),
    /// The file cannot be read.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A reader that counts the bytes read.
struct Counted {
    source: Box<dyn Read>,
    read: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}

enum Format {
    Pcap(PcapReader<Counted>),
    Pcapng(Box<PcapNgReader<Counted>>),
}

/// An open capture.
pub(crate) struct Capture {
    format: Format,
    pub interfaces: Vec<Interface>,
    /// Index into `interfaces`, by the number of the interface in the present section.
    section: Vec<usize>,
    /// Number of records read.
    pub records: u64,
    /// Number of packet blocks without a time or an interface.
    pub unusable: u64,
    pub size: u64,
    /// The reason why the rest of the file is unreadable.
    pub broken: Option<String>,
    /// Number of bytes in the records of a pcap file that have been read; the reader of the crate does not provide it.
    consumed: u64,
}

impl Capture {
    /// Opens a capture and reads its header.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let about = std::fs::metadata(path)?;
        if about.is_dir() {
            return Err(ReadError::NoCapture("is a folder, not a capture".to_owned()));
        }
        // Opening a pipe would block until another process opens its other end.
        if !about.is_file() {
            return Err(ReadError::NoCapture(
                "is no regular file; write the capture to a file first".to_owned(),
            ));
        }
        let mut file = File::open(path)?;
        let mut magic = [0; 4];
        let found = file.read(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        Self::new(Box::new(file), &magic[..found], about.len())
    }

    /// A capture in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        let size = bytes.len() as u64;
        let magic = bytes[..bytes.len().min(4)].to_owned();
        Self::new(Box::new(io::Cursor::new(bytes)), &magic, size)
    }

    /// Reads the header of a capture that begins with `magic`.
    fn new(source: Box<dyn Read>, magic: &[u8], size: u64) -> Result<Self, ReadError> {
        let source = Counted { source, read: 0 };
        let (mut interfaces, mut section) = (Vec::new(), Vec::new());
        let format = match *magic {
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                Format::Pcapng(Box::new(PcapNgReader::new(source).map_err(|error| header_error(&error))?))
            }
            [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1] => {
                let reader = PcapReader::new(source).map_err(|error| header_error(&error))?;
                // The upper bits contain the length of the frame check sequence.
                let link = u32::from(reader.header().datalink) & 0xffff;
                let units = match reader.header().ts_resolution {
                    TsResolution::MicroSecond => 1_000_000,
                    TsResolution::NanoSecond => SECOND_NS,
                };
                interfaces.push(Interface {
                    name: String::new(),
                    link,
                    units,
                    offset_s: 0,
                    is_passing: true,
                });
                section.push(0);
                Format::Pcap(reader)
            }
            [0x1f, 0x8b, ..] => return Err(compressed("gzip", "gunzip")),
            [0x28, 0xb5, 0x2f, 0xfd] => return Err(compressed("zstd", "unzstd")),
            [0xfd, b'7', b'z', b'X'] => return Err(compressed("xz", "unxz")),
            [] => return Err(ReadError::NoCapture("is empty, not a capture".to_owned())),
            _ => return Err(ReadError::NoCapture("is no capture in pcap or pcapng format".to_owned())),
        };
        Ok(Self { format, interfaces, section, records: 0, unusable: 0, size, broken: None, consumed: 0 })
    }

    /// Number of bytes of the file that have been read.
    pub fn position(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) => self.consumed,
            Format::Pcapng(reader) => reader.get_ref().read,
        }
    }

    /// Reads the next packet into `into`, at most `max` bytes of it; returns `None` at the end of the file or where
    /// the rest is unreadable.
    pub fn next(&mut self, into: &mut Vec<u8>, max: usize) -> Option<Head> {
        if self.broken.is_some() {
            return None;
        }
        let head = match &mut self.format {
            Format::Pcap(_) => self.next_record(into, max),
            Format::Pcapng(_) => self.next_block(into, max),
        };
        match head {
            Ok(head) => head,
            Err(error) => {
                self.broken = Some(reason(&error, self.records));
                None
            }
        }
    }

    fn next_record(&mut self, into: &mut Vec<u8>, max: usize) -> Result<Option<Head>, PcapError> {
        let Format::Pcap(reader) = &mut self.format else { return Ok(None) };
        let Some(record) = reader.next_raw_packet() else { return Ok(None) };
        let record = record?;
        self.records += 1;
        let units = self.interfaces[0].units;
        let at_ns = nanoseconds(u64::from(record.ts_sec) * units + u64::from(record.ts_frac), units, 0);
        keep(&record.data, into, max);
        self.consumed += 16 + record.data.len() as u64;
        Ok(Some(Head { at_ns, interface: 0, original_len: record.orig_len }))
    }

    fn next_block(&mut self, into: &mut Vec<u8>, max: usize) -> Result<Option<Head>, PcapError> {
        loop {
            let Format::Pcapng(reader) = &mut self.format else { return Ok(None) };
            let Some(block) = reader.next_raw_block() else { return Ok(None) };
            let block = block?;
            let (kind, len) = (block.type_, block.initial_len);
            let found = matches!(kind, ENHANCED_PACKET | OBSOLETE_PACKET).then(|| {
                keep(&block.body, into, max + 20);
                block.body.len()
            });
            let endianness = reader.section().endianness;
            match (kind, found) {
                (SECTION_HEADER, _) => self.section.clear(),
                (INTERFACE_DESCRIPTION, _) => {
                    let described = reader.interfaces().last().map(described);
                    if len > MAX_INTERFACE_BYTES || self.section.len() >= MAX_INTERFACES {
                        return Err(PcapError::InvalidField(
                            "too many or too long descriptions of interfaces",
                        ));
                    }
                    self.add_interface(described);
                }
                (SIMPLE_PACKET, _) => {
                    self.records += 1;
                    self.unusable += 1;
                }
                (_, Some(body_len)) => {
                    self.records += 1;
                    if let Some(head) = self.packet((kind, endianness), into, (body_len, max)) {
                        return Ok(Some(head));
                    }
                    self.unusable += 1;
                }
                _ => {}
            }
        }
    }

    /// Adds an interface of the present section. An interface with the same description as in an earlier section
    /// continues that one.
    fn add_interface(&mut self, described: Option<Interface>) {
        let Some(new) = described else { return };
        let same = |old: &Interface| !new.name.is_empty() && old.name == new.name && old.link == new.link;
        let at = self
            .interfaces
            .iter()
            .take(MAX_INTERFACES)
            .position(same)
            .filter(|at| !self.section.contains(at));
        let at = if let Some(at) = at {
            (self.interfaces[at].units, self.interfaces[at].offset_s) = (new.units, new.offset_s);
            at
        } else if self.interfaces.len() < 2 * MAX_INTERFACES {
            self.interfaces.push(new);
            self.interfaces.len() - 1
        } else {
            // Beyond the maximum, further sections use the last interface.
            let last = self.interfaces.len() - 1;
            self.interfaces[last] = new;
            last
        };
        self.section.push(at);
    }

    /// Reads the fixed fields of a packet block, and leaves the frame in `bytes`.
    fn packet(
        &self,
        (kind, order): (u32, Endianness),
        bytes: &mut Vec<u8>,
        (body_len, max): (usize, usize),
    ) -> Option<Head> {
        let word = |at: usize| -> Option<u32> {
            let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(if order == Endianness::Big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
        };
        let number = match (kind, order) {
            (ENHANCED_PACKET, _) => word(0)?,
            // The interface has 16 bits, followed by 16 bits with a number of drops.
            (_, Endianness::Big) => word(0)? >> 16,
            (_, Endianness::Little) => word(0)? & 0xffff,
        };
        let units = u64::from(word(4)?) << 32 | u64::from(word(8)?);
        let (kept, original_len) = (word(12)? as usize, word(16)?);
        let interface = *self.section.get(number as usize)?;
        if kept > body_len - 20 {
            return None;
        }
        let at = &self.interfaces[interface];
        let at_ns = nanoseconds(units, at.units, at.offset_s);
        bytes.drain(..20);
        bytes.truncate(kept.min(max));
        Some(Head { at_ns, interface, original_len })
    }
}

/// The fields of a packet record besides the packet's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Time since the Unix epoch, or since the beginning of a simulation.
    pub at_ns: u64,
    /// Index into [`Capture::interfaces`].
    pub interface: usize,
    /// Length of the frame on the link.
    pub original_len: u32,
}

fn keep(bytes: &[u8], into: &mut Vec<u8>, max: usize) {
    into.clear();
    into.extend_from_slice(&bytes[..bytes.len().min(max)]);
}

/// An interface from its description.
fn described(block: &InterfaceDescriptionBlock<'_>) -> Interface {
    let mut found = Interface {
        name: String::new(),
        link: u32::from(block.linktype),
        units: 1_000_000,
        offset_s: 0,
        is_passing: true,
    };
    for option in &block.options {
        match option {
            InterfaceDescriptionOption::IfName(name) => found.name = name.chars().take(64).collect(),
            InterfaceDescriptionOption::IfTsResol(resolution) => found.units = units(*resolution),
            InterfaceDescriptionOption::IfTsOffset(offset) => found.offset_s = *offset,
            _ => {}
        }
    }
    found.is_passing = !found.name.ends_with(DROPS_SUFFIX);
    found
}

/// Number of timestamp units per second: a power of 2 or of 10. A resolution that exceeds 64 bits counts as
/// nanoseconds.
fn units(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let power =
        if resolution & 0x80 == 0 { 10_u64.checked_pow(exponent) } else { 2_u64.checked_pow(exponent) };
    power.unwrap_or(SECOND_NS)
}

/// A timestamp in nanoseconds, at most [`MAX_NS`].
fn nanoseconds(value: u64, units: u64, offset_s: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(SECOND_NS) / u128::from(units.max(1));
    let all = scaled + u128::from(offset_s) * u128::from(SECOND_NS);
    u64::try_from(all).unwrap_or(MAX_NS).min(MAX_NS)
}

fn compressed(format: &str, command: &str) -> ReadError {
    ReadError::NoCapture(format!("is compressed with {format}; unpack it first with {command}"))
}

fn header_error(error: &PcapError) -> ReadError {
    ReadError::NoCapture(format!("begins like a capture, but its header is unreadable: {}", spoken(error)))
}

/// The reason why the rest of a file cannot be read.
fn reason(error: &PcapError, records: u64) -> String {
    format!("is unreadable behind packet {records}: {}", spoken(error))
}

fn spoken(error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it ends within a packet, or a length field is wrong".to_owned()
        }
        PcapError::IoError(error) => error.to_string(),
        PcapError::InvalidField(field) => format!("invalid field ({field})"),
        other => other.to_string(),
    }
}

/// True if the frames of an interface can be parsed.
pub(crate) fn is_readable(interface: &Interface) -> bool {
    link::is_known(interface.link)
}
