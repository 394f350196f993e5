//! An application on a byte stream of another stack.

use anabranch_base::rng::Rng;
use anabranch_testkit::contents::Contents;

/// Writes random bytes, and takes those of the other end.
pub struct StreamApplication {
    rng: Rng,
    left: u64,
    pending: Vec<u8>,
    pub written: Contents,
    pub read: Contents,
    /// True if the other end has ended its direction.
    pub has_read_all: bool,
    /// True while the application reads nothing.
    pub is_paused: bool,
    /// True while the application does not close.
    pub stays_open: bool,
    pub has_closed: bool,
}

impl StreamApplication {
    /// An application that writes `bytes` bytes.
    pub fn new(bytes: u64, rng: Rng) -> Self {
        Self {
            rng,
            left: bytes,
            pending: Vec::new(),
            written: Contents::default(),
            read: Contents::default(),
            has_read_all: false,
            is_paused: false,
            stays_open: false,
            has_closed: false,
        }
    }

    /// Writes while `accept`, which returns the number of bytes that the connection has taken, takes bytes. Returns true if
    /// it took any.
    pub fn write(&mut self, mut accept: impl FnMut(&[u8]) -> usize) -> bool {
        let before = self.left;
        while self.left > 0 {
            if self.pending.is_empty() {
                let len = self.rng.between(1, 40_000).min(self.left) as usize;
                self.pending = (0..len).map(|_| self.rng.next_u32() as u8).collect();
            }
            let taken = accept(&self.pending);
            if taken == 0 {
                break;
            }
            self.written.take_bytes(&self.pending[..taken]);
            self.pending.drain(..taken);
            self.left -= taken as u64;
        }
        self.left < before
    }

    /// A buffer of random length for reading.
    pub fn buffer(&mut self) -> Vec<u8> {
        vec![0; self.rng.between(1, 60_000) as usize]
    }

    /// Returns true once, when all is written and the application may close.
    pub fn closes(&mut self) -> bool {
        let closes = self.left == 0 && !self.stays_open && !self.has_closed;
        self.has_closed |= closes;
        closes
    }
}
