//! Keys, tokens and message authentication codes (RFC 8684 §3.1, §3.2, §3.4.1).

use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// One host's key of a connection, and the values derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The key as exchanged in `MP_CAPABLE`.
    pub secret: u64,
    /// Identifies the connection in `MP_JOIN`: the most significant 32 bits of the key's SHA-256.
    pub token: u32,
    /// Initial data sequence number: the least significant 64 bits of the key's SHA-256.
    pub idsn: u64,
}

impl Key {
    pub fn new(key: u64) -> Self {
        let digest = Sha256::digest(key.to_be_bytes());
        let token = u32::from_be_bytes(digest[..4].try_into().expect("32 bytes have 4"));
        let idsn = u64::from_be_bytes(digest[24..].try_into().expect("32 bytes end with 8"));
        Self { secret: key, token, idsn }
    }
}

fn hmac(first: &Key, second: &Key, message: &[u8]) -> [u8; 32] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&first.secret.to_be_bytes());
    key[8..].copy_from_slice(&second.secret.to_be_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The HMAC with which the host of key `from` and nonce `nonces.0` authenticates itself to the other one.
pub(super) fn join_hmac(from: &Key, to: &Key, nonces: (u32, u32)) -> [u8; 32] {
    let mut message = [0; 8];
    message[..4].copy_from_slice(&nonces.0.to_be_bytes());
    message[4..].copy_from_slice(&nonces.1.to_be_bytes());
    hmac(from, to, &message)
}

/// Leftmost 64 bits, as in the SYN/ACK of a join.
pub(super) fn left64(hmac: &[u8; 32]) -> u64 {
    u64::from_be_bytes(hmac[..8].try_into().expect("32 bytes have 8"))
}

/// Leftmost 160 bits, as in the third segment of a join.
pub(super) fn left160(hmac: &[u8; 32]) -> [u8; 20] {
    hmac[..20].try_into().expect("32 bytes have 20")
}

/// Rightmost 64 bits of the HMAC over an advertised address (RFC 8684 §3.4.1).
pub(super) fn address_hmac(from: &Key, to: &Key, (id, address, port): (u8, IpAddr, Option<u16>)) -> u64 {
    let mut message = vec![id];
    match address {
        IpAddr::V4(v4) => message.extend(v4.octets()),
        IpAddr::V6(v6) => message.extend(v6.octets()),
    }
    message.extend(port.unwrap_or(0).to_be_bytes());
    let hmac = hmac(from, to, &message);
    u64::from_be_bytes(hmac[24..].try_into().expect("32 bytes end with 8"))
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

    #[test]
    fn the_two_directions_prove_different_things() {
        let (a, b) = (Key::new(1), Key::new(2));
        let (one, other) = (join_hmac(&a, &b, (3, 4)), join_hmac(&b, &a, (4, 3)));
        assert_ne!(one, other);
        assert_eq!(left64(&one).to_be_bytes(), left160(&one)[..8]);
    }
}
