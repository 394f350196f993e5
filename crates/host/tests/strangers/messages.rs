//! An application on messages of another stack.

use anabranch_base::rng::Rng;
use anabranch_testkit::application::random_ppid;
use anabranch_testkit::contents::Contents;

/// Number of streams of either end.
pub const STREAMS: u16 = 4;

/// A message that an application has not yet sent.
pub struct Outgoing {
    pub stream: u16,
    pub ppid: u32,
    pub bytes: Vec<u8>,
}

/// Sends random messages, and takes those of the other end.
pub struct MessageApplication {
    rng: Rng,
    left: u64,
    /// Minimum and maximum length of a message.
    lengths: (u64, u64),
    /// All messages are unordered, or none: received messages of the other stacks have no such mark.
    unordered: bool,
    /// Payload protocol identifiers that the stack can send; any if there are none.
    ppids: &'static [u32],
    next: Option<Outgoing>,
    pub written: Contents,
    pub read: Contents,
    /// The received messages with their streams, in order, if the test needs them.
    pub log: Option<Vec<(u16, Vec<u8>)>>,
    /// True while the application reads nothing.
    pub is_paused: bool,
    pub has_shut_down: bool,
}

impl MessageApplication {
    /// An application that sends at least `bytes` bytes.
    pub fn new(
        bytes: u64,
        (lengths, unordered): ((u64, u64), bool),
        ppids: &'static [u32],
        rng: Rng,
    ) -> Self {
        Self {
            rng,
            left: bytes,
            lengths,
            unordered,
            ppids,
            next: None,
            written: Contents::default(),
            read: Contents::default(),
            log: None,
            is_paused: false,
            has_shut_down: false,
        }
    }

    /// Sends messages while `send` returns true. Returns true if any was sent.
    pub fn write(&mut self, mut send: impl FnMut(&Outgoing) -> bool) -> bool {
        let before = self.written.messages;
        while self.next.is_some() || self.left > 0 {
            let message = self.next.take().unwrap_or_else(|| self.generate());
            if !send(&message) {
                self.next = Some(message);
                break;
            }
            self.written.take_message((message.stream, self.unordered), message.ppid, &message.bytes);
        }
        self.written.messages > before
    }

    /// Takes a message of the other end.
    pub fn take(&mut self, stream: u16, ppid: u32, bytes: &[u8]) {
        self.read.take_message((stream, self.unordered), ppid, bytes);
        if let Some(log) = &mut self.log {
            log.push((stream, bytes.to_vec()));
        }
    }

    /// Returns true if all messages are sent.
    pub fn has_written_all(&self) -> bool {
        self.left == 0 && self.next.is_none()
    }

    fn generate(&mut self) -> Outgoing {
        let len = self.rng.between(self.lengths.0, self.lengths.1);
        self.left = self.left.saturating_sub(len);
        let bytes = (0..len).map(|_| self.rng.next_u32() as u8).collect();
        let ppid = random_ppid(&mut self.rng, self.ppids);
        Outgoing { stream: self.rng.below(STREAMS.into()) as u16, ppid, bytes }
    }
}
