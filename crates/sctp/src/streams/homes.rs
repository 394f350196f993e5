//! Fixed paths of streams.

/// The paths of streams that have fixed ones.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// The path of stream i is that at i modulo the length. Empty if streams use any path.
    pub paths: Vec<u8>,
    /// The path of the present packet, once it is chosen.
    pub at: Option<u8>,
}

impl Homes {
    /// Whether the present packet may carry every stream.
    pub const fn admit_all(&self) -> bool {
        self.at.is_none()
    }

    /// Whether the present packet may carry this stream.
    pub fn admit(&self, stream: u16) -> bool {
        self.at.is_none_or(|at| self.of(stream) == Some(at))
    }

    /// The path of a stream, if streams have fixed ones.
    pub fn of(&self, stream: u16) -> Option<u8> {
        self.paths.get(usize::from(stream) % self.paths.len().max(1)).copied()
    }
}
