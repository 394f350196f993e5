//! What became of the messages of one end: each is read once, whole and in order, or its writer is told that it was given up.

use anabranch_endpoint::{Delivery, Write};
use std::collections::{BTreeMap, BTreeSet};

/// The messages that an end wrote. Their payload protocol identifiers are their places in it.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Offset in all that was written, and how it was written.
    messages: Vec<(u64, Write)>,
    written: u64,
    read: BTreeSet<u32>,
    abandoned: BTreeSet<u32>,
    /// The newest ordered message that was read of each stream.
    newest: BTreeMap<u16, u32>,
    /// What was read of messages that come in parts: which, and how many bytes.
    parts: BTreeMap<(u16, bool), (u32, u64)>,
}

impl Ledger {
    /// The identifier of the next message.
    pub fn next(&self) -> u32 {
        self.messages.len() as u32
    }

    /// The end has accepted a message.
    pub fn wrote(&mut self, write: Write) {
        self.messages.push((self.written, write));
        self.written += write.len;
    }

    /// The end says that it has given a message up.
    pub fn gave_up(&mut self, offset: u64, len: u64) {
        let at = self.messages.binary_search_by_key(&offset, |&(offset, _)| offset).expect("a message");
        assert_eq!(self.messages[at].1.len, len, "all of it");
        assert!(self.abandoned.insert(at as u32), "a message is given up once");
    }

    /// The other end has read something.
    pub fn was_read(&mut self, delivery: &Delivery) {
        let key = (delivery.stream, delivery.unordered);
        if delivery.aborted {
            assert!(self.parts.remove(&key).is_some() && delivery.len == 0, "{delivery:?}");
            return;
        }
        let (number, before) = self.parts.remove(&key).unwrap_or((delivery.ppid, 0));
        let len = before + delivery.len;
        if delivery.more {
            self.parts.insert(key, (number, len));
            return;
        }
        let (_, write) = self.messages[number as usize];
        assert_eq!((write.len, write.stream, write.unordered), (len, key.0, key.1), "{delivery:?}");
        assert!(self.read.insert(number), "message {number} twice");
        if !write.unordered {
            let before = self.newest.insert(write.stream, number);
            assert!(before.is_none_or(|before| before < number), "streams keep their order");
        }
    }

    /// It is known of every message what became of it.
    pub fn is_settled(&self) -> bool {
        (0..self.next()).all(|number| self.read.contains(&number) || self.abandoned.contains(&number))
    }
}
