//! Streams that begin anew, and streams that come (RFC 6525).

use super::{Inbox, Reassembly, Stream};

impl Reassembly {
    pub fn streams(&self) -> u16 {
        self.streams.len() as u16
    }

    /// As many more streams.
    pub fn add_streams(&mut self, count: u16) {
        self.streams.extend((0..count).map(|_| Stream::default()));
    }

    /// Nothing waits for the rest of it, or for something before it.
    pub fn is_whole(&self) -> bool {
        self.runs.is_empty() && self.partials.is_empty() && self.held == 0
    }

    /// The next message of a stream is its first. All that was sent before has come; what of it is not whole never will be.
    pub fn renew(&mut self, stream: u16, inbox: &mut Inbox) {
        for unordered in [false, true] {
            self.let_go(stream, unordered, inbox, |_| true);
        }
        let stream = &mut self.streams[usize::from(stream)];
        for (_, message) in core::mem::take(&mut stream.waiting) {
            self.held -= message.len;
            inbox.push(message);
        }
        (stream.next, stream.gone) = (0, None);
    }
}
