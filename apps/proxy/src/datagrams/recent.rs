//! Table of entries that were used recently. The table has a maximum size: the entry whose last use is the oldest leaves.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A table of recently used entries.
#[derive(Debug)]
pub struct Recent<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// Keys by the number of their last use.
    by_use: BTreeMap<u64, K>,
    next_use: u64,
    max_entries: usize,
    timeout: Duration,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    last_use: u64,
    used_at: Instant,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// Creates an empty table. An entry expires after `timeout` without a use.
    pub const fn new(max_entries: usize, timeout: Duration) -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), next_use: 0, max_entries, timeout }
    }

    /// Returns the value of an entry that has not expired, and counts this as a use.
    pub fn use_at(&mut self, key: &K, now: Instant) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        if now.saturating_duration_since(entry.used_at) >= self.timeout {
            return None;
        }
        self.by_use.remove(&entry.last_use);
        self.by_use.insert(self.next_use, key.clone());
        (entry.last_use, entry.used_at) = (self.next_use, now);
        self.next_use += 1;
        Some(&mut entry.value)
    }

    /// Returns the value of an entry, even if it has expired. This is not a use.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Inserts or replaces an entry. In a full table, the entry whose last use is the oldest leaves.
    pub fn insert(&mut self, key: K, value: V, now: Instant) {
        self.remove(&key);
        while self.entries.len() >= self.max_entries {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        self.by_use.insert(self.next_use, key.clone());
        self.entries.insert(key, Entry { value, last_use: self.next_use, used_at: now });
        self.next_use += 1;
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.last_use);
        Some(entry.value)
    }

    /// Removes all expired entries.
    pub fn expire(&mut self, now: Instant) {
        while let Some(first) = self.by_use.first_entry() {
            let is_expired = |entry: &Entry<V>| now.saturating_duration_since(entry.used_at) >= self.timeout;
            if !self.entries.get(first.get()).is_none_or(is_expired) {
                return;
            }
            self.entries.remove(&first.remove());
        }
    }

    /// Returns the time at which the next entry expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        let (_, key) = self.by_use.first_key_value()?;
        Some(self.entries.get(key)?.used_at + self.timeout)
    }

    /// Returns the number of entries, including expired ones.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }

    /// Returns the keys in the order of their last use, the oldest first.
    pub fn keys_by_use(&self) -> impl Iterator<Item = &K> {
        self.by_use.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMEOUT: Duration = Duration::from_secs(120);

    #[test]
    fn oldest_entry_leaves_full_table() {
        let (begin, mut table) = (Instant::now(), Recent::new(2, TIMEOUT));
        table.insert("a", 1, begin);
        table.insert("b", 2, begin);
        assert_eq!(table.use_at(&"a", begin), Some(&mut 1));
        table.insert("c", 3, begin);
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(table.keys_by_use().copied().collect::<Vec<_>>(), ["a", "c"]);
        table.insert("a", 4, begin);
        assert_eq!((table.remove(&"a"), table.remove(&"a"), table.is_empty()), (Some(4), None, false));
    }

    #[test]
    fn unused_entry_expires() {
        let (begin, mut table) = (Instant::now(), Recent::new(9, TIMEOUT));
        table.insert("a", 1, begin);
        table.insert("b", 2, begin);
        assert_eq!(table.use_at(&"b", begin + TIMEOUT / 2), Some(&mut 2));
        assert_eq!(table.next_expiry(), Some(begin + TIMEOUT));
        assert_eq!(table.use_at(&"a", begin + TIMEOUT), None);
        assert_eq!(table.get(&"a"), Some(&1));
        table.expire(begin + TIMEOUT);
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), ["b"]);
        table.expire(begin + 2 * TIMEOUT);
        assert!(table.is_empty() && table.next_expiry().is_none());
    }

    proptest! {
        /// The table equals a list of keys in the order of their last use.
        #[test]
        fn table_equals_list_in_order_of_use(commands in prop::collection::vec((0..3_u8, 0..12_u8), 0..200)) {
            let (now, mut table, mut list) = (Instant::now(), Recent::new(5, TIMEOUT), Vec::new());
            for (command, key) in commands {
                let known = list.iter().position(|other| *other == key);
                match command {
                    0 => {
                        table.insert(key, (), now);
                        known.map(|at| list.remove(at));
                        list.push(key);
                        if list.len() > 5 {
                            list.remove(0);
                        }
                    }
                    1 => {
                        prop_assert_eq!(table.use_at(&key, now).is_some(), known.is_some());
                        if let Some(at) = known {
                            let key = list.remove(at);
                            list.push(key);
                        }
                    }
                    _ => {
                        prop_assert_eq!(table.remove(&key).is_some(), known.is_some());
                        known.map(|at| list.remove(at));
                    }
                }
                prop_assert_eq!(table.keys_by_use().copied().collect::<Vec<_>>(), list.clone());
                prop_assert_eq!(table.keys().count(), list.len());
            }
        }
    }
}
