//! Bytes received of messages.

use std::collections::BTreeMap;

/// Maximum number of empty buffers kept for later fragments.
const MAX_SPARE_BUFFERS: usize = 256;

/// Fragments by key, until their messages are read. The endpoint accepts only fragments that fit its receive window,
/// which bounds the memory.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    by_key: BTreeMap<u64, Vec<u8>>,
    /// Buffers of fragments that have been read, kept for reuse, so that most fragments need no allocation.
    spare: Vec<Vec<u8>>,
}

impl Fragments {
    /// Number of fragments.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if there is no fragment.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Stores a fragment.
    ///
    /// # Panics
    ///
    /// If there is already a fragment with this key.
    pub fn place(&mut self, key: u64, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        let before = self.by_key.insert(key, buffer);
        assert!(before.is_none(), "two fragments with the key {key}");
    }

    /// Removes a run of fragments, given as the first key and a count, that will not be read.
    ///
    /// # Panics
    ///
    /// If there is no fragment for one of the keys.
    pub fn forget(&mut self, (first, count): (u64, u32)) {
        for key in first..first + u64::from(count) {
            assert!(self.by_key.remove(&key).is_some(), "no fragment {key}");
        }
    }

    /// Moves the fragments of a message, given as runs of a first key and a count, to the end of `out`.
    ///
    /// # Panics
    ///
    /// If there is no fragment for one of the keys.
    pub fn collect(&mut self, runs: &[(u64, u32)], out: &mut Vec<u8>) {
        for &(first, count) in runs {
            for key in first..first + u64::from(count) {
                let mut fragment = self.by_key.remove(&key).unwrap_or_else(|| panic!("no fragment {key}"));
                out.append(&mut fragment);
                if self.spare.len() < MAX_SPARE_BUFFERS {
                    self.spare.push(fragment);
                }
            }
        }
    }
}
