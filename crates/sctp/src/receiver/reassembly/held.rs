//! Counts the bytes that cannot be delivered yet, in total and by stream.

/// Bytes that wait for missing TSNs or for the rest of their message.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    all: u64,
    /// Held bytes by stream; empty if there is only one stream.
    by_stream: Vec<u64>,
}

impl HeldBytes {
    pub fn new(streams: u16) -> Self {
        let mut held = Self::default();
        held.add_streams(usize::from(streams));
        held
    }

    /// Adds `streams` streams. If there was only one before, the held bytes are those of that stream.
    pub fn add_streams(&mut self, streams: usize) {
        if streams > 1 {
            if self.by_stream.is_empty() {
                self.by_stream.push(self.all);
            }
            self.by_stream.resize(streams, 0);
        }
    }

    #[inline]
    pub fn add(&mut self, stream: u16, bytes: u64) {
        self.all += bytes;
        if let Some(own) = self.by_stream.get_mut(usize::from(stream)) {
            *own += bytes;
        }
    }

    #[inline]
    pub fn remove(&mut self, stream: u16, bytes: u64) {
        self.all -= bytes;
        if let Some(own) = self.by_stream.get_mut(usize::from(stream)) {
            *own -= bytes;
        }
    }

    pub const fn all(&self) -> u64 {
        self.all
    }

    pub fn by_stream(&self) -> &[u64] {
        &self.by_stream
    }
}
