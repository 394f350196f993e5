//! Message authentication codes (RFC 8684 §3.2, §3.4.1).

pub(super) use anabranch_wire::tcp::mptcp::Key;

use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

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
    u64::from_be_bytes(hmac[..8].try_into().expect("the HMAC has 32 bytes"))
}

/// Leftmost 160 bits, as in the third segment of a join.
pub(super) fn left160(hmac: &[u8; 32]) -> [u8; 20] {
    hmac[..20].try_into().expect("the HMAC has 32 bytes")
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
    u64::from_be_bytes(hmac[24..].try_into().expect("the HMAC has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmacs_of_the_two_directions_differ() {
        let (a, b) = (Key::new(1), Key::new(2));
        let (one, other) = (join_hmac(&a, &b, (3, 4)), join_hmac(&b, &a, (4, 3)));
        assert_ne!(one, other);
        assert_eq!(left64(&one).to_be_bytes(), left160(&one)[..8]);
    }
}
