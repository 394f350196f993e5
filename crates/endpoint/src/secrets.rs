//! Secrets: keys, nonces, initial sequence numbers, tags, cookie keys.

use anabranch_base::rng::Rng;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A source of secrets with a key that the caller provides: block `i` is HMAC-SHA-256(key, i).
///
/// An observer of any number of its secrets learns nothing about the others while the key stays secret. The simulator
/// derives the key from its seed, so that a run repeats; on a real host the operating system provides the key. The
/// same key gives the same secrets.
#[derive(Clone)]
pub struct Secrets {
    key: [u8; 32],
    blocks: u64,
    block: [u8; 32],
    /// Bytes of the block already used.
    used: usize,
}

impl core::fmt::Debug for Secrets {
    /// Omits the key, because debug output ends up in logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Secrets").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Secrets {
    /// A source with this key.
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key, blocks: 0, block: [0; 32], used: 32 }
    }

    /// A source for a simulation. Its key is drawn from `rng`, so that the seed determines all its secrets.
    pub fn simulated(rng: &mut Rng) -> Self {
        let mut key = [0; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_be_bytes());
        }
        Self::new(key)
    }

    /// A separate source for the component `name`. It depends on the key and the name alone, not on earlier draws.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        Self::new(self.keyed(&[b"fork", name.as_bytes()]))
    }

    /// HMAC-SHA-256 of the concatenated parts under this source's key, for values that must be computed again from their
    /// input, such as the initial sequence number of a connection (RFC 6528 §3).
    pub fn keyed(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == self.block.len() {
                self.block = self.keyed(&[b"block", &self.blocks.to_be_bytes()]);
                self.blocks += 1;
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }

    /// 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_be_bytes(bytes)
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_depend_on_the_key_and_forks_differ() {
        let mut a = Secrets::new([1; 32]);
        let fork = a.fork("x").next_u64();
        let drawn = [a.next_u64(), a.next_u64()];
        let mut b = Secrets::new([1; 32]);
        assert_eq!([b.next_u64(), b.next_u64()], drawn);
        assert_eq!(a.fork("x").next_u64(), fork, "a fork does not depend on earlier draws");
        assert_ne!(a.fork("y").next_u64(), fork);
        assert_ne!(Secrets::new([2; 32]).next_u64(), drawn[0]);
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn random_words_equal_the_random_byte_stream() {
        let (mut a, mut b) = (Secrets::new([7; 32]), Secrets::new([7; 32]));
        let mut bytes = [0; 100];
        a.fill(&mut bytes);
        for chunk in bytes.chunks(4) {
            assert_eq!(b.next_u32().to_be_bytes(), chunk);
        }
    }

    #[test]
    fn debug_output_contains_no_key() {
        assert!(!format!("{:?}", Secrets::new([0xab; 32])).contains("171"));
    }
}
