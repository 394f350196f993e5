//! Bytes received of messages.

use std::collections::BTreeMap;

/// Maximum number of empty buffers kept for later fragments.
const MAX_SPARE_BUFFERS: usize = 256;
/// Number of places at first, and at most. Both are powers of two.
const MIN_PLACES: usize = 16;
const MAX_PLACES: usize = 4096;
/// Number of places that are kept without fragments, 2 KiB.
const MAX_IDLE_PLACES: usize = 64;

/// Fragments by key, until their messages are read. The endpoint accepts only fragments that fit its receive window,
/// which bounds the memory.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    /// A fragment is at the index of its key modulo the number of places. Keys are nearly consecutive, so few of them share a
    /// place.
    places: Vec<Option<(u64, Vec<u8>)>>,
    /// Fragments whose place has another one.
    others: BTreeMap<u64, Vec<u8>>,
    len: usize,
    /// Buffers of fragments that have been read, kept for reuse, so that most fragments need no allocation.
    spare: Vec<Vec<u8>>,
}

impl Fragments {
    /// Number of fragments.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no fragment.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores a fragment.
    ///
    /// # Panics
    ///
    /// If there is already a fragment with this key.
    pub fn place(&mut self, key: u64, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        self.insert(key, buffer);
    }

    fn insert(&mut self, key: u64, buffer: Vec<u8>) {
        while !self.is_free(key) && self.may_grow() {
            self.grow();
        }
        let is_free = self.is_free(key);
        let index = self.index(key);
        let other = self.others.contains_key(&key);
        let place = &mut self.places[index];
        assert!(
            !other && place.as_ref().is_none_or(|&(at, _)| at != key),
            "two fragments with the key {key}"
        );
        self.len += 1;
        if is_free {
            *place = Some((key, buffer));
        } else {
            self.others.insert(key, buffer);
        }
    }

    const fn index(&self, key: u64) -> usize {
        key as usize & (self.places.len() - 1)
    }

    fn is_free(&self, key: u64) -> bool {
        !self.places.is_empty() && self.places[self.index(key)].is_none()
    }

    /// True if the fragments would use a fair share of twice as many places, so that few distant keys cannot use much memory.
    const fn may_grow(&self) -> bool {
        self.places.len() < MAX_PLACES && self.len >= self.places.len() / 4
    }

    /// Doubles the number of places. Keys that had different places have different places afterwards.
    fn grow(&mut self) {
        let larger = (2 * self.places.len()).max(MIN_PLACES);
        let before = core::mem::take(&mut self.places);
        self.places.resize_with(larger, || None);
        for (key, buffer) in before.into_iter().flatten() {
            let index = self.index(key);
            self.places[index] = Some((key, buffer));
        }
    }

    fn remove(&mut self, key: u64) -> Option<Vec<u8>> {
        if self.len == 0 {
            return None;
        }
        let index = self.index(key);
        let placed = self.places[index].take_if(|&mut (at, _)| at == key);
        let removed = placed.map(|(_, buffer)| buffer).or_else(|| self.others.remove(&key))?;
        self.len -= 1;
        if self.len == 0 && self.places.len() > MAX_IDLE_PLACES {
            self.places = Vec::new();
        }
        Some(removed)
    }

    /// Removes a run of fragments, given as the first key and a count, that will not be read.
    ///
    /// # Panics
    ///
    /// If there is no fragment for one of the keys.
    pub fn forget(&mut self, (first, count): (u64, u32)) {
        for key in first..first + u64::from(count) {
            assert!(self.remove(key).is_some(), "no fragment {key}");
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
                let mut fragment = self.remove(key).unwrap_or_else(|| panic!("no fragment {key}"));
                out.append(&mut fragment);
                if self.spare.len() < MAX_SPARE_BUFFERS {
                    self.spare.push(fragment);
                }
            }
        }
    }
}
