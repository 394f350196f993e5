//! Counts what waits before a fragment.

use super::{Fragment, Reassembly};

impl Reassembly {
    /// Number of entries before the position of a fragment. For a whole ordered message, these are the
    /// waiting messages of its stream with a lower number; for a part of a message, the waiting parts.
    pub fn waiting_before(&self, piece: &Fragment) -> u64 {
        let Some(stream) = self.streams.get(usize::from(piece.stream)) else { return 0 };
        let count = match piece.number {
            _ if piece.first && piece.last && piece.unordered => 0,
            number if piece.first && piece.last => {
                let own = stream.number_of(piece.message, number.is_some());
                stream.waiting.range(..own).count()
            }
            None => self.runs.range(..piece.tsn).count(),
            Some(number) => {
                let key = (piece.stream, piece.unordered, piece.message);
                let parts = self.partials.get(&key);
                self.partials.range(..key).count()
                    + parts.map_or(0, |partial| partial.fragments.range(..number).count())
            }
        };
        count as u64
    }
}
