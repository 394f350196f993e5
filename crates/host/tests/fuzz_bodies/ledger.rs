//! Record of the messages that one end wrote. The other end reads each message once, whole and in order, or the writer
//! learns that it was abandoned.

use anabranch_endpoint::{Delivery, Write};
use std::collections::{BTreeMap, BTreeSet};

/// The messages that an end wrote. The payload protocol identifier of each is its index.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Offset of each message among all bytes written, and the parameters of its write.
    messages: Vec<(u64, Write)>,
    written: u64,
    read: BTreeSet<u32>,
    abandoned: BTreeSet<u32>,
    /// The last ordered message read from each stream.
    newest: BTreeMap<u16, u32>,
    /// Number of each partly delivered message, and its bytes that were already read.
    parts: BTreeMap<(u16, bool), (u32, u64)>,
}

impl Ledger {
    /// The identifier of the next message.
    pub fn next(&self) -> u32 {
        self.messages.len() as u32
    }

    /// Records a message that the end accepted.
    pub fn wrote(&mut self, write: Write) {
        self.messages.push((self.written, write));
        self.written += write.len;
    }

    /// Records that the end reported a message as abandoned.
    pub fn reported_abandoned(&mut self, offset: u64, len: u64) {
        let at = self.messages.binary_search_by_key(&offset, |&(offset, _)| offset).expect("a message");
        assert_eq!(self.messages[at].1.len, len, "a message is abandoned as a whole");
        assert!(self.abandoned.insert(at as u32), "a message is abandoned once");
    }

    /// Records a delivery to the other end's application and checks it.
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
        assert!(self.read.insert(number), "message {number} was delivered twice");
        if !write.unordered {
            let before = self.newest.insert(write.stream, number);
            assert!(before.is_none_or(|before| before < number), "streams keep their order");
        }
    }

    /// True if every message was either read or abandoned.
    pub fn is_settled(&self) -> bool {
        (0..self.next()).all(|number| self.read.contains(&number) || self.abandoned.contains(&number))
    }
}
