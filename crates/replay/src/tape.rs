//! The recorder of a host.

use super::call::Call;
use super::image::{Image, is_encapsulated};
use super::record::{Head, Subject};
use super::stream::Writer;
use anabranch_base::time::Time;
use anabranch_endpoint::Address;
use anabranch_endpoint::bytes::SendBuffer;
use anabranch_host::{ConnectionId, Limits};
use anabranch_wire::checksum::Checksum;
use anabranch_wire::{Buffer, Content, Packet, Payload};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Longest part of written data in one record, bytes.
const MAX_DATA_BYTES: u64 = 64 << 10;

/// Records the calls of a host and the packets that it sends.
pub struct Tape {
    writer: Writer,
    has_data: bool,
    /// The time of the last call.
    now: Time,
    /// Number of bytes already recorded of the data written to each connection.
    data: BTreeMap<ConnectionId, u64>,
    /// A call has been made since the output was last drained.
    is_dirty: bool,
}

/// Settings of a recording.
pub struct Recording {
    /// Destination of the recording.
    pub out: Box<dyn Write + Send>,
    /// True if the recording contains the bytes of payloads, not only their lengths.
    pub has_data: bool,
}

impl Tape {
    /// Begins the recording of a new host with this key of its secrets.
    ///
    /// # Errors
    /// If the start of the recording cannot be written.
    pub fn new(
        recording: Recording,
        key: [u8; 32],
        (addresses, limits): (&[Address], &Limits),
    ) -> io::Result<Self> {
        let Recording { out, has_data } = recording;
        let (addresses, limits) = (addresses.to_vec(), limits.clone());
        let subject = Subject::Host { has_data, key, addresses, limits };
        let writer = Writer::new(out, &Head::of(subject))?;
        Ok(Self { writer, has_data, now: Time::ZERO, data: BTreeMap::new(), is_dirty: true })
    }

    /// Records a call at a time.
    pub fn call_at(&mut self, now: Time, call: &Call) {
        self.now = now;
        self.call(call);
    }

    /// Records a call at the time of the previous one.
    pub fn call(&mut self, call: &Call) {
        self.is_dirty = true;
        self.writer.call(self.now, call);
        if let Call::Forget(id) = call {
            self.data.remove(id);
        }
    }

    /// Records that the output is drained. Returns false if that has no effect, since no call precedes it.
    pub fn drive(&mut self, now: Time) -> bool {
        if core::mem::take(&mut self.is_dirty) {
            self.call_at(now, &Call::Drive);
            self.is_dirty = false;
            return true;
        }
        false
    }

    /// Records an arrival.
    pub fn arrival(&mut self, now: Time, packet: Packet, content: Buffer<'_>) {
        (self.now, self.is_dirty) = (now, true);
        let image = self.image_of(packet, content);
        self.writer.arrival(now, image.as_ref().map_err(|reason| *reason));
    }

    /// Records the checksums that the host computed of parts of the last arrival's payload.
    pub fn sums(&mut self, sums: &[u16]) {
        if !sums.is_empty() {
            self.writer.sums(sums);
        }
    }

    /// The image of a packet that arrived, from which the same packet is parsed.
    fn image_of(&self, mut packet: Packet, content: Buffer<'_>) -> Result<Image, &'static str> {
        const NO_ENCODING: &str = "a packet arrived that has no encoding";
        packet.validate().map_err(|_| NO_ENCODING)?;
        let mut image =
            Image { encapsulated: is_encapsulated(&packet), bytes: Vec::new(), offsets: Vec::new() };
        packet.emit_with(&mut image.bytes, |payload, out| {
            if self.has_data {
                content.copy(payload, out);
            } else {
                out.fill(0);
            }
        });
        let mut parsed = image.parse().ok_or(NO_ENCODING)?;
        parsed.for_each_payload(|payload| payload.offset = 0);
        packet.for_each_payload(|payload| payload.offset = 0);
        match parsed == packet {
            true => Ok(image),
            false if self.has_data => Err(NO_ENCODING),
            false => Err("authenticated data arrived, whose code needs the bytes; add --record-data"),
        }
    }

    /// Records a packet that is sent; `fill` writes its payload.
    pub fn sent(&mut self, packet: &Packet, fill: &mut dyn FnMut(Payload, &mut [u8])) {
        let digest = self.has_data.then(|| digest_of(packet, fill));
        self.writer.sent(&Image::of(packet), digest);
    }

    /// Records the bytes that were written to a connection since the last call of this function.
    pub fn data(&mut self, id: ConnectionId, sent: &SendBuffer) {
        if !self.has_data {
            return;
        }
        let at = self.data.entry(id).or_default();
        while *at < sent.written() {
            let len = (sent.written() - *at).min(MAX_DATA_BYTES);
            let run = sent.run(Payload::new(*at, len as u32));
            self.writer.data(id, run);
            *at += run.len() as u64;
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first error that occurred when the recording was written.
    pub fn finish(self) -> io::Result<()> {
        self.writer.finish()
    }
}

/// The CRC-32C of a packet with its real payload.
pub fn digest_of(packet: &Packet, fill: &mut dyn FnMut(Payload, &mut [u8])) -> u32 {
    let mut bytes = Vec::new();
    packet.emit_with(&mut bytes, fill);
    crc32c::crc32c(&bytes)
}

/// A packet's bytes, with a list of the sums that a host has computed over parts of them.
pub struct Summed<'a> {
    content: Buffer<'a>,
    sums: RefCell<Vec<u16>>,
}

impl<'a> Summed<'a> {
    /// No sum is computed yet.
    pub const fn new(content: Buffer<'a>) -> Self {
        Self { content, sums: RefCell::new(Vec::new()) }
    }

    /// The sums.
    pub fn into_sums(self) -> Vec<u16> {
        self.sums.into_inner()
    }
}

impl Content for Summed<'_> {
    fn sum(&self, payload: Payload) -> Checksum {
        let sum = self.content.sum(payload);
        self.sums.borrow_mut().push(sum.finish());
        sum
    }

    fn copy(&self, payload: Payload, out: &mut [u8]) {
        self.content.copy(payload, out);
    }
}
