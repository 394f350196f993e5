//! The chunks of a packet.

use super::Chunk;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// The chunks of a packet, in order. Dereferences to a slice of them.
///
/// Most packets have one chunk: DATA that fills it, or a SACK. A single chunk is stored in the packet itself, so that
/// such a packet allocates no memory; several chunks are stored in a list.
#[derive(Clone)]
pub struct Chunks(Kept);

#[derive(Clone)]
enum Kept {
    None,
    One(Chunk),
    /// Zero or more chunks.
    Many(Vec<Chunk>),
}

impl Chunks {
    /// No chunk.
    pub const fn new() -> Self {
        Self(Kept::None)
    }

    /// Appends a chunk.
    #[inline]
    pub fn push(&mut self, chunk: Chunk) {
        if let Kept::None = self.0 {
            // The replaced `Kept::None` owns no memory, so it need not be dropped.
            core::mem::forget(core::mem::replace(&mut self.0, Kept::One(chunk)));
        } else {
            self.list().push(chunk);
        }
    }

    /// The chunks as a list, for operations that a slice does not offer.
    pub fn list(&mut self) -> &mut Vec<Chunk> {
        self.0 = Kept::Many(match core::mem::replace(&mut self.0, Kept::None) {
            Kept::None => Vec::new(),
            Kept::One(chunk) => vec![chunk],
            Kept::Many(list) => list,
        });
        match &mut self.0 {
            Kept::Many(list) => list,
            _ => unreachable!("the chunks were converted to a list above"),
        }
    }
}

impl Default for Chunks {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Chunk> for Chunks {
    #[inline]
    fn from(chunk: Chunk) -> Self {
        Self(Kept::One(chunk))
    }
}

impl From<Vec<Chunk>> for Chunks {
    fn from(list: Vec<Chunk>) -> Self {
        Self(Kept::Many(list))
    }
}

impl Deref for Chunks {
    type Target = [Chunk];

    #[inline]
    fn deref(&self) -> &[Chunk] {
        match &self.0 {
            Kept::None => &[],
            Kept::One(chunk) => core::slice::from_ref(chunk),
            Kept::Many(list) => list,
        }
    }
}

impl DerefMut for Chunks {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Chunk] {
        match &mut self.0 {
            Kept::None => &mut [],
            Kept::One(chunk) => core::slice::from_mut(chunk),
            Kept::Many(list) => list,
        }
    }
}

impl<'a> IntoIterator for &'a Chunks {
    type Item = &'a Chunk;
    type IntoIter = core::slice::Iter<'a, Chunk>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Chunks {
    type Item = &'a mut Chunk;
    type IntoIter = core::slice::IterMut<'a, Chunk>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl PartialEq for Chunks {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Chunks {}

impl<const N: usize> PartialEq<[Chunk; N]> for Chunks {
    fn eq(&self, other: &[Chunk; N]) -> bool {
        **self == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_chunk_allocates_nothing_and_equals_a_list() {
        let mut chunks = Chunks::new();
        assert!(chunks.is_empty());
        chunks.push(Chunk::CookieAck);
        assert!(matches!(chunks.0, Kept::One(_)));
        assert_eq!(chunks, Chunks::from(vec![Chunk::CookieAck]));
        chunks.push(Chunk::ShutdownAck);
        assert_eq!(chunks, [Chunk::CookieAck, Chunk::ShutdownAck]);
        assert_eq!(format!("{chunks:?}"), "[CookieAck, ShutdownAck]");
        chunks.list().remove(0);
        assert_eq!(chunks, Chunks::from(Chunk::ShutdownAck));
    }
}
