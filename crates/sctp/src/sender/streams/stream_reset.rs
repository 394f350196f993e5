//! Stream reset and stream addition (RFC 6525): messages written before a reset are sent before it, and later ones
//! wait.

use super::{SendQueue, Stream};

impl SendQueue {
    /// Holds messages written from now on to these streams, or to all if the list is empty, until
    /// [`release_streams`](Self::release_streams).
    pub fn hold(&mut self, streams: &[u16]) {
        let from = self.next_serial();
        for stream in self.all(streams) {
            self.held.insert(stream, from);
        }
    }

    pub fn release_streams(&mut self, streams: &[u16]) {
        for stream in self.all(streams) {
            self.held.remove(&stream);
        }
    }

    /// Holds all messages written from now on until [`resume`](Self::resume).
    pub fn pause(&mut self) {
        self.paused.get_or_insert(self.next_serial());
    }

    pub const fn resume(&mut self) {
        self.paused = None;
    }

    /// Returns true if all queued messages are held.
    pub fn is_quiet(&self) -> bool {
        let at = |stream: u16| &self.streams[usize::from(stream)];
        self.all(&[]).into_iter().all(|stream| at(stream).queue.is_empty() || self.waits(stream))
    }

    /// Returns true if all messages written before these streams (or all streams) were held have been fragmented.
    /// Messages held by a pause have not.
    pub fn has_left(&self, streams: &[u16]) -> bool {
        self.all(streams).into_iter().all(|stream| {
            let held = self.held.get(&stream);
            let front = self.streams[usize::from(stream)].queue.front();
            front.is_none_or(|front| held.is_some_and(|&from| front.serial >= from))
        })
    }

    /// Returns true if the next message of this stream has to wait for the reset of the stream.
    pub(super) fn waits(&self, stream: u16) -> bool {
        let Some(front) = self.streams[usize::from(stream)].queue.front() else { return false };
        let from = self.held.get(&stream).copied().unwrap_or(u64::MAX).min(self.paused.unwrap_or(u64::MAX));
        front.serial >= from
    }

    /// Restarts the numbering of messages in these streams, or in all.
    pub fn renumber(&mut self, streams: &[u16]) {
        for stream in self.all(streams) {
            let stream = &mut self.streams[usize::from(stream)];
            (stream.ordered, stream.unordered) = (0, 0);
        }
    }

    /// Adds `count` streams, up to the maximum number of streams.
    pub fn add_streams(&mut self, count: u16) {
        let count = count.min(u16::MAX - self.streams());
        self.streams.extend((0..count).map(|_| Stream::default()));
        if core::mem::take(&mut self.single) {
            self.enlist_first();
        }
    }

    /// Adds the only stream to the scheduler's order, which is used from now on.
    pub(super) fn enlist_first(&mut self) {
        let Some(front) = self.streams[0].queue.front() else { return };
        if front.fragments > 0 && !self.interleave {
            self.current = Some(0);
        } else {
            self.enlist(0);
        }
    }

    /// Position of the next message in the order of writing.
    fn next_serial(&self) -> u64 {
        self.written.first + self.written.messages.len() as u64
    }

    fn all(&self, streams: &[u16]) -> Vec<u16> {
        if streams.is_empty() { (0..self.streams()).collect() } else { streams.into() }
    }
}
