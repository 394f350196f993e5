//! The chunks of one direction of an association that may still be acknowledged, with bounded memory.

/// Maximum number of kept chunks: 12 MB of data in flight.
const MAX_CHUNKS: usize = 8_192;

/// A chunk that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    tsn: u32,
    pub len: u16,
    pub path: u8,
    pub is_acked: bool,
}

/// The latest chunks by their number. The memory is allocated with the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(Vec<Chunk>);

impl Recent {
    /// Adds a chunk by its unwrapped TSN.
    pub fn insert(&mut self, tsn: u64, len: u16, path: u8) {
        if self.0.is_empty() {
            self.0.resize(MAX_CHUNKS, Chunk::default());
        }
        self.0[tsn as usize % MAX_CHUNKS] = Chunk { tsn: tsn as u32, len, path, is_acked: false };
    }

    /// The chunk with a TSN, if it is kept.
    pub fn get_mut(&mut self, tsn: u64) -> Option<&mut Chunk> {
        let slot = (tsn as usize) % MAX_CHUNKS;
        self.0.get_mut(slot).filter(|chunk| chunk.tsn == tsn as u32 && chunk.len > 0)
    }

    /// The part of `[from, to)` that can be kept.
    pub fn span(from: u64, to: u64) -> core::ops::Range<u64> {
        from.max(to.saturating_sub(MAX_CHUNKS as u64))..to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_chunks_are_remembered() {
        let mut recent = Recent::default();
        assert_eq!(recent.get_mut(0), None);
        (1..=10_000).for_each(|tsn| recent.insert(tsn, tsn as u16, 1));
        assert_eq!(recent.get_mut(10_000).map(|chunk| chunk.len), Some(10_000));
        assert_eq!(recent.get_mut(1_000), None);
        assert_eq!(Recent::span(0, 10_000).count(), MAX_CHUNKS);
    }
}
