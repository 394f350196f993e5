//! Fixed paths of streams.

/// Fixed paths of streams.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// The path of stream i is the entry at i modulo the length. Empty if streams may use any path.
    pub paths: Vec<u8>,
    /// Path of the current packet, once it is chosen.
    pub at: Option<u8>,
}

impl Homes {
    /// Returns true if the current packet may carry every stream.
    pub const fn admit_all(&self) -> bool {
        self.at.is_none()
    }

    /// Returns true if the current packet may carry this stream.
    pub fn admit(&self, stream: u16) -> bool {
        self.at.is_none_or(|at| self.of(stream) == Some(at))
    }

    /// The path of a stream, if streams have fixed ones.
    pub fn of(&self, stream: u16) -> Option<u8> {
        self.paths.get(usize::from(stream) % self.paths.len().max(1)).copied()
    }
}
