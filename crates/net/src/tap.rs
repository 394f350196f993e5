//! A capture of the packets of a host, for tshark and Wireshark.

use crate::clock::Clock;
use crate::device::Fill;
use anabranch_wire::pcapng::{Interface, Writer};
use anabranch_wire::{Buffer, Packet};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes packets to a capture. After an error it writes no more, and [`finish`](Self::finish) returns the error.
///
/// Received packets are written from their parsed values, so an option that the stack does not know is missing.
pub struct Tap {
    clock: Clock,
    writer: Writer<Box<dyn Write + Send>>,
    interfaces: BTreeMap<usize, Interface>,
    failure: Option<io::Error>,
    bytes: Vec<u8>,
}

impl Tap {
    /// Begins a capture.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(out: Box<dyn Write + Send>, clock: Clock) -> io::Result<Self> {
        let writer = Writer::new(out)?;
        Ok(Self { clock, writer, interfaces: BTreeMap::new(), failure: None, bytes: Vec::new() })
    }

    /// Records a received packet with its payload.
    pub fn received(&mut self, at: usize, name: &str, (packet, payload): (&Packet, &[u8])) {
        let content = Buffer(payload);
        self.record(at, name, packet, &mut |payload, out| out.copy_from_slice(content.bytes(payload)));
    }

    /// Records a packet that is about to be sent.
    pub fn sent(&mut self, at: usize, name: &str, (packet, fill): (&Packet, Fill<'_>)) {
        self.record(at, name, packet, fill);
    }

    fn record(&mut self, at: usize, name: &str, packet: &Packet, fill: Fill<'_>) {
        if self.failure.is_none() {
            self.bytes.clear();
            packet.emit_with(&mut self.bytes, fill);
            self.failure = self.write(at, name).err();
        }
    }

    fn write(&mut self, at: usize, name: &str) -> io::Result<()> {
        let interface = if let Some(interface) = self.interfaces.get(&at) {
            *interface
        } else {
            let new = self.writer.add_interface(name)?;
            *self.interfaces.entry(at).or_insert(new)
        };
        self.writer.bytes(interface.at(self.clock.now().as_nanos()), &self.bytes)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first error that occurred when the capture was written.
    pub fn finish(self) -> io::Result<()> {
        match self.failure {
            Some(error) => Err(error),
            None => self.writer.finish()?.flush(),
        }
    }
}
