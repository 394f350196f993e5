//! Digests of the data that one end writes and the other end reads. They must be equal.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Stream number, and true for the unordered messages of the stream.
pub type Key = (u16, bool);

/// Digests of the data of each stream. Bytes and ordered messages are hashed in their order. Unordered messages may
/// overtake each other, so their digest is the sum of the hashes of all messages.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    in_order: BTreeMap<u16, Sha256>,
    unordered: BTreeMap<u16, [u64; 4]>,
    pub bytes: u64,
    pub messages: u64,
}

impl Contents {
    /// Adds the next bytes of a byte stream.
    pub fn take_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.in_order.entry(0).or_default().update(bytes);
    }

    /// Adds a message with its payload protocol identifier.
    pub fn take_message(&mut self, (stream, unordered): Key, ppid: u32, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.messages += 1;
        let head = [u64::from(ppid), bytes.len() as u64].map(u64::to_be_bytes);
        if unordered {
            let hash = Sha256::new().chain_update(head.as_flattened()).chain_update(bytes).finalize();
            let sum = self.unordered.entry(stream).or_default();
            for (word, bytes) in sum.iter_mut().zip(hash.chunks_exact(8)) {
                *word = word.wrapping_add(u64::from_be_bytes(bytes.try_into().expect("eight bytes")));
            }
        } else {
            let hash = self.in_order.entry(stream).or_default();
            hash.update(head.as_flattened());
            hash.update(bytes);
        }
    }

    /// Returns the digests, by stream.
    pub fn digests(&self) -> BTreeMap<Key, [u8; 32]> {
        let in_order =
            self.in_order.iter().map(|(&stream, hash)| ((stream, false), hash.clone().finalize().into()));
        let unordered = self.unordered.iter().map(|(&stream, sum)| {
            let bytes: Vec<u8> = sum.iter().flat_map(|word| word.to_be_bytes()).collect();
            ((stream, true), bytes.try_into().expect("32 bytes"))
        });
        in_order.chain(unordered).collect()
    }
}
