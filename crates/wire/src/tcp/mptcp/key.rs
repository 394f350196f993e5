//! Keys, and the values derived from them (RFC 8684 §3.1, §3.2).

use sha2::{Digest, Sha256};

/// One host's key of a connection, and the values derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key as exchanged in `MP_CAPABLE`.
    pub secret: u64,
    /// Identifies the connection in `MP_JOIN`: the most significant 32 bits of the key's SHA-256.
    pub token: u32,
    /// Initial data sequence number: the least significant 64 bits of the key's SHA-256.
    pub idsn: u64,
}

impl Key {
    /// A key with its token and initial data sequence number.
    pub fn new(key: u64) -> Self {
        let digest = Sha256::digest(key.to_be_bytes());
        let token = u32::from_be_bytes(digest[..4].try_into().expect("SHA-256 has at least 4 bytes"));
        let idsn =
            u64::from_be_bytes(digest[24..].try_into().expect("SHA-256 has 32 bytes, of which these are 8"));
        Self { secret: key, token, idsn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_and_idsn_are_both_ends_of_the_digest() {
        // SHA-256 of eight zero bytes: af5570f5a1810b7a f78caf4bc70a660f 0df51e42baf91d4d e5b2328de0e83dfc.
        let key = Key::new(0);
        assert_eq!(key.token, 0xaf55_70f5);
        assert_eq!(key.idsn, 0xe5b2_328d_e0e8_3dfc);
    }
}
