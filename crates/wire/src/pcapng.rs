//! Writing captures in pcapng (draft-ietf-opsawg-pcapng), which tshark and Wireshark read.
//!
//! One section in little-endian order; one interface per link end, with raw IP and timestamps in nanoseconds;
//! one enhanced packet block per packet. Every block is padded to whole 32-bit words and has its length at
//! both ends.

use crate::packet::Packet;
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Code for a section whose length is not given.
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// Link type of raw IPv4 or IPv6 packets, which differ in the version nibble.
const LINKTYPE_RAW: u16 = 101;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_SHB_USERAPPL: u16 = 4;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
/// Timestamp resolution: units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// An interface of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface(u32);

/// Metadata of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// The interface at which the packet was captured.
    pub interface: Interface,
    /// Time in nanoseconds since the capture's epoch; in a simulation, since its beginning.
    pub nanoseconds: u64,
    /// A comment that readers show with the packet.
    pub comment: Option<&'a str>,
}

impl Interface {
    /// A stamp without comment.
    pub const fn at(self, nanoseconds: u64) -> Stamp<'static> {
        Stamp { interface: self, nanoseconds, comment: None }
    }
}

/// Writes a capture. Each block is written to the output in one call; a buffered writer is therefore needed only for
/// speed.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    snaplen: u32,
    interfaces: u32,
    /// The block that is being built.
    block: Vec<u8>,
    /// The packet being written.
    packet: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture that keeps packets whole.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_snaplen(out, 0)
    }

    /// Begins a capture that keeps the first `snaplen` bytes of each packet; 0 keeps all.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn with_snaplen(out: W, snaplen: u32) -> io::Result<Self> {
        let mut writer = Self { out, snaplen, interfaces: 0, block: Vec::new(), packet: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.block.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        // Version 1.0.
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&UNKNOWN_LENGTH.to_le_bytes());
        writer.option(OPTION_SHB_USERAPPL, b"anabranch");
        writer.option(OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface. Names are cut at 65,535 bytes, the maximum of an option.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn add_interface(&mut self, name: &str) -> io::Result<Interface> {
        self.begin(INTERFACE_DESCRIPTION);
        self.block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        self.block.extend_from_slice(&[0, 0]);
        self.block.extend_from_slice(&self.snaplen.to_le_bytes());
        self.option(OPTION_IF_NAME, name.as_bytes());
        self.option(OPTION_IF_TSRESOL, &[NANOSECONDS]);
        self.option(OPTION_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(Interface(self.interfaces - 1))
    }

    /// Writes a packet, encoding it.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    ///
    /// # Panics
    ///
    /// For the reasons of [`Packet::emit`], or if the interface belongs to another writer.
    pub fn packet(&mut self, stamp: Stamp<'_>, packet: &Packet) -> io::Result<()> {
        let mut bytes = core::mem::take(&mut self.packet);
        bytes.clear();
        packet.emit(&mut bytes);
        let result = self.bytes(stamp, &bytes);
        self.packet = bytes;
        result
    }

    /// Writes the bytes of an IP packet.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    ///
    /// # Panics
    ///
    /// If the interface belongs to another writer.
    pub fn bytes(&mut self, stamp: Stamp<'_>, bytes: &[u8]) -> io::Result<()> {
        assert!(stamp.interface.0 < self.interfaces, "the interface belongs to this capture");
        let kept = if self.snaplen == 0 { bytes.len() } else { bytes.len().min(self.snaplen as usize) };
        self.begin(ENHANCED_PACKET);
        self.block.extend_from_slice(&stamp.interface.0.to_le_bytes());
        self.block.extend_from_slice(&((stamp.nanoseconds >> 32) as u32).to_le_bytes());
        self.block.extend_from_slice(&(stamp.nanoseconds as u32).to_le_bytes());
        self.block.extend_from_slice(&(kept as u32).to_le_bytes());
        self.block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.block.extend_from_slice(&bytes[..kept]);
        self.pad();
        if let Some(comment) = stamp.comment {
            self.option(OPTION_COMMENT, comment.as_bytes());
            self.option(OPTION_END, &[]);
        }
        self.end()
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Begins a block.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        // Placeholder for the length, which is known at the end of the block.
        self.block.extend_from_slice(&[0; 4]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let len = value.len().min(usize::from(u16::MAX));
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(len as u16).to_le_bytes());
        self.block.extend_from_slice(&value[..len]);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Ends the block and writes it.
    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend_from_slice(&len);
        self.out.write_all(&self.block)
    }
}
