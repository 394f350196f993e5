//! Cookies of clients (RFC 8803 §6.2.7). A cookie proves that a client receives packets at its address, or knows a password.

use crate::auth::password_proof::Proof;
use crate::socks::wire;
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io;

/// Prefix of the authenticated bytes. With it, the code is valid for no other purpose.
const PURPOSE: &[u8] = b"anabranch-proxy convert cookie 1";
/// Length of a cookie: the maximum of TCP Fast Open (RFC 7413 §4.1.1).
const LEN: usize = 16;
/// A cookie is valid in the period in which it was created and in the next one, seconds.
const PERIOD_S: u64 = 3600;

/// Creates and checks cookies that are bound to addresses. A cookie is an HMAC under a random key of this process, so the
/// process stores no cookies.
pub struct Cookies {
    key: [u8; 32],
}

impl Cookies {
    /// Creates a random key.
    ///
    /// # Errors
    ///
    /// If the system's random generator fails.
    pub fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self { key })
    }

    /// Creates the cookie of an address at a time (seconds since 1970).
    pub fn create(&self, client: IpAddr, now_s: u64) -> Vec<u8> {
        self.mac(client, now_s / PERIOD_S).finalize().into_bytes()[..LEN].to_vec()
    }

    /// True if the cookie was created for this address in the current or the previous period. The check takes constant
    /// time.
    pub fn is_valid(&self, cookie: &[u8], client: IpAddr, now_s: u64) -> bool {
        let period = now_s / PERIOD_S;
        let of = |period| self.mac(client, period).verify_truncated_left(cookie).is_ok();
        let (now, before) = (of(period), of(period.wrapping_sub(1)));
        cookie.len() == LEN && (now || before)
    }

    /// Computes the authentication code of a client's address and a period.
    fn mac(&self, client: IpAddr, period: u64) -> Hmac<Sha256> {
        let address = match client.to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(PURPOSE);
        mac.update(&address.octets());
        mac.update(&period.to_be_bytes());
        mac
    }
}

/// Encodes a proof of a password as a cookie.
pub fn cookie_with_proof(proof: &Proof) -> Vec<u8> {
    let mut cookie = Vec::new();
    wire::emit_proof(proof, &mut cookie);
    cookie
}

/// Decodes a proof from a cookie. Zeros after the proof, which fill up the last word, are skipped.
pub fn decode_proof(cookie: &[u8]) -> Option<Proof> {
    let (proof, len) = wire::proof(cookie).ok().flatten()?;
    let padding = &cookie[len..];
    (padding.len() < super::WORD && padding.iter().all(|&byte| byte == 0)).then_some(proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_is_valid_for_one_to_two_hours() {
        let cookies = Cookies { key: [7; 32] };
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let (here, now) = (address("192.0.2.1"), 10 * PERIOD_S);
        let cookie = cookies.create(here, now);
        assert_eq!(cookie.len(), 16);
        assert!(
            cookies.is_valid(&cookie, here, now) && cookies.is_valid(&cookie, here, now + 2 * PERIOD_S - 1)
        );
        assert!(
            !cookies.is_valid(&cookie, here, now + 2 * PERIOD_S) && !cookies.is_valid(&cookie, here, now - 1)
        );
        assert!(cookies.is_valid(&cookie, address("::ffff:192.0.2.1"), now));
        assert!(!cookies.is_valid(&cookie, address("192.0.2.2"), now));
        // A shortened or extended code is invalid.
        let longer = cookies.mac(here, 10).finalize().into_bytes();
        for wrong in [&[][..], &cookie[..1], &cookie[..15], &longer] {
            assert!(!cookies.is_valid(wrong, here, now), "{wrong:?}");
        }
        assert!(!Cookies { key: [8; 32] }.is_valid(&cookie, here, now));
    }

    #[test]
    fn proof_is_padded_to_whole_words() {
        let proof =
            Proof { name: b"alice".to_vec(), time_s: 1, nonce: [2; 16], epoch: [3; 16], code: [4; 32] };
        let mut cookie = cookie_with_proof(&proof);
        assert_eq!(decode_proof(&cookie), Some(proof.clone()));
        cookie.push(0);
        assert_eq!(decode_proof(&cookie), Some(proof));
        for wrong in [
            &cookie[..cookie.len() - 2],
            &[&cookie[..], &[0; 3]].concat(),
            &[&cookie[..], &[1]].concat(),
            &[9; 16],
        ] {
            assert_eq!(decode_proof(wrong), None);
        }
    }
}
