//! Bytes received of messages.

use std::collections::BTreeMap;

/// Empty buffers that are kept for fragments to come.
const SPARE: usize = 256;

/// Fragments by key, until their messages are read. The endpoint keeps no more of them than its receive window has room
/// for, which bounds the memory.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    by_key: BTreeMap<u64, Vec<u8>>,
    /// Buffers of fragments that have been read, kept for reuse: in the long run no fragment needs an allocation.
    spare: Vec<Vec<u8>>,
}

impl Fragments {
    /// How many fragments wait.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if no fragment is kept.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Keeps a fragment.
    ///
    /// # Panics
    /// If a fragment with this key is already kept.
    pub fn place(&mut self, key: u64, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        let before = self.by_key.insert(key, buffer);
        assert!(before.is_none(), "two fragments with the key {key}");
    }

    /// Forgets a run of fragments, given as the first key and a count, that will not be read.
    ///
    /// # Panics
    /// If one of the fragments is not kept.
    pub fn forget(&mut self, (first, count): (u64, u32)) {
        for key in first..first + u64::from(count) {
            assert!(self.by_key.remove(&key).is_some(), "no fragment {key}");
        }
    }

    /// Appends the fragments of a message, given as runs of a first key and a count, to `out` and forgets them.
    ///
    /// # Panics
    /// If one of the fragments is not kept.
    pub fn collect(&mut self, runs: &[(u64, u32)], out: &mut Vec<u8>) {
        for &(first, count) in runs {
            for key in first..first + u64::from(count) {
                let mut fragment = self.by_key.remove(&key).unwrap_or_else(|| panic!("no fragment {key}"));
                out.append(&mut fragment);
                if self.spare.len() < SPARE {
                    self.spare.push(fragment);
                }
            }
        }
    }
}
