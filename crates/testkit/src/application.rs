//! An application that writes random bytes and reads those that the other end writes.

use crate::contents::{Contents, Key};
use anabranch_base::rng::Rng;
use anabranch_endpoint::{Reliability, Socket, Write};
use std::collections::BTreeMap;

/// The data that an application writes.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A byte stream.
    Stream { bytes: u64 },
    /// Messages.
    Messages {
        /// Minimum of the total length of all messages.
        bytes: u64,
        /// Minimum and maximum length of a message. Lengths are distributed uniformly.
        lengths: (u64, u64),
        /// Number of streams; each message is sent on a random one.
        streams: u16,
        /// Probability that a message is unordered.
        unordered: f64,
        /// Reliability of each message. A priority is drawn at random below the given one.
        reliability: Reliability,
    },
}

impl Load {
    /// Returns the minimum number of bytes of all data.
    pub const fn bytes(self) -> u64 {
        let (Self::Stream { bytes } | Self::Messages { bytes, .. }) = self;
        bytes
    }
}

#[derive(Debug)]
pub struct Application {
    load: Load,
    rng: Rng,
    /// Number of bytes that the application has yet to generate.
    left: u64,
    /// Minimum number of bytes that the other end writes.
    expected: u64,
    /// Bytes of the current write.
    pending: Vec<u8>,
    /// Number of bytes of the current write that the socket has accepted.
    accepted: usize,
    how: Write,
    out: Vec<u8>,
    /// Bytes that have been read of messages that are delivered in parts.
    parts: BTreeMap<Key, Vec<u8>>,
    pub written: Contents,
    pub read: Contents,
    /// True if the other end has closed its direction.
    pub finished: bool,
    /// True while the application must write without end, so that neither end closes.
    pub goes_on: bool,
    /// True while the application does not close.
    pub stays_open: bool,
    /// True while the application reads nothing.
    pub is_paused: bool,
    /// Payload protocol identifiers of its messages; any if there are none.
    pub ppids: &'static [u32],
    /// True once the connection is established. An application without data closes only then.
    pub is_connected: bool,
    closed: bool,
}

impl Application {
    /// Creates an application that writes `load`, while the other end writes at least `expected` bytes.
    pub fn new(load: Load, expected: u64, rng: Rng) -> Self {
        let left = load.bytes();
        Self {
            load,
            rng,
            left,
            expected,
            pending: Vec::new(),
            accepted: 0,
            how: Write::bytes(0),
            out: Vec::new(),
            parts: BTreeMap::new(),
            written: Contents::default(),
            read: Contents::default(),
            finished: false,
            goes_on: false,
            stays_open: false,
            is_paused: false,
            ppids: &[],
            is_connected: false,
            closed: false,
        }
    }

    /// Generates the next bytes to write; returns false if none are left.
    fn generate_data(&mut self) -> bool {
        if self.accepted < self.pending.len() {
            return true;
        }
        if self.left == 0 && !self.goes_on {
            return false;
        }
        let len = match self.load {
            Load::Stream { .. } => self.rng.between(1, 40_000).min(self.left.max(1)),
            Load::Messages { lengths, streams, unordered, reliability, .. } => {
                self.how.reliability = match reliability {
                    Reliability::Priority(most) => Reliability::Priority(self.rng.below(most.into()) as u32),
                    other => other,
                };
                self.how.stream = self.rng.below(u64::from(streams)) as u16;
                self.how.unordered = self.rng.chance(unordered);
                self.how.ppid = random_ppid(&mut self.rng, self.ppids);
                self.rng.between(lengths.0, lengths.1)
            }
        };
        self.left = self.left.saturating_sub(len);
        self.accepted = 0;
        self.pending.clear();
        while self.pending.len() < len as usize {
            self.pending.extend_from_slice(&self.rng.next_u64().to_le_bytes());
        }
        self.pending.truncate(len as usize);
        true
    }

    /// Writes while the socket accepts data, reads all available data, and closes after the last write. Returns true if
    /// it has done any of these.
    pub fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
        let mut busy = false;
        while self.generate_data() {
            let accepted = socket.write(&self.pending[self.accepted..], self.how);
            if accepted == 0 {
                break;
            }
            busy = true;
            let new = &self.pending[self.accepted..self.accepted + accepted];
            match self.load {
                Load::Stream { .. } => self.written.take_bytes(new),
                Load::Messages { .. } => {
                    self.written.take_message((self.how.stream, self.how.unordered), self.how.ppid, new);
                }
            }
            self.accepted += accepted;
        }
        busy |= !self.is_paused && self.read_all(socket);
        if self.may_close() {
            self.closed = true;
            busy = true;
            socket.close();
        }
        busy
    }

    /// Reads all available data; returns true if there was any.
    fn read_all(&mut self, socket: &mut Socket<'_>) -> bool {
        let mut busy = false;
        let max = self.rng.between(1, 60_000);
        self.out.clear();
        while let Some(delivery) = socket.read(max, &mut self.out) {
            busy = true;
            match self.load {
                Load::Stream { .. } => self.read.take_bytes(&self.out),
                Load::Messages { .. } => {
                    let key = (delivery.stream, delivery.unordered);
                    let message = self.parts.entry(key).or_default();
                    message.append(&mut self.out);
                    if !delivery.more {
                        self.read.take_message(key, delivery.ppid, message);
                        message.clear();
                    }
                }
            }
            self.out.clear();
        }
        busy
    }

    /// Returns true once the application has written everything, unless it stays open. An association closes both
    /// directions at once (RFC 9260 §9.2), so each end must first read all messages of the other.
    fn may_close(&mut self) -> bool {
        let has_read_all = match self.load {
            Load::Stream { .. } => true,
            Load::Messages { .. } => self.read.bytes >= self.expected || self.finished,
        };
        let has_written = self.written.bytes > 0 || self.load.bytes() == 0 && self.is_connected;
        !self.closed && !self.stays_open && has_written && has_read_all && !self.generate_data()
    }
}

/// One of the given payload protocol identifiers, or any if there are none.
pub fn random_ppid(rng: &mut Rng, ppids: &[u32]) -> u32 {
    match ppids {
        [] => rng.next_u32(),
        ppids => ppids[rng.below(ppids.len() as u64) as usize],
    }
}
