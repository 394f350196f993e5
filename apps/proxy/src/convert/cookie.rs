//! Cookies of clients (RFC 8803 §6.2.7): proofs that a client receives packets at its address, or that it has a password.

use crate::password_proof::Proof;
use crate::socks::wire;
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io;

/// Purpose of the code, which makes it invalid for any other.
const PURPOSE: &[u8] = b"anabranch-proxy convert cookie 1";
/// Bytes of a cookie: as many as of the longest of TCP Fast Open (RFC 7413 §4.1.1).
const LEN: usize = 16;
/// A cookie is good for the period in which it was made and the next one, seconds.
const PERIOD_S: u64 = 3600;

/// Cookies that are bound to addresses: codes of them under a key of this process alone, so that nothing has to be remembered.
pub struct Cookies {
    key: [u8; 32],
}

impl Cookies {
    /// With a new key.
    ///
    /// # Errors
    ///
    /// If the system has no randomness to give.
    pub fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self { key })
    }

    /// That of an address at a time, seconds since 1970.
    pub fn of(&self, client: IpAddr, now_s: u64) -> Vec<u8> {
        self.mac(client, now_s / PERIOD_S).finalize().into_bytes()[..LEN].to_vec()
    }

    /// Whether an address was given a cookie, not long before a time. It takes as long for a wrong one.
    pub fn holds(&self, cookie: &[u8], client: IpAddr, now_s: u64) -> bool {
        let period = now_s / PERIOD_S;
        let of = |period| self.mac(client, period).verify_truncated_left(cookie).is_ok();
        let (now, before) = (of(period), of(period.wrapping_sub(1)));
        cookie.len() == LEN && (now || before)
    }

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

/// The cookie that is a proof of a password.
pub fn of_proof(proof: &Proof) -> Vec<u8> {
    let mut cookie = Vec::new();
    wire::emit_proof(proof, &mut cookie);
    cookie
}

/// The proof that is a cookie, behind which zeros fill up the last word.
pub fn proof_in(cookie: &[u8]) -> Option<Proof> {
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
        let cookie = cookies.of(here, now);
        assert_eq!(cookie.len(), 16);
        assert!(cookies.holds(&cookie, here, now) && cookies.holds(&cookie, here, now + 2 * PERIOD_S - 1));
        assert!(!cookies.holds(&cookie, here, now + 2 * PERIOD_S) && !cookies.holds(&cookie, here, now - 1));
        assert!(cookies.holds(&cookie, address("::ffff:192.0.2.1"), now));
        assert!(!cookies.holds(&cookie, address("192.0.2.2"), now));
        // A piece of a code is none, nor is one with something behind it.
        let longer = cookies.mac(here, 10).finalize().into_bytes();
        for wrong in [&[][..], &cookie[..1], &cookie[..15], &longer] {
            assert!(!cookies.holds(wrong, here, now), "{wrong:?}");
        }
        assert!(!Cookies { key: [8; 32] }.holds(&cookie, here, now));
    }

    #[test]
    fn a_proof_is_a_cookie_of_whole_words() {
        let proof =
            Proof { name: b"alice".to_vec(), time_s: 1, nonce: [2; 16], epoch: [3; 16], code: [4; 32] };
        let mut cookie = of_proof(&proof);
        assert_eq!(proof_in(&cookie), Some(proof.clone()));
        cookie.push(0);
        assert_eq!(proof_in(&cookie), Some(proof));
        for wrong in [
            &cookie[..cookie.len() - 2],
            &[&cookie[..], &[0; 3]].concat(),
            &[&cookie[..], &[1]].concat(),
            &[9; 16],
        ] {
            assert_eq!(proof_in(wrong), None);
        }
    }
}
